"""Before and after every request: who may come in, how often, how it is logged and counted."""

import logging
import time
from collections import OrderedDict
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stagewise.serve.access import EVERYBODY, Access
from stagewise.serve.metrics import ServiceMetrics
from stagewise.serve.refusals import Forbidden, NoToken, Refusal, TooMany
from stagewise.serve.traces import RequestSpan, Traces

ACCESS_LOG = logging.getLogger("stagewise.serve.access")

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_CHANGES = ("POST", "PUT", "DELETE", "PATCH")
_CALLERS = 4096
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'",
    ),
)


class RequestRates:
    """So many requests a second for each caller, and as many at once."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def check(self, caller: tuple[str, str]) -> None:
        now = time.monotonic()
        left, since = self._left.pop(caller, (self._per_second, now))
        left = min(self._per_second, left + (now - since) * self._per_second)
        self._left[caller] = (max(left - 1, 0.0), now)
        if len(self._left) > _CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            raise TooMany(f"requests: more than {self._per_second:g} a second: must be fewer")


class RequestMiddleware:
    """Wraps the application: checks, counts and logs every request."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        metrics: ServiceMetrics,
        traces: Traces,
        rate: float,
        loopback_only: bool,
    ) -> None:
        self._app, self._access, self._metrics, self._traces = app, access, metrics, traces
        self._rates = RequestRates(rate)
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_SECURITY]
            await send(message)

        with self._traces.request(scope) as span:
            try:
                try:
                    self._check(scope)
                except Refusal as refusal:
                    await answer_refusal(refusal, sent)
                else:
                    await self._app(scope, receive, sent)
            except ClientDisconnect:
                raise
            except Exception:
                status = status or 500  # as it is answered outside of here
                raise
            finally:
                self._tell(scope, status, time.perf_counter() - began, span)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self._loopback_only:
            # A page of another site must not reach us through a browser on this machine.
            host = headers.get(b"host", "")
            if host.rpartition(":")[0] not in _LOOPBACK and host not in _LOOPBACK:
                raise Forbidden(f"Host = {host[:80]!r}: must be this machine")
        origin = headers.get(b"origin")
        if origin is not None and scope["method"] in _CHANGES:
            own = origin.partition("://")[2]
            if own != headers.get(b"host"):
                raise Forbidden(f"Origin = {origin[:80]!r}: must be this server")
        self._rates.check(self._caller(scope, headers.get(b"authorization")))

    def _caller(self, scope: Scope, authorization: str | None) -> tuple[str, str]:
        """Whose requests are counted together: a token's, or else those from an address."""
        try:
            token = self._access.caller(authorization)
        except NoToken:
            token = EVERYBODY
        if token is EVERYBODY:
            return "address", (scope.get("client") or ("",))[0]
        return "token", token.sha256

    def _tell(self, scope: Scope, status: int, seconds: float, span: RequestSpan) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")
        self._metrics.answered(scope["method"], path, status, seconds)
        span.answered(path, status)
        if not ACCESS_LOG.isEnabledFor(logging.INFO):
            return
        ACCESS_LOG.info(
            "request",
            extra={
                "fields": {
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1000 * seconds, 2),
                    "client": (scope.get("client") or ("",))[0],
                }
            },
        )


async def answer_refusal(refusal: Refusal, send: Send) -> None:
    body = msgspec.json.encode({"error": str(refusal)})
    headers = [(b"content-type", b"application/json"), *retry_headers(refusal)]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def retry_headers(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    found: Any = refusal.retry_after_s
    headers = [] if found is None else [(b"retry-after", str(found).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
