"""Counters of a deployed run: sums over its files, also after faults and an interruption."""

import json
import socket
import urllib.request
from dataclasses import replace

import pytest
from live_cases import ScriptedTransport, run_in, two_edges

from stagewise.fates import FATES
from stagewise.runs.metrics import RunMetrics

GONE = {1: ["c0"], 2: ["es0"], 4: ["c1", "c3"]}


def counters(port: int) -> dict[str, float]:
    address = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_counters_are_sums_over_the_files_of_a_run_with_faults(tmp_path):
    """Read in the last round: they hold all rounds before it, those before the interruption, too."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    scenario, path, seen = two_edges(), tmp_path / "a", {}

    def spoil(order, trained):
        if order.round == 3 and not seen:
            seen.update(stopped=1.0)
            raise KeyboardInterrupt
        if order.round == 5:
            seen.update(counters(port))
        first, *others = trained.clients
        if order.round == 1:
            return replace(trained, clients=(first, first, *others))  # told twice
        return replace(trained, clients=tuple(others)) if order.round == 4 else trained

    with pytest.raises(KeyboardInterrupt):
        run_in(path, ScriptedTransport(scenario, GONE, spoil), rounds=6, metrics=RunMetrics(port))
    again = ScriptedTransport(scenario, GONE, spoil, polls=3)
    run_in(path, again, metrics=RunMetrics(port))
    rounds, live = (
        [json.loads(line) for line in (path / name).read_text().splitlines()][:5]
        for name in ("rounds.jsonl", "live.jsonl")
    )
    assert sum(len(line["faults"]) for line in live) == 2
    assert {fate for line in live for fate in line["fates"]} >= {"counted", "lost"}
    expected = {
        "stagewise_rounds_total": 5,
        "stagewise_round": 4,
        "stagewise_cost_total": sum(line["objective"] for line in rounds),
        "stagewise_delay_seconds_total": sum(line["delay_s"] for line in rounds),
        "stagewise_energy_joules_total": sum(line["energy_j"] for line in rounds),
        "stagewise_clients_total": sum(line["clients"] for line in rounds),
        "stagewise_infeasible_rounds_total": sum(not line["feasible"] for line in rounds),
        "stagewise_faults_total": 2,
        "stagewise_measured_delay_seconds_total": sum(line["delay_s"] for line in live),
    }
    for fate in FATES:
        name = f'stagewise_updates_total{{fate="{fate}"}}'
        expected[name] = sum(line["fates"].get(fate, 0) for line in live)
    for link in ("cloud", "client"):
        for way in ("up", "down"):
            name = f'stagewise_bytes_total{{direction="{way}",link="{link}"}}'
            expected[name] = sum(line[f"{link}_bytes_{way}"] for line in live)
    assert {name: seen.get(name) for name in expected} == pytest.approx(expected)
