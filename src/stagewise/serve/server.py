"""Start the service: where it listens, who may come in, and its end."""

import gc
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from stagewise.errors import StagewiseError, shown
from stagewise.serve.access import Access, load_tokens
from stagewise.serve.app import DEFAULT_RATE, make_app
from stagewise.serve.logs import set_up_logs
from stagewise.serve.service import Service
from stagewise.serve.traces import NO_TRACES, OpenTelemetryTraces, Traces
from stagewise.world.checks import finite, whole


@dataclass(frozen=True)
class ServerSettings:
    """What `stagewise serve` takes."""

    host: str = "127.0.0.1"
    port: int = 8400
    store: str = "stagewise.db"
    runs: str | None = "runs"
    tls_cert: str | None = None
    tls_key: str | None = None
    tokens: str | None = None
    rate: float = DEFAULT_RATE
    log_requests: bool = False
    traces: str | None = None

    def check(self) -> None:
        """Raise an error for settings that would let in who must not come in."""
        whole("port", self.port, 0, 65535)
        finite("rate", self.rate, 1)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise StagewiseError("tls-cert, tls-key: must be given together")
        for name in ("tls_cert", "tls_key"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise StagewiseError(f"{name.replace('_', '-')} = {shown(path)}: must be a file")
        if not is_loopback(self.host) and (self.tls_cert is None or self.tokens is None):
            raise StagewiseError(
                f"host = {shown(self.host)}: must be a loopback address, unless --tls-cert, --tls-key "
                f"and --tokens are given"
            )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(settings: ServerSettings) -> None:
    """Serve until interrupted."""
    settings.check()
    access = Access(None if settings.tokens is None else load_tokens(settings.tokens))
    traces: Traces = NO_TRACES
    if settings.traces is not None:
        traces = OpenTelemetryTraces.to_collector(settings.traces)
    with listen(settings) as listening:
        service = Service.open(settings.store, settings.runs, access, traces)
        app = make_app(service, rate=settings.rate, loopback_only=settings.tokens is None)
        set_up_logs(settings.log_requests)
        server = make_server(app, ssl_certfile=settings.tls_cert, ssl_keyfile=settings.tls_key)
        scheme = "http" if settings.tls_cert is None else "https"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"{scheme}://{host}:{listening.getsockname()[1]}", flush=True)
        gc.freeze()  # modules are never garbage: looking through them holds everybody up
        server.run(sockets=[listening])


def make_server(app: FastAPI, **options: Any) -> uvicorn.Server:
    """What answers requests; streams of events end when it is to end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=60,
        **options,
    )
    server = uvicorn.Server(config)
    app.state.stopping = lambda: server.should_exit
    return server


def listen(settings: ServerSettings) -> socket.socket:
    """The socket that requests come in at."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named: 40 ms less each.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise StagewiseError(
            f"host = {shown(settings.host)}, port = {settings.port}: cannot be listened at: "
            f"{error.strerror}"
        ) from None
    return listening
