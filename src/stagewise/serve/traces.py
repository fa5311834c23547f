"""What requests and jobs spend their time on, as OpenTelemetry's spans, where it is asked for."""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from stagewise.errors import StagewiseError, one_line, shown

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOG = logging.getLogger("stagewise.serve")
_CLOSE_S = 2.0
"""How long the last spans may keep the service from its end."""


class Traces(Protocol):
    """Where spans go."""

    def request(self, scope: Mapping[str, Any]) -> AbstractContextManager["RequestSpan"]:
        """A request, as a part of what its sender is at where it says so."""
        ...

    def span(self, name: str, **attributes: str | int) -> AbstractContextManager[Any]:
        """A part of whatever is under way."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class RequestSpan(Protocol):
    """The span of a request, which is known by its route once it is answered."""

    def answered(self, route: str, status: int) -> None: ...


class NoTraces:
    """Where nobody asked for any: nothing is made, nothing is imported."""

    def request(self, scope: Mapping[str, Any]) -> AbstractContextManager["RequestSpan"]:
        return _NO_REQUEST

    def span(self, name: str, **attributes: str | int) -> AbstractContextManager[Any]:
        return _NOTHING

    def close(self) -> None:
        pass


class _NoRequestSpan:
    def answered(self, route: str, status: int) -> None:
        pass


NO_TRACES = NoTraces()
_NOTHING = nullcontext()
_NO_REQUEST = nullcontext(_NoRequestSpan())


class OpenTelemetryTraces:
    """Spans of `provider`."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("stagewise.serve")

    @classmethod
    def to_collector(cls, address: str) -> "OpenTelemetryTraces":
        """Spans are sent to a collector that takes OTLP over HTTP, in a thread of their own."""
        if not address.startswith(("http://", "https://")):
            raise StagewiseError(
                f"traces = {shown(address)}: must be a collector's address, such as "
                f"http://127.0.0.1:4318/v1/traces"
            )
        try:  # others bring OpenTelemetry without its exporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise StagewiseError(
                f"traces: needs OpenTelemetry with its exporter ({one_line(str(error))}): "
                f"pip install 'stagewise-hfl[traces]'"
            ) from None
        named = Resource.create({SERVICE_NAME: "stagewise"})
        # `close` ends it, and for no longer than it says.
        provider = TracerProvider(resource=named, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
        return cls(provider)

    def request(self, scope: Mapping[str, Any]) -> AbstractContextManager[RequestSpan]:
        return _RequestSpan(self._tracer, scope)

    def span(self, name: str, **attributes: str | int) -> AbstractContextManager[Any]:
        named = {f"stagewise.{key}": value for key, value in attributes.items()}
        return self._tracer.start_as_current_span(name, attributes=named)

    def close(self) -> None:
        """Send what is left, unless the collector takes too long: it may be away."""
        # Neither `shutdown` nor `force_flush` of the provider ends in a given time.
        sending = Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        sending.start()
        sending.join(_CLOSE_S)
        if sending.is_alive():
            _LOG.error("traces: the collector did not take the last spans in %g s", _CLOSE_S)


class _RequestSpan:
    """By the names of OpenTelemetry's conventions for HTTP servers."""

    def __init__(self, tracer: Any, scope: Mapping[str, Any]) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        self._error = StatusCode.ERROR
        self._method = scope["method"]
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self._under_way = tracer.start_as_current_span(
            self._method,
            context=extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": self._method, "url.path": scope["path"]},
        )

    def __enter__(self) -> "_RequestSpan":
        self._span = self._under_way.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._under_way.__exit__(*error)

    def answered(self, route: str, status: int) -> None:
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:  # what callers did wrong is no error of a server
            self._span.set_status(self._error)
