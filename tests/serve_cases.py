"""A service within the test's process, asked over HTTP."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partialmethod
from http.client import HTTPConnection
from threading import Thread
from typing import Any, NamedTuple

import msgspec

import stagewise
from helpers import wait_until
from stagewise.client.wire import request_of
from stagewise.serve.access import Access
from stagewise.serve.app import make_app
from stagewise.serve.server import make_server
from stagewise.serve.service import Service
from stagewise.serve.traces import NO_TRACES
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_json import json_parts

TIMINGS = {"decision_ms", "plan_ms"}


class Answered(NamedTuple):
    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Asks a server, a connection for each request: a server may be gone by the next."""

    def __init__(self, port: int, service: Service) -> None:
        self.port, self.service = port, service
        self.address = f"http://127.0.0.1:{port}"

    def ask(
        self,
        method: str,
        path: str,
        json: Any = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        if json is not None:
            content = msgspec.json.encode(json)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(connection):
            connection.request(method, path, content, headers or {})
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, told, answer.read())

    get = partialmethod(ask, "GET")
    post = partialmethod(ask, "POST")
    put = partialmethod(ask, "PUT")
    delete = partialmethod(ask, "DELETE")


@contextmanager
def serving(store: str, runs: str | None = None, **options: Any) -> Iterator[Client]:
    """A client of a server on `store`, in a thread of this process."""
    access, traces = options.pop("access", Access(None)), options.pop("traces", NO_TRACES)
    service = Service.open(store, runs, access, traces)
    app = make_app(service, **options)
    server = make_server(app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            assert server.started
            yield Client(listening.getsockname()[1], service)
        finally:
            server.should_exit = True
            thread.join(30)


def scenario_file(scenario: Scenario) -> bytes:
    return b"".join(json_parts(scenario))


def small_scenario(seed: int = 0) -> Scenario:
    return stagewise.generate.numeric(clients=30, edges=2, seed=seed)


def small_rounds(scenario: Scenario, rounds: int = 6) -> list[Round]:
    return stagewise.participation.bernoulli(scenario, rounds=rounds, seed=1)


def create(client: Client, scenario: Scenario, name: str = "a", **settings: Any) -> None:
    """A federation whose policy is ready."""
    sent = client.post("/v1/scenarios", content=scenario_file(scenario))
    assert sent.status_code == 201, sent.text
    body = {"scenario": sent.json()["sha256"], "policy": "local-search", **settings}
    made = client.put(f"/v1/federations/{name}", json=body)
    assert made.status_code in (200, 201), made.text
    await_ready(client, name)


def await_ready(client: Client, name: str = "a") -> None:
    wait_until(lambda: client.get(f"/v1/federations/{name}").json()["state"] != "preparing")
    found = client.get(f"/v1/federations/{name}").json()
    assert found["state"] == "ready", found["error"]


def ask(client: Client, round_: Round, name: str = "a", **headers: str) -> bytes:
    """The line of the decision."""
    body = msgspec.json.encode(request_of(round_, {}))
    answer = client.post(f"/v1/federations/{name}/decisions", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.content


def timeless(line: bytes) -> dict[str, Any]:
    """What must be the same whenever it is asked."""
    return {name: value for name, value in json.loads(line).items() if name not in TIMINGS}


def decided_in_process(decisions: list[Any]) -> list[dict[str, Any]]:
    return [timeless(msgspec.json.encode(decision.record())) for decision in decisions]
