"""A filter before a SuperLink, which sees every request before its body is read.

Flower serves three interfaces on one port, asks nobody who registers nodes or starts and stops runs,
reads a body of any size before it looks at the signature, and lets whoever has a node's key send in the
name of all nodes. Here nodes are answered under `/v1/fleet/` alone, each under a key that is known, by a
signature that is fresh and was not seen before, in their own name, up to a size and a rate. The rest is
for programs of this machine that know the SuperLink's secret.
"""

import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry

from stagewise.deploy.limits import Counts, Rates, SeenOnce
from stagewise.deploy.metrics import CONTENT_TYPE, FilterMetrics
from stagewise.deploy.presence import ChangeNotifier, Contacts

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

FLEET = "/v1/fleet/"
NOTE, PRESENT, METRICS = "/v1/fleet/stagewise-note", "/stagewise/present", "/metrics"
"""Ours: what a node says of itself, who is in touch, and what Prometheus reads."""

TOKEN, WAIT, SEEN, LAST = (f"x-stagewise-{name}" for name in ("token", "wait", "seen", "last"))
"""Headers: the control token; how long to wait for news since which; that a message is complete."""

SMALL, NOTES = 64 * 1024, 1024 * 1024
"""The bodies of requests that carry no model, in bytes."""


class Refused(Exception):
    """A request that is not answered; `who` and `why` are counted and said."""

    def __init__(self, status: int, why: str, who: str = "") -> None:
        super().__init__(why)
        self.status, self.why, self.who = status, why, who


@dataclass(frozen=True)
class Member:
    """A node that may connect."""

    name: str
    node_id: int


class Site(Protocol):
    """What the filter must know of the SuperLink behind it."""

    def signed_by(self, headers: dict[str, str]) -> tuple[Member, bytes]:
        """Who signed a request, and what tells it from others; an error if nobody did, or not now."""
        ...

    def senders(self, body: bytes) -> Sequence[tuple[int, bool]]:
        """Of messages that are pushed: from which node each is, and whether it is a reply."""
        ...

    def make_room(self, member: Member) -> None:
        """A node connects: what is left of an earlier connection of its own goes."""
        ...

    def node_ids(self) -> dict[str, int]:
        """The ids of all nodes that may connect, by name."""
        ...


@dataclass(eq=False)
class RequestFilter:
    """An ASGI middleware, outermost; `object_bytes` is the largest body that may carry a model."""

    app: Application
    site: Site
    token: str
    metrics_token: str
    """Lets its owner read `/metrics`, and nothing else."""
    object_bytes: int
    contacts: Contacts = field(default_factory=Contacts)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Where `/metrics` finds counters, those of others too."""
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda line: print(line, flush=True)
    record: Callable[[dict[str, int]], None] = lambda refused: None
    """Keeps how often what was refused; called whenever it is said."""

    def __post_init__(self) -> None:
        self.refused = Counts()
        self._strangers = Rates(per_second=20, burst=100)
        self._nodes = Rates(per_second=300, burst=1000)
        self._seen = SeenOnce()
        self._orders, self._replies = ChangeNotifier(), ChangeNotifier()
        self._metrics = FilterMetrics(self.contacts, self.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        try:
            if scope["path"].startswith(FLEET):
                await self._fleet(scope, headers, receive, send)
            elif is_own(scope):
                await self._own(scope, headers, receive, send)
            else:
                raise Refused(403, "only nodes are answered from other machines")
        except Refused as refusal:
            await self._refuse(scope, refusal, send)

    async def _fleet(
        self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        path, now = scope["path"], self.clock()
        member, request = self.site.signed_by(headers)
        if not self._seen.first_time(request, now):
            raise Refused(401, "a request that was sent before", member.name)
        if not self._nodes.allows(member.name, now):
            raise Refused(429, "too many requests", member.name)
        limit = {f"{FLEET}push-object": self.object_bytes, NOTE: NOTES}.get(path, SMALL)
        body = await _read(receive, headers, limit, member.name)
        if path == NOTE:
            self.contacts.say(member.name, body.decode(errors="replace"), now)
            await _respond(send, 204, b"")
            return
        if path == f"{FLEET}push-messages":
            self._check_senders(member, body)
        elif path == f"{FLEET}activate-node":
            if self.contacts.is_listening(member.name):
                raise Refused(409, "is connected already", member.name)
            self.site.make_room(member)
        if path == f"{FLEET}pull-messages":
            with self.contacts.listening(member.name, self.clock) as left:
                if not await self._orders.wait(*_waits(headers), receive):
                    left()
                    return
                await self._pass(scope, body, receive, send, self._orders)
        else:
            self.contacts.heard(member.name, now)
            if await self._pass(scope, body, receive, send) and LAST in headers:
                self._replies.notify()

    async def _own(
        self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        path, shown, token = scope["path"], headers.get(TOKEN, ""), self.token
        if path == METRICS:  # which takes a token of its own, in the way of Prometheus
            shown, token = headers.get("authorization", ""), f"Bearer {self.metrics_token}"
        if not hmac.compare_digest(shown.encode(), token.encode()):
            raise Refused(401, "without the token of this SuperLink")
        if path == METRICS:
            await _respond(send, 200, self._metrics.text(), {"content-type": CONTENT_TYPE})
            return
        if path == PRESENT:
            notifier = self.contacts.changed
            if await notifier.wait(*_waits(headers), receive):
                await _respond(send, 200, self._present(), {SEEN: str(notifier.version)})
            return
        body = await _read(receive, headers, self.object_bytes, "")
        if path == "/v1/runtime/pull-messages":
            if await self._replies.wait(*_waits(headers), receive):
                await self._pass(scope, body, receive, send, self._replies)
        elif await self._pass(scope, body, receive, send) and LAST in headers:
            self._orders.notify()

    def _check_senders(self, member: Member, body: bytes) -> None:
        for node_id, replies in self.site.senders(body):
            if not replies:
                raise Refused(403, "sends an order, as only the server may", member.name)
            if node_id != member.node_id:
                raise Refused(403, "sends in the name of another", member.name)

    def _present(self) -> bytes:
        there, ids = self.contacts.present(self.clock()), self.site.node_ids()
        nodes = {name: [ids[name], note] for name, note in there.items() if name in ids}
        return msgspec.json.encode({"nodes": nodes, "refused": self.refused.count})

    async def _pass(
        self,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        notifier: ChangeNotifier | None = None,
    ) -> bool:
        """Let a request through with the body that was read; whether it was done as asked."""
        status = 0
        version = None if notifier is None else str(notifier.version)
        given = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def watch(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if version is not None:
                    more = (SEEN.encode(), version.encode())
                    message = {**message, "headers": [*message.get("headers", []), more]}
            await send(message)

        await self.app(scope, replay, watch)
        self._metrics.answered(status)
        return 200 <= status < 300

    async def _refuse(self, scope: Scope, refusal: Refused, send: Send) -> None:
        address = scope["client"][0] if scope.get("client") else "an unknown address"
        now, status = self.clock(), refusal.status
        if not refusal.who and not self._strangers.allows(address, now):
            status = 429
        self._metrics.refused(status)
        if self.refused.add(f"{refusal.who or address}: {refusal.why}", now):
            self.say(f"refused: {refusal.who or 'a stranger'} at {address}: {refusal.why}")
            self.record(self.refused.count)
        # What is left of its body is never read: the connection ends here.
        await _respond(send, status, refusal.why.encode() + b"\n", {"connection": "close"})


async def _read(receive: Receive, headers: dict[str, str], limit: int, who: str) -> bytes:
    """The body, of which no more than `limit` bytes are ever taken."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limit:
        raise Refused(413, f"a body of more than {limit} bytes", who)
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "a body that breaks off", who)
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise Refused(413, f"a body of more than {limit} bytes", who)
    return bytes(body)


async def _respond(
    send: Send, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    fields = {"content-length": str(len(body)), **(headers or {})}
    encoded = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _waits(headers: dict[str, str]) -> tuple[int | None, float]:
    """What the sender has seen already, and how long it wants to wait for more."""
    seen, wait = headers.get(SEEN, ""), headers.get(WAIT, "")
    if not (seen.isdecimal() and wait.isdecimal()):
        return None, 0.0
    return int(seen[:18]), float(wait[:3])


def is_own(scope: Scope) -> bool:
    """Whether a request comes from this machine: over loopback, or from the address it was sent to."""
    if not scope.get("client") or not scope.get("server"):
        return False
    client, server = scope["client"][0], scope["server"][0]
    try:
        return client == server or ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False
