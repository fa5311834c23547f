"""A server that is killed at random moments while clients ask it round after round."""

import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import msgspec

import stagewise
from helpers import wait_until
from serve_cases import decided_in_process, scenario_file, small_rounds, small_scenario, timeless
from stagewise.client.http import Connection
from stagewise.client.wire import request_of

POLICY = "oort,k=8+nearest"  # its decisions depend on all rounds before
_CLIENTS = 3
_MOST_ROUNDS = 20_000
_COMPARED = 150


@dataclass
class Asked:
    """One client's federation: what it was told, and what went wrong."""

    name: str
    lines: list[bytes] = field(default_factory=list)
    error: Exception | None = None


def start_server(store: str, port: int, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "stagewise", "serve", "--port", str(port), "--store", store]
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, cwd=folder)


def connect(port: int) -> Connection:
    return Connection(urlsplit(f"http://127.0.0.1:{port}"), None, 120.0, None)


def kill_under_load(store: str, moments: int, folder: Path, seed: int = 0) -> tuple[int, int]:
    """Kill a server at so many moments; how many decisions were acknowledged, and requests were lost.

    An error if an acknowledged decision is not there exactly once, or is not the policy's own.
    """
    draw = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    scenario = small_scenario()
    rounds = small_rounds(scenario, 200)
    server = start_server(store, port, folder)
    asked = [Asked(f"f{number}") for number in range(_CLIENTS)]
    enough = Event()
    try:
        connection = connect(port)
        sent, _ = connection.ask("POST", "/v1/scenarios", scenario_file(scenario))
        body = {"scenario": msgspec.json.decode(sent)["sha256"], "policy": POLICY}
        for client in asked:
            path = f"/v1/federations/{client.name}"
            connection.ask("PUT", path, msgspec.json.encode(body))
            connection.ask("GET", f"{path}/ready")
        threads = [Thread(target=_ask, args=(client, port, rounds, enough)) for client in asked]
        for thread in threads:
            thread.start()
        for _ in range(moments):
            _await_progress(asked)
            time.sleep(draw.uniform(0.0, 0.6))
            server.kill()
            server.wait()
            server = start_server(store, port, folder)
        _await_progress(asked)
        enough.set()
        for thread in threads:
            thread.join()
        for client in asked:
            _check(client, connection, scenario, rounds)
        connection.close()
    finally:
        enough.set()
        server.kill()
        server.wait()
    return sum(len(client.lines) for client in asked), moments


def _await_progress(asked: list[Asked]) -> None:
    """Wait until every client was told something since the last kill."""
    before = [len(client.lines) for client in asked]
    wait_until(
        lambda: all(
            client.error is not None or len(client.lines) > count
            for client, count in zip(asked, before, strict=True)
        ),
        120.0,
    )


def _ask(client: Asked, port: int, rounds: list, enough: Event) -> None:
    connection = connect(port)
    path = f"/v1/federations/{client.name}"
    try:
        for index in range(_MOST_ROUNDS):
            if enough.is_set():
                break
            round_ = stagewise.Round(rounds[0].scenario, rounds[index % len(rounds)].online, index)
            body = msgspec.json.encode(request_of(round_, {}))
            client.lines.append(connection.ask("POST", f"{path}/decisions", body)[0])
            if index % 2:
                told = msgspec.json.encode({"accuracy": 0.5})
                connection.ask("PUT", f"{path}/outcomes/{index}", told)
    except Exception as error:
        client.error = error
    finally:
        connection.close()


def _check(client: Asked, connection: Connection, scenario, rounds: list) -> None:
    if client.error is not None:
        raise client.error
    path = f"/v1/federations/{client.name}"
    kept: list[bytes] = []
    while True:
        part, _ = connection.ask("GET", f"{path}/decisions?first={len(kept)}&count=1000")
        if not part:
            break
        kept += part.splitlines(keepends=True)
    assert kept == client.lines, f"{client.name}: {len(client.lines)} told, {len(kept)} kept"
    policy = stagewise.make_policy(POLICY, scenario)
    played = [
        stagewise.Round(scenario, rounds[index % len(rounds)].online, index)
        for index in range(min(len(kept), _COMPARED))
    ]
    expected = [p.decision for p in stagewise.run_rounds(policy, played)]
    assert [timeless(line) for line in kept[:_COMPARED]] == decided_in_process(expected)
