"""A SuperLink behind its request filter: `flower-superlink`, with the files of a role's folder.

`python -m stagewise.deploy.apps.superlink_app --superlink 10.0.0.1:9092 --folder cloud
--object-bytes 1000000`. Who may connect is in the folder's `nodes`, a public key for each name; it may
change meanwhile.
"""

import argparse
from pathlib import Path

from prometheus_client import CollectorRegistry

from stagewise.deploy.certificates import AUTHORITY, CERTIFICATE, KEY
from stagewise.deploy.flower_api.superlink_server import run_superlink
from stagewise.deploy.layout import NODES, SUPERLINK_SECRET
from stagewise.deploy.presence import Contacts
from stagewise.files import read_bytes


def serve_superlink(
    address: str, folder: Path, object_bytes: int, contacts: Contacts, registry: CollectorRegistry
) -> None:
    """Serve until the process is ended; it knows of nodes and runs as long as it lives."""
    host, _, port = address.rpartition(":")
    options = {
        "--host": host.strip("[]"),
        "--port": port,
        "--ssl-ca-certfile": folder / AUTHORITY,
        "--ssl-certfile": folder / CERTIFICATE,
        "--ssl-keyfile": folder / KEY,
        "--isolation": "process",
        "--superexec-auth-secret-file": folder / SUPERLINK_SECRET,
    }
    words = [str(word) for pair in options.items() for word in pair]
    words += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    secret = read_bytes(folder / SUPERLINK_SECRET)
    run_superlink(words, folder / NODES, secret, object_bytes, contacts, registry)


def arguments() -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(prog="stagewise-superlink", description="A SuperLink")
    parser.add_argument("--superlink", required=True, help="host:port that it serves")
    parser.add_argument("--folder", required=True, type=Path, help="its certificate and secrets")
    parser.add_argument("--object-bytes", required=True, type=int, help="of the largest message")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    own = Contacts(), CollectorRegistry()
    serve_superlink(given.superlink, given.folder, given.object_bytes, *own)


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
