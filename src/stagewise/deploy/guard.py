"""`flower-superlink`, for machines that others can reach: it answers them only as their SuperLink.

Flower serves three interfaces on one port. The fleet's is what SuperNodes use, each under its key. The
other two register nodes under any name, start and stop runs, and ask for no proof of anything; they are
for this machine alone. Takes `flower-superlink`'s own arguments:

    python -m stagewise.deploy.guard --host 10.0.0.1 --port 9092 --enable-supernode-auth ...
"""

import ipaddress
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

FLEET = "/v1/fleet/"


class FleetOnly:
    """An ASGI middleware: other machines are answered under `/v1/fleet/` alone."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"].startswith(FLEET) or is_own(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            body = b"only SuperNodes are answered from other machines\n"
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await send({"type": "websocket.close", "code": 1008})


def is_own(scope: Scope) -> bool:
    """Whether a request comes from this machine: over loopback, or from the address it was sent to."""
    if not scope.get("client") or not scope.get("server"):
        return False
    client, server = scope["client"][0], scope["server"][0]
    try:
        return client == server or ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False


def main() -> None:
    """Run `flower-superlink` with the middleware outermost."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    # Otherwise a header could say that a request came from elsewhere than it did.
    os.environ["FORWARDED_ALLOW_IPS"] = ""
    extensions.get_middleware = lambda: (Middleware(FleetOnly),)
    flower_superlink()


if __name__ == "__main__":
    main()
