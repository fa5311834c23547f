"""Which file of a machine's folder is which: a folder for each role it has, beside `run.sh`."""

from pathlib import Path

RUN, SITE, TASK, SCENARIO = "run.sh", "site.toml", "task.json", "scenario.json"
"""The last three are for the cloud and, `site.toml` apart, for clients."""

SUPERLINK_SECRET, NODE_SECRET = "superlink.secret", "node.secret"
"""In the folder of a role: of its SuperLink, and of its SuperNodes."""


def host_folder(site: Path, host: str) -> Path:
    """The folder of a machine in the folder of a site."""
    return site / "hosts" / host.replace(":", "-")


def member_key(role: Path, name: str) -> Path:
    """The public key of a node that may connect to the SuperLink of a role."""
    return role / "nodes" / f"{name}.pub"
