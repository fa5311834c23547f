"""Command lines of Flower's programs and ours, as every machine of a deployment runs them.

An address is `host:port`. Flower's Runtime API of a SuperNode is for its executor on the same machine;
who takes tasks there, or from a SuperLink, shows that it knows a secret.
"""

from collections.abc import Mapping
from pathlib import Path

Command = list[str]

ENVIRONMENT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}
"""What every program runs with: nothing is sent to, or asked of, anybody outside the deployment."""


def options(**values: object) -> Command:
    """`--name value` for each; a list repeats its option, True is an option without a value."""
    words: Command = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            words += [option] if each is True else [option, str(each)]
    return words


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
        *options(
            superlink=superlink,
            root_certificates=authority,
            auth_supernode_private_key=key,
            host="127.0.0.1",
            port=port,
            isolation="process",
            superexec_auth_secret_file=secret,
            node_config=f'id="{owner}"',
        ),
    ]


def register_command(superlink: str, authority: Path, nodes: Mapping[str, Path]) -> Command:
    """Wait for the SuperLink on this machine and let nodes connect: name -> public key."""
    return [
        *("python", "-m", "stagewise.deploy.apps.register"),
        *options(superlink=superlink, root_certificates=authority),
        *(f"{name}={key}" for name, key in nodes.items()),
    ]
