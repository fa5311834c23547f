"""Which file of a machine's folder is which: a folder for each role it has, beside `run.sh`."""

from pathlib import Path

RUN, SITE, TASK, SCENARIO = "run.sh", "site.toml", "task.json", "scenario.json"
"""The last three are for the cloud and, `site.toml` apart, for clients."""

PROGRAMS, PROCESSES = "programs.json", "processes.json"
"""What a machine is to run, and what runs there now."""

SUPERLINK_SECRET, NODES = "superlink.secret", "nodes"
"""In the folder of a role with a SuperLink: its secret, and the keys of those who may connect."""


def host_folder(site: Path, host: str) -> Path:
    """The folder of a machine in the folder of a site."""
    return site / "hosts" / host.replace(":", "-")


def member_key(role: Path, name: str) -> Path:
    """The public key of a node that may connect to the SuperLink of a role."""
    return role / NODES / f"{name}.pub"
