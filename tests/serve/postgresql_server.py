"""A PostgreSQL server of our own on loopback, in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers import wait_until

_OPTIONS = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=300")


def programs() -> Path | None:
    """The folder of the newest server's programs; None where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@contextmanager
def running(within: Path) -> Iterator[str]:
    """The address of a server, without a database's name, as long as the block lasts."""
    # The server refuses to run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    as_user = user if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="stagewise-pg-", dir="/tmp"))
    if as_user:
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    subprocess.run(
        [*as_user, within / "initdb", "-D", data, "-A", "trust", "-U", "stagewise", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*as_user, within / "postgres", "-D", data, "-p", str(port), "-k", folder]
        + [part for option in _OPTIONS for part in ("-c", option)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    address = f"postgresql://stagewise@127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(address))
        yield address
    finally:
        server.send_signal(signal.SIGINT)  # at once, whoever is still connected
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def new_database(address: str) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return f"{address}/{name}"


def _answers(address: str) -> bool:
    import psycopg

    try:
        psycopg.connect(f"{address}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True
