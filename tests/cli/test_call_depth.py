"""The way from a command to compiled code is short enough to be read."""

import sys
from pathlib import Path

import pytest

import stagewise
from small_runs import small_scenario
from stagewise.cli import planning_commands, simulation_commands
from stagewise.cli.main import main
from stagewise.plan_b import repair
from stagewise.pool import clusters, round_clusters
from stagewise.search import local_search

SOURCE = str(Path(stagewise.__file__).parent)
DECIDE, SIMULATE = 8, 10


def calls_since(command) -> list[str]:
    """The functions of ours that are being called, from `command` to the one that asks."""
    names: list[str] = []
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        # Before Python 3.12 a comprehension has a frame of its own.
        if code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            names.append(code.co_name)
        if code is command.__code__:
            return names[::-1]
        frame = frame.f_back
    raise AssertionError("compiled code was not called by the command")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = small_scenario()
    stagewise.save_scenario(scenario, "s.json")
    stagewise.save_rounds(stagewise.participation.bernoulli(scenario, 3, 1), "rounds.jsonl")
    return tmp_path


def watched(monkeypatch, module, kernel: str, command) -> list[list[str]]:
    """The calls that lead to a compiled function, each time that it is called in a round."""
    found: list[list[str]] = []
    compiled = getattr(module, kernel)

    def call(*arguments):
        if "run_rounds" in (calls := calls_since(command)):
            found.append(calls)
        return compiled(*arguments)

    monkeypatch.setattr(module, kernel, call)
    return found


@pytest.mark.parametrize(
    ("planner", "mode", "module", "kernel"),
    [
        ("pool", "flexible", round_clusters, "online_clusters"),
        ("pool", "strict", clusters, "generate_of_edges"),
        ("local-search", "flexible", local_search, "anneal"),
        ("local-search", "strict", repair, "start_from"),
    ],
)
def test_decide(files, monkeypatch, planner, mode, module, kernel):
    assert main(["plan", "s.json", "-o", "plan.json", "--method", planner]) == 0
    decide = ["decide", "s.json", "plan.json", "--online", "rounds.jsonl", "-o", "d.jsonl"]
    decide += ["--mode", mode]
    assert main(decide) == 0  # whatever is compiled late is compiled now
    found = watched(monkeypatch, module, kernel, planning_commands.decide)
    assert main(decide) == 0
    assert found
    assert all(len(calls) <= DECIDE for calls in found), found[0]


def test_simulate(files, monkeypatch):
    pytest.importorskip("torch")
    simulate = ["simulate", "--scenario", "s.json", "--dataset", "digits", "--model", "mlp"]
    simulate += ["--policy", "pool", "--rounds", "2", "--workers", "1", "--out"]
    assert main([*simulate, "first"]) == 0
    found = watched(monkeypatch, round_clusters, "online_clusters", simulation_commands.simulate)
    assert main([*simulate, "second"]) == 0
    assert found
    assert all(len(calls) <= SIMULATE for calls in found), found[0]
