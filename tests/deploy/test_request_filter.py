"""What a SuperLink's request filter lets through, and what it refuses before a body is read."""

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest

from stagewise.deploy.exchange import ClientReport
from stagewise.deploy.limits import Rates, SeenOnce
from stagewise.deploy.metrics import EdgeMetrics
from stagewise.deploy.presence import GRACE_S, Contacts
from stagewise.deploy.request_filter import (
    FLEET,
    LAST,
    METRICS,
    NOTE,
    PRESENT,
    SEEN,
    TOKEN,
    WAIT,
    Member,
    Receive,
    Refused,
    RequestFilter,
    Scope,
    Send,
    is_own,
)

HERE, THERE = "10.0.0.1", "10.0.0.2"
SECRET, OBJECT_BYTES = "token", 100_000
C0, C1 = Member("c0", 10), Member("c1", 11)


class Register:
    """Two nodes; the header `key` says who signs, `signature` with what."""

    def __init__(self) -> None:
        self.made_room: list[str] = []

    def signed_by(self, headers: dict[str, str]) -> tuple[Member, bytes]:
        for member in (C0, C1):
            if headers.get("key") == member.name:
                return member, headers["signature"].encode()
        raise Refused(401, "signed with a key that is not known")

    def senders(self, body: bytes) -> Sequence[tuple[int, bool]]:
        return [(int(word.strip("!")), not word.endswith("!")) for word in body.decode().split()]

    def make_room(self, member: Member) -> None:
        self.made_room.append(member.name)

    def node_ids(self) -> dict[str, int]:
        return {member.name: member.node_id for member in (C0, C1)}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class FilterCase:
    """A filter before an application that answers 200 to everything and keeps what it was given."""

    def __init__(self) -> None:
        self.passed: list[tuple[str, bytes]] = []
        self.said: list[str] = []
        self.register, self.clock = Register(), Clock()
        self.contacts = Contacts()
        self.taken = 0
        self.filter = RequestFilter(
            self._app,
            self.register,
            SECRET,
            "metrics",
            OBJECT_BYTES,
            contacts=self.contacts,
            clock=self.clock,
            say=self.said.append,
        )
        self._signatures = 0

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"") if scope["type"] == "http" else b""
        self.passed.append((scope.get("path", scope["type"]), body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def request(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        client: str | None = THERE,
        kind: str = "http",
        gone: asyncio.Event | None = None,
    ) -> list[MutableMapping[str, Any]]:
        """What is answered; the body comes in parts of 1000 bytes, of which `taken` are counted."""
        scope = {
            "type": kind,
            "path": path,
            "client": None if client is None else (client, 40000),
            "server": (HERE, 9092),
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
        }
        parts = [body[i : i + 1000] for i in range(0, max(1, len(body)), 1000)]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if not parts:
                await (gone or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            part = parts.pop(0)
            self.taken += len(part)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self.filter(scope, receive, send)
        return sent

    def ask(self, *arguments: Any, **named: Any) -> int:
        """The status of the answer."""
        return int(asyncio.run(self.request(*arguments, **named))[0]["status"])

    def signed(self, name: str = "c0", **more: str) -> dict[str, str]:
        self._signatures += 1
        return {"key": name, "signature": str(self._signatures), **more}


@pytest.fixture
def case() -> FilterCase:
    return FilterCase()


OWNERS_PATHS = [
    "/v1/control/register-node",
    "/v1/control/start-run",
    "/v1/control/stop-run",
    "/v1/runtime/acquire-task",
    PRESENT,
    "/docs",
    "/",
    "/v1/fleet",
    "/v1/fleetx/pull-messages",
    "/v1/control/v1/fleet/",
    "//v1/fleet/pull-messages",
]


class TestControl:
    @pytest.mark.parametrize("path", OWNERS_PATHS)
    def test_other_machines_are_refused_what_is_the_owners(
        self, case: FilterCase, path: str
    ) -> None:
        assert case.ask(path, {TOKEN: SECRET}) == 403
        assert case.ask(path, case.signed(**{TOKEN: SECRET})) == 403
        assert case.passed == []

    @pytest.mark.fault(
        "A program of the server's own machine lists, starts or stops runs without the token",
        "it is refused",
    )
    @pytest.mark.parametrize("path", OWNERS_PATHS)
    @pytest.mark.parametrize("client", [HERE, "127.0.0.1", "127.8.9.1", "::1"])
    def test_so_is_this_machine_without_the_token(
        self, case: FilterCase, path: str, client: str
    ) -> None:
        for headers in ({}, {TOKEN: "x"}, {TOKEN: ""}, {TOKEN: SECRET + "x"}, {TOKEN: "\u00fc"}):
            assert case.ask(path, headers, client=client) == 401
        assert case.passed == []
        assert case.ask(path, {TOKEN: SECRET}, client=client) == 200

    def test_a_websocket_is_closed(self, case: FilterCase) -> None:
        answer = asyncio.run(case.request("/v1/control/stream", kind="websocket", client=HERE))
        assert answer == [{"type": "websocket.close", "code": 1008}]

    def test_the_servers_own_start_and_end_pass(self, case: FilterCase) -> None:
        asyncio.run(case.request("", kind="lifespan"))
        assert len(case.passed) == 1

    @pytest.mark.parametrize("client", [None, "", "testclient"])
    def test_an_unknown_sender_is_another_machine(self, client: str | None) -> None:
        place = None if client is None else (client, 40000)
        assert not is_own({"client": place, "server": (HERE, 9092)})


class TestNodes:
    def test_who_signs_is_let_through_from_anywhere(self, case: FilterCase) -> None:
        assert case.ask(f"{FLEET}send-node-heartbeat", case.signed(), b"beat") == 200
        assert case.passed == [(f"{FLEET}send-node-heartbeat", b"beat")]

    @pytest.mark.parametrize("headers", [{}, {"key": "c9", "signature": "1"}])
    def test_nothing_of_a_strangers_body_is_read(
        self, case: FilterCase, headers: dict[str, str]
    ) -> None:
        for client in (THERE, "127.0.0.1"):
            for path in (f"{FLEET}push-object", f"{FLEET}pull-messages", NOTE):
                assert case.ask(path, headers, b"x" * 50_000, client=client) == 401
        assert (case.taken, case.passed) == (0, [])

    def test_a_request_that_was_sent_before_is_refused(self, case: FilterCase) -> None:
        headers = case.signed()
        path = f"{FLEET}push-object"
        assert case.ask(path, headers) == 200
        assert case.ask(path, headers) == 401
        assert case.ask(f"{FLEET}pull-object", headers) == 401
        case.clock.now += 300
        assert case.ask(path, headers) == 401
        assert case.filter.refused.count == {"c0: a request that was sent before": 3}

    @pytest.mark.parametrize("announced", [True, False])
    def test_a_body_that_is_too_large_is_not_read_to_its_end(
        self, case: FilterCase, announced: bool
    ) -> None:
        for path, limit in ((f"{FLEET}push-object", OBJECT_BYTES), (f"{FLEET}get-run", 65536)):
            case.taken = 0
            body = b"x" * (3 * limit)
            headers = case.signed(**({"content-length": str(len(body))} if announced else {}))
            assert case.ask(path, headers, body) == 413
            assert case.taken <= (0 if announced else limit + 1000)
            assert case.ask(path, case.signed(), b"x" * limit) == 200
        assert case.ask(path, case.signed(**{"content-length": "-1"})) == 413

    def test_nobody_answers_in_the_name_of_another(self, case: FilterCase) -> None:
        path = f"{FLEET}push-messages"
        assert case.ask(path, case.signed("c0"), b"10 10") == 200
        assert case.ask(path, case.signed("c0"), b"11") == 403
        assert case.ask(path, case.signed("c0"), b"10 11") == 403
        assert case.filter.refused.count == {"c0: sends in the name of another": 2}

    def test_nobody_but_the_server_sends_orders(self, case: FilterCase) -> None:
        path = f"{FLEET}push-messages"
        assert case.ask(path, case.signed("c0"), b"1!") == 403  # as if from the server
        assert case.ask(path, case.signed("c0"), b"10!") == 403
        assert len(case.passed) == 0
        assert case.filter.refused.count == {"c0: sends an order, as only the server may": 2}

    @pytest.mark.fault("A node floods its server", "it is slowed down, the others are not")
    def test_too_many_requests_are_refused_and_later_ones_are_not(self, case: FilterCase) -> None:
        async def flood(name: str, count: int) -> list[int]:
            path = f"{FLEET}send-node-heartbeat"
            answers = [await case.request(path, case.signed(name)) for _ in range(count)]
            return [answer[0]["status"] for answer in answers]

        statuses = asyncio.run(flood("c0", 1200))
        assert (statuses.count(200), statuses.count(429)) == (1000, 200)
        assert asyncio.run(flood("c1", 1)) == [200]
        case.clock.now += 1.0
        assert asyncio.run(flood("c0", 1)) == [200]
        assert len(case.said) == 1  # not 200 lines

    def test_strangers_are_slowed_down_and_nodes_at_their_address_are_not(
        self, case: FilterCase
    ) -> None:
        statuses = [case.ask(f"{FLEET}push-object") for _ in range(150)]
        assert (statuses.count(401), statuses.count(429)) == (100, 50)
        assert case.ask(f"{FLEET}push-object", case.signed()) == 200

    @pytest.mark.fault("A second process with a connected node's key", "it is refused")
    def test_a_second_process_of_the_same_name_is_refused(self, case: FilterCase) -> None:
        async def act() -> list[int]:
            assert (await self.activate(case))[0]["status"] == 200
            waits = {WAIT: "5", SEEN: "0"}
            poll = asyncio.ensure_future(
                case.request(f"{FLEET}pull-messages", case.signed(**waits))
            )
            await asyncio.sleep(0)
            second = (await self.activate(case))[0]["status"]
            poll.cancel()
            return [second]

        assert asyncio.run(act()) == [409]
        assert case.register.made_room == ["c0"]

    async def activate(self, case: FilterCase) -> list[MutableMapping[str, Any]]:
        return await case.request(f"{FLEET}activate-node", case.signed())


class TestWaiting:
    def test_an_order_wakes_those_who_wait_for_one(self, case: FilterCase) -> None:
        async def act() -> tuple[bool, bytes]:
            path = f"{FLEET}pull-messages"
            first = await case.request(path, case.signed())
            version = dict(first[0]["headers"])[SEEN.encode()].decode()
            waits = {WAIT: "5", SEEN: version}
            poll = asyncio.ensure_future(case.request(path, case.signed(**waits)))
            await asyncio.sleep(0.01)
            waited = not poll.done()
            own = {TOKEN: SECRET, LAST: "1"}
            await case.request("/v1/runtime/push-object", own, client=HERE)
            return waited, dict((await poll)[0]["headers"])[SEEN.encode()]

        assert asyncio.run(act()) == (True, b"1")

    def test_nothing_that_happened_before_a_request_is_missed(self, case: FilterCase) -> None:
        async def act() -> int:
            own = {TOKEN: SECRET, LAST: "1"}
            await case.request("/v1/runtime/push-object", own, client=HERE)
            headers = case.signed(**{WAIT: "5", SEEN: "0"})
            return len(await case.request(f"{FLEET}pull-messages", headers))

        assert asyncio.run(asyncio.wait_for(act(), 3)) == 2

    def test_a_reply_wakes_the_server_and_half_of_one_does_not(self, case: FilterCase) -> None:
        async def act() -> tuple[bool, int]:
            waits = {TOKEN: SECRET, WAIT: "5", SEEN: "0"}
            path = "/v1/runtime/pull-messages"
            poll = asyncio.ensure_future(case.request(path, waits, client=HERE))
            await case.request(f"{FLEET}push-object", case.signed(), b"part")
            await asyncio.sleep(0.01)
            waited = not poll.done()
            await case.request(f"{FLEET}push-object", case.signed(**{LAST: "1"}), b"rest")
            return waited, len(await poll)

        assert asyncio.run(act()) == (True, 2)


class TestPresence:
    def test_a_node_is_there_while_it_waits_and_gone_when_its_process_is(
        self, case: FilterCase
    ) -> None:
        async def act() -> list[set[str]]:
            gone, seen = asyncio.Event(), []
            headers = case.signed(**{WAIT: "5", SEEN: "0"})
            poll = asyncio.ensure_future(case.request(f"{FLEET}pull-messages", headers, gone=gone))
            await asyncio.sleep(0)
            case.clock.now += 100
            seen.append(set(case.contacts.present(case.clock())))
            gone.set()
            await poll
            seen.append(set(case.contacts.present(case.clock())))
            return seen

        assert asyncio.run(act()) == [{"c0"}, set()]

    def test_who_is_between_two_requests_is_there_for_a_while(self, case: FilterCase) -> None:
        assert case.ask(f"{FLEET}send-node-heartbeat", case.signed()) == 200
        assert set(case.contacts.present(case.clock.now + GRACE_S - 0.1)) == {"c0"}
        assert case.contacts.present(case.clock.now + GRACE_S) == {}

    def test_the_owner_is_told_who_is_there_and_what_each_said(self, case: FilterCase) -> None:
        assert case.ask(NOTE, case.signed("c1"), b"news") == 204
        answer = asyncio.run(case.request(PRESENT, {TOKEN: SECRET}, client=HERE))
        assert answer[1]["body"] == b'{"nodes":{"c1":[11,"news"]},"refused":{}}'


def test_metrics_for_whoever_shows_their_token() -> None:
    case = FilterCase()
    case.ask(f"{FLEET}send-node-heartbeat", case.signed())
    case.ask(f"{FLEET}send-node-heartbeat", case.signed("c9"))
    edge = EdgeMetrics(case.filter.registry)
    for fates in (["counted", "late"], ["counted"]):
        edge.add([ClientReport("c0", "e0", 0, fate, "") for fate in fates], 1.5)
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic metrics"}):
        assert case.ask(METRICS, headers, client=HERE) == 401
    prometheus = {"authorization": "Bearer metrics"}
    assert case.ask(METRICS, prometheus) == 403  # from another machine
    assert case.ask("/v1/control/stop-run", prometheus | {TOKEN: "metrics"}, client=HERE) == 401
    start, body = asyncio.run(case.request(METRICS, prometheus, client=HERE))
    assert start["status"] == 200
    lines = body["body"].decode().splitlines()
    assert 'stagewise_requests_total{status="200"} 1.0' in lines
    assert 'stagewise_refused_total{status="401"} 5.0' in lines
    assert 'stagewise_refused_total{status="403"} 1.0' in lines
    assert "stagewise_nodes_in_touch 0.0" in lines  # by the real clock, not the test's
    assert "stagewise_rounds_total 2.0" in lines
    assert "stagewise_round_seconds_total 3.0" in lines
    found = [line for line in lines if line.startswith("stagewise_updates_total")]
    values = {"counted": 2.0, "late": 1.0, "rejected": 0.0, "lost": 0.0}
    assert sorted(found) == sorted(
        f'stagewise_updates_total{{fate="{fate}"}} {value}' for fate, value in values.items()
    )


def test_rates_are_by_sender_and_forget_the_oldest() -> None:
    rates = Rates(per_second=1, burst=2)
    assert [rates.allows("a", 0.0) for _ in range(3)] == [True, True, False]
    assert rates.allows("b", 0.0)
    assert rates.allows("a", 1.0)
    for number in range(5000):
        rates.allows(str(number), 2.0)
    assert len(rates._left) <= 4096


def test_what_was_seen_is_forgotten_only_after_its_time() -> None:
    seen = SeenOnce()
    assert seen.first_time(b"a", 1000.0)
    assert not seen.first_time(b"a", 1319.0)
    assert not seen.first_time(b"a", 1321.0)
    assert seen.first_time(b"a", 3000.0) or seen.first_time(b"a", 3400.0)
