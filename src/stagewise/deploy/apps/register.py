"""Let nodes connect to the SuperLink of this machine, once it is up.

`python -m stagewise.deploy.apps.register --superlink 10.0.0.2:9093 --root-certificates ca.pem
c1=keys/c1.pub c2=keys/c2.pub` is `flwr supernode register keys/c1.pub --name c1` and so on. A node
must be registered before it starts.
"""

import argparse
import socket
import time
from pathlib import Path

from stagewise.deploy.flower_api import register_node
from stagewise.errors import StagewiseError, shown

WAIT_S = 60.0
_PAUSE_S = 0.2


def await_server(address: str, wait_s: float = WAIT_S) -> None:
    """Return when something listens at `address`."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + wait_s
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise StagewiseError(
                    f"superlink = {address}: must listen within {wait_s:g} s: {error}"
                ) from None
        time.sleep(_PAUSE_S)


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-register", description="Let nodes connect")
    parser.add_argument("--superlink", required=True, help="host:port of this machine's SuperLink")
    parser.add_argument("--root-certificates", required=True, type=Path, help="ca.pem")
    parser.add_argument("nodes", nargs="+", metavar="NAME=KEY.pub", help="who may connect")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    await_server(given.superlink)
    for node in given.nodes:
        name, equals, key = node.partition("=")
        if not equals or not name or not Path(key).is_file():
            raise StagewiseError(f"node = {shown(node)}: must be NAME=KEY with the file of a key")
        register_node(given.superlink, given.root_certificates, Path(key), name)
    print(f"{len(given.nodes)} nodes may connect to {given.superlink}")


if __name__ == "__main__":
    from stagewise.deploy.apps.running import run

    run(main)
