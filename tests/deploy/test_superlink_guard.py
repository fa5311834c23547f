"""What other machines can ask of a SuperLink."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from stagewise.deploy.guard import FleetOnly, Receive, Scope, Send, is_own

HERE, THERE = "10.0.0.1", "10.0.0.2"


def scope(path: str, client: str | None, kind: str = "http", server: str = HERE) -> Scope:
    return {
        "type": kind,
        "path": path,
        "client": None if client is None else (client, 40000),
        "server": (server, 9092),
    }


def answer(request: Scope) -> list[MutableMapping[str, Any]]:
    """What the guarded application sends; the application itself says 'reached'."""
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "reached"})

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(FleetOnly(app)(request, receive, send))
    return sent


REACHED = [{"type": "reached"}]
OWNERS_PATHS = [
    "/v1/control/register-node",
    "/v1/control/start-run",
    "/v1/runtime/acquire-task",
    "/docs",
    "/",
    "/v1/fleet",
    "/v1/fleetx/pull-messages",
    "/v1/control/v1/fleet/",
    "//v1/fleet/pull-messages",
]


@pytest.mark.parametrize("path", OWNERS_PATHS)
def test_other_machines_are_refused_what_is_the_owners(path: str) -> None:
    start, body = answer(scope(path, THERE))
    assert start["status"] == 403
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(body["body"])


@pytest.mark.parametrize("path", OWNERS_PATHS)
@pytest.mark.parametrize("client", [HERE, "127.0.0.1", "127.8.9.1", "::1"])
def test_this_machine_reaches_everything(path: str, client: str) -> None:
    assert answer(scope(path, client)) == REACHED


def test_nodes_are_answered_from_anywhere() -> None:
    assert answer(scope("/v1/fleet/pull-messages", THERE)) == REACHED


def test_a_websocket_of_another_machine_is_closed() -> None:
    assert answer(scope("/v1/control/stream", THERE, "websocket")) == [
        {"type": "websocket.close", "code": 1008}
    ]


def test_the_servers_own_start_and_end_pass() -> None:
    assert answer({"type": "lifespan"}) == REACHED


@pytest.mark.parametrize("client", [None, "", "testclient"])
def test_an_unknown_sender_is_another_machine(client: str | None) -> None:
    assert not is_own(scope("/docs", client))


def test_flower_builds_its_server_with_the_guard_outermost(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr", reason="the deploy extra is not installed")
    from flwr.superlink import extensions, main

    from stagewise.deploy import guard

    monkeypatch.setattr(extensions, "get_middleware", extensions.get_middleware)
    monkeypatch.setattr("flwr.superlink.cli.flower_superlink", lambda: None)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    guard.main()
    assert main._get_middleware()[0].cls is FleetOnly
    assert guard.os.environ["FORWARDED_ALLOW_IPS"] == ""
