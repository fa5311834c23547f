"""The command line of every program of a deployment, on one machine or on many.

An address is `host:port`. Flower's Runtime API of a SuperNode is for its executor on the same machine;
who takes tasks there, or from a SuperLink, shows that it knows a secret.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stagewise.deploy.certificates import ServerCertificate

Command = list[str]

ENVIRONMENT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}
"""What every program runs with: nothing is told to, or asked of, anybody outside the deployment."""


def superlink_command(
    host: str,
    port: int,
    tls: ServerCertificate,
    secret: Path,
    database: Path,
    python: str = "python",
) -> Command:
    """`flower-superlink` for registered nodes, which other machines reach as such and not otherwise.

    What it knows of nodes is in the `database`, and outlasts it.
    """
    return [
        *(python, "-m", "stagewise.deploy.guard"),
        *("--host", host, "--port", str(port)),
        *("--ssl-ca-certfile", str(tls.authority)),
        *("--ssl-certfile", str(tls.certificate)),
        *("--ssl-keyfile", str(tls.key)),
        "--enable-supernode-auth",
        *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
        *("--database", str(database)),
        "--disable-runtime-dependency-installation",
    ]


def supernode_command(
    owner: str,
    superlink: str,
    authority: Path,
    key: Path,
    port: int,
    secret: Path,
    program: str = "flower-supernode",
) -> Command:
    """A SuperNode of the client or edge `owner`, its executor's API at `port` on loopback."""
    return [
        program,
        *("--superlink", superlink),
        *("--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(key)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
        *("--node-config", f'id="{owner}"'),
    ]


def register_command(
    superlink: str, authority: Path, nodes: Mapping[str, Path], python: str = "python"
) -> Command:
    """Wait for the SuperLink on this machine and let nodes connect: name -> public key."""
    return [
        *(python, "-m", "stagewise.deploy.apps.register"),
        *("--superlink", superlink),
        *("--root-certificates", str(authority)),
        *(f"{name}={key}" for name, key in nodes.items()),
    ]


def client_command(
    client: str,
    ports: Sequence[int],
    secret: Path,
    task: Path,
    scenario: Path,
    python: str = "python",
) -> Command:
    """A client's executor, which trains for its SuperNodes at `ports`."""
    return [
        *(python, "-m", "stagewise.deploy.apps.client_app"),
        *("--client", client),
        *(word for port in ports for word in ("--node", f"127.0.0.1:{port}")),
        *("--secret", str(secret)),
        *("--task", str(task), "--scenario", str(scenario)),
    ]


def edge_command(
    edge: str,
    port: int,
    node_secret: Path,
    superlink: str,
    authority: Path,
    superlink_secret: Path,
    python: str = "python",
) -> Command:
    """An edge's executor: client of the cloud through its SuperNode, server of its own SuperLink."""
    return [
        *(python, "-m", "stagewise.deploy.apps.edge_app"),
        *("--edge", edge),
        *("--node", f"127.0.0.1:{port}", "--node-secret", str(node_secret)),
        *("--superlink", superlink),
        *("--root-certificates", str(authority)),
        *("--superlink-secret", str(superlink_secret)),
    ]


def coordinator_command(site: Path, out: Path, program: str = "stagewise") -> Command:
    """The cloud's loop for the site whose `site.toml` is in the folder `site`."""
    return [program, "deploy", "up", "--site", str(site), "--out", str(out)]
