"""Spans of requests and jobs, by OpenTelemetry's own exporter in memory."""

import re
import sys
from threading import Event

import pytest
from sqlalchemy.exc import OperationalError

from helpers import wait_until
from serve_cases import ask, create, serving, small_rounds, small_scenario
from stagewise.errors import StagewiseError
from stagewise.serve import traces as serve_traces
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


@pytest.mark.parametrize("missing", ["opentelemetry.exporter", "opentelemetry.sdk"])
def test_without_a_part_of_opentelemetry_it_is_one_line(monkeypatch, missing):
    """Other packages bring its API, or its SDK without the exporter."""
    for name in [name for name in sys.modules if name.startswith(missing)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(StagewiseError, match=re.escape("pip install 'stagewise-hfl[traces]'")):
        OpenTelemetryTraces.to_collector("http://127.0.0.1:4318/v1/traces")


def test_a_collector_that_is_away_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(serve_traces, "_CLOSE_S", 0.01)
    go_on, sent = Event(), Event()

    class Away(sdk.SpanProcessor):
        def shutdown(self):
            assert go_on.wait(60)
            sent.set()

    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Away())
    OpenTelemetryTraces(provider).close()
    assert not sent.is_set()
    go_on.set()
    assert sent.wait(60)


def test_what_the_service_failed_at_is_an_error_and_what_callers_did_wrong_is_none(
    tmp_path, spans, monkeypatch
):
    traces, ended = spans
    with serving(str(tmp_path / "a.db"), traces=traces) as client:
        store = client.service.store
        monkeypatch.setattr(store, "ready", lambda: 1 / 0)
        monkeypatch.setattr(store, "federations", refuse_to_answer)
        asked = {"/readyz": 500, "/v1/federations": 503, "/v1/federations/{name}": 404}
        for path, status in asked.items():
            assert client.get(path.format(name="zz")).status_code == status
        wait_until(lambda: {f"GET {path}" for path in asked} <= {span.name for span in ended()})
        counted = client.get("/metrics").text
    for path, status in asked.items():
        [span] = [span for span in ended() if span.name == f"GET {path}"]
        assert span.attributes["http.response.status_code"] == status
        assert (span.status.status_code.name == "ERROR") == (status >= 500)
        assert f'route="{path}",status="{status}"' in counted


def refuse_to_answer():
    raise OperationalError("select", {}, Exception("is away"))
