"""Every selector and every associator in a deployment, unchanged."""

import numpy as np
import pytest
from live_cases import ScriptedTransport, play, two_edges

from stagewise.checker import check
from stagewise.cli.main import main
from stagewise.deploy.status import read_status
from stagewise.policies.registry import make_policy
from stagewise.selection.catalogue import associator_names, selector_names

GONE = {1: ["c0", "es0"], 2: ["es1"], 4: ["c1", "c3"], 5: ["es0", "c5"]}
NAMES = [*selector_names(), *(f"all-online+{name}" for name in associator_names())]


@pytest.mark.parametrize("name", NAMES)
def test_clients_and_edges_that_come_and_go(name):
    scenario = two_edges(data_min=90)
    policy = make_policy(name, scenario)
    transport = ScriptedTransport(scenario, GONE)
    _, played = play(transport, rounds=6, policy=policy, remedy=None)
    decisions = [one.decision for one in played]
    assert check(scenario, decisions, [decision.round for decision in decisions]) == []
    assert sum(len(decision.assignment) for decision in decisions) >= 6


@pytest.mark.parametrize("name", ["oort,k=8+nearest", "power-of-choice,k=5,d=9+pool"])
def test_a_deployment_by_name(tmp_path, name):
    pytest.importorskip("torch")
    out = tmp_path / "run"
    quick = ["--design", "in-process", "--dataset", "digits", "--rounds", "3"]
    assert main(["deploy", "up", "--out", str(out), "--policy", name, *quick]) == 0
    found = read_status(out)
    assert (found.phase, found.complete, found.adds_up) == ("finished", 3, True)
    names = [str(out / file) for file in ("scenario.json", "decisions.jsonl", "online.jsonl")]
    assert main(["check", *names[:2], "--online", names[2]]) == 0


def test_losses_are_unknown_before_a_decision():
    scenario = two_edges(data_min=90)
    told = []
    policy = make_policy("power-of-choice,k=3", scenario)
    policy.selector.told = lambda clients, losses: told.append((len(clients), losses))
    play(ScriptedTransport(scenario, {}), rounds=2, policy=policy, remedy=None)
    assert len(told) == 2
    assert all(count and np.isnan(losses).all() for count, losses in told)
