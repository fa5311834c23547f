"""Spans of requests and jobs, by OpenTelemetry's own exporter in memory."""

import pytest

from helpers import wait_until
from serve_cases import ask, create, serving, small_rounds, small_scenario
from stagewise.errors import StagewiseError
from stagewise.serve.traces import OpenTelemetryTraces

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs OpenTelemetry")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans():
    """Where traces go, and all that ended so far."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, kept = sdk.TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return OpenTelemetryTraces(provider), kept.get_finished_spans


def test_a_decision_is_a_part_of_what_its_client_is_at(tmp_path, spans):
    """From the client's span through the thread that decides to the store."""
    traces, ended = spans
    scenario = small_scenario()
    with serving(str(tmp_path / "a.db"), traces=traces) as client:
        create(client, scenario, policy="fedcs")
        first, second = small_rounds(scenario, 2)
        ask(client, first, traceparent=f"00-{TRACE}-{PARENT}-01")
        ask(client, second)
        client.put("/v1/federations/a/outcomes/1", json={})
        client.get("/v1/federations/zz")
        wait_until(lambda: any(span.name == "GET /v1/federations/{name}" for span in ended()))
        ours = {s.name: s for s in ended() if f"{s.context.trace_id:032x}" == TRACE}
    request = ours["POST /v1/federations/{name}/decisions"]
    assert set(ours) == {request.name, "decide", "keep"}
    assert f"{request.parent.span_id:016x}" == PARENT
    for name in ("decide", "keep"):
        assert ours[name].parent.span_id == request.context.span_id
        assert request.start_time <= ours[name].start_time <= ours[name].end_time
        assert ours[name].attributes["stagewise.federation"] == "a"
    assert request.attributes["http.response.status_code"] == 200
    assert ours["decide"].attributes["stagewise.round"] == 0
    others = [span for span in ended() if span.name not in ours or span.parent is None]
    assert {"prepare", "GET /v1/federations/{name}"} <= {span.name for span in others}
    told = [span for span in ended() if span.name == "PUT /v1/federations/{name}/outcomes/{number}"]
    within = {s.name for s in ended() if s.parent and s.parent.span_id == told[0].context.span_id}
    assert within == {"observe", "keep"}


def test_an_address_that_is_none_is_one_line():
    with pytest.raises(StagewiseError, match="traces = 'collector': must be a collector's address"):
        OpenTelemetryTraces.to_collector("collector")
