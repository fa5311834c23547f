"""Counters: of the service, and of runs; they equal the sums over what the files say."""

import json
import socket
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import stagewise
from serve_cases import ask, create, serving, small_rounds, small_scenario
from small_runs import small_run
from stagewise.errors import StagewiseError
from stagewise.policies.registry import make_policy
from stagewise.runs.config import Replanning
from stagewise.runs.metrics import RunMetrics

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"


def counters(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


class Looking(stagewise.Policy):
    """Another policy that reads the run's counters before each decision."""

    def __init__(self, policy, port):
        self.policy, self.port, self.name = policy, port, "looking"
        self.seen = []

    def decide(self, round_):
        address = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            self.seen.append(counters(answer.read().decode()))
        few = np.where(round_.index % 2, round_.online, False)  # every second round breaks limits
        return self.policy.decide(stagewise.Round(round_.scenario, few, round_.index))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_the_counters_of_a_run_are_sums_over_its_rounds(tmp_path):
    made, port = [], free_port()

    def looking(scenario, *, seed, seconds):
        made.append(Looking(make_policy("stagewise-flexible", scenario, seed), port))
        return made[-1]

    run = small_run(
        tmp_path / "a", policy=looking, rounds=5, replanning=Replanning(), metrics_port=port
    )
    fields = {
        "stagewise_cost_total": "objective",
        "stagewise_delay_seconds_total": "delay_s",
        "stagewise_energy_joules_total": "energy_j",
        "stagewise_clients_total": "clients",
    }
    assert {record.feasible for record in run.records} == {True, False}
    for count, seen in enumerate(made[0].seen):
        before = run.records[:count]
        assert seen["stagewise_rounds_total"] == count
        assert seen["stagewise_infeasible_rounds_total"] == sum(not r.feasible for r in before)
        assert seen["stagewise_decision_seconds_count"] == count
        for name, field in fields.items():
            assert seen[name] == pytest.approx(sum(getattr(r, field) for r in before))
    with pytest.raises(OSError):  # it ends with the run
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2)


def test_a_port_that_is_taken_is_one_line():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StagewiseError, match=r"metrics_port = .*: cannot be listened at"),
    ):
        small_run(metrics_port=taken.getsockname()[1])


def test_that_a_port_is_taken_is_said_before_anything_starts():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StagewiseError, match=r"metrics_port = .*: cannot be listened at"),
    ):
        RunMetrics(taken.getsockname()[1])


def test_the_counters_of_the_service_count_each_decision_once(tmp_path):
    scenario = small_scenario()
    with serving(str(tmp_path / "a.db")) as client:
        create(client, scenario)
        lines = [json.loads(ask(client, round_)) for round_ in small_rounds(scenario, 4)]
        for round_ in small_rounds(scenario, 4):
            ask(client, round_)  # again: nothing new
        found = counters(client.get("/metrics").text)
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/readyz").json() == {"status": "ready"}
    assert found["stagewise_rounds_total"] == 4
    assert found["stagewise_cost_total"] == pytest.approx(sum(line["objective"] for line in lines))
    route = 'method="POST",route="/v1/federations/{name}/decisions",status="200"'
    assert found[f"stagewise_requests_total{{{route}}}"] == 8


def test_the_dashboard_asks_for_what_there_is(tmp_path):
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario())
        ask(client, small_rounds(small_scenario(), 1)[0])
        names = {name.partition("{")[0] for name in counters(client.get("/metrics").text)}
    asked = [t["expr"] for p in json.loads(DASHBOARD.read_text())["panels"] for t in p["targets"]]
    assert len(asked) >= 6
    for expression in asked:
        assert any(name in expression for name in names), expression
