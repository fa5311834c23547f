"""Infeasible rounds: decided by a fixed number of steps, and proven only where that is asked for."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stagewise
from brute_force import best_decision
from plan_b_cases import plan_of
from stagewise.cli.main import main
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.exact import solver
from stagewise.policies import proven
from stagewise.policies.policy import Policy
from stagewise.policies.proven import Proven
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import everybody_online
from stagewise.world.scenario import Limits

MODES = ["strict", "flexible"]


class Nobody(Policy):
    def decide(self, round_):
        return Answer(np.full(len(round_.online), -1))


def out_of_reach():
    """A plan for a system that has too little data for its limits, and two of its rounds."""
    scenario = numeric(30, 2, 0, limits=Limits(data_min=10**6))
    return plan_of(scenario, np.full(30, -1), "pool"), bernoulli(scenario, 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_decision_is_no_proof(monkeypatch, mode):
    """Whatever the round: exact is not asked, under whatever name it was imported."""
    plan, rounds = out_of_reach()
    monkeypatch.setattr(solver.solve_exactly, "__code__", (lambda *_, **__: 1 / 0).__code__)
    policy = stagewise.PlanPolicy(plan, "pool", mode)
    for round_ in rounds:
        answers = [policy.decide(round_).edge_of for _ in range(2)]
        assert np.array_equal(*answers)


@pytest.mark.parametrize("mode", MODES)
def test_an_infeasible_round_is_proven_on_demand(mode, caplog):
    plan, rounds = out_of_reach()
    with caplog.at_level(logging.INFO, logger=proven.__name__):
        usual = stagewise.decide(plan, rounds, mode=mode, method="pool")
        assert caplog.messages == []
        settled = stagewise.decide(plan, rounds, mode=mode, method="pool", prove=True)
    assert caplog.messages == ["round 0: proven infeasible", "round 1: proven infeasible"]
    for before, after in zip(usual, settled, strict=True):
        assert not after.feasible
        assert np.array_equal(before.edge_of, after.edge_of)


@pytest.mark.parametrize("mode", MODES)
def test_a_round_that_is_feasible_is_found_so(mode, caplog):
    """A policy that finds nothing: what is found is the best there is, around the plan in `strict`."""
    scenario = numeric(8, 2, 1, limits=Limits(data_min=400, kld_max=1.2))
    round_ = everybody_online(scenario)
    pinned = np.full(8, -1)
    pinned[0] = scenario.links.edge[scenario.links.start[0]]

    class Planned(Nobody):
        plan = plan_of(scenario, pinned)

    policy = Planned()
    policy.mode = mode
    best = best_decision(round_, pinned if mode == "strict" else None)
    assert best.feasible
    with caplog.at_level(logging.INFO, logger=proven.__name__):
        [decision] = stagewise.solve(scenario, [round_], policy, prove=True)
    assert caplog.messages == ["round 0: feasible after all"]
    assert decision.feasible
    assert best.value <= decision.objective * (1 + 1e-9) <= best.value * 1.002
    assert decision.lower_bound <= best.value * (1 + 1e-9)
    assert mode == "flexible" or decision.edge_of[0] == pinned[0]


def test_what_is_feasible_is_left_alone(monkeypatch):
    scenario = numeric(60, 2, 0)
    [round_] = bernoulli(scenario, 1)
    inner = stagewise.make_policy("local-search", scenario)
    policy = Proven(inner)
    monkeypatch.setattr(proven, "solve_exactly", None)
    assert np.array_equal(policy.decide(round_).edge_of, inner.decide(round_).edge_of)


def test_the_time_of_a_proof_is_checked():
    with pytest.raises(StagewiseError, match="seconds = 0"):
        Proven(Nobody(), seconds=0)


@pytest.mark.parametrize("method", ["decide", "solve"])
def test_the_commands_prove(tmp_path, capfd, method):
    plan, rounds = out_of_reach()
    scenario, online, output = (str(tmp_path / name) for name in ("s.json", "r.jsonl", "d.jsonl"))
    stagewise.save_scenario(plan.scenario, scenario)
    stagewise.save_rounds(rounds, online)
    stagewise.save_plan(plan, tmp_path / "p.json")
    arguments = ["--online", online, "-o", output, "--prove"]
    if method == "decide":
        arguments = ["decide", scenario, str(tmp_path / "p.json"), *arguments]
    else:
        arguments = ["solve", scenario, "--method", "fedcs", *arguments]
    assert main(arguments) == 0
    assert capfd.readouterr().err.splitlines() == [
        "round 0: proven infeasible",
        "round 1: proven infeasible",
    ]


COMPILED_IN_ROUNDS = """
from dataclasses import replace
import stagewise
from compiled_signatures import dispatchers

scenario = stagewise.generate.numeric(clients=24, edges=2, seed=1)
plan = replace(stagewise.plan(scenario, method="local-search", seconds=0.1), method="pool")
for mode in ("strict", "flexible"):
    policy = stagewise.PlanPolicy(plan, "pool", mode)
    before = {name: len(one.signatures) for name, one in dispatchers().items()}
    world = replace(scenario, limits=replace(scenario.limits, data_min=10**6))
    policy.follow(replace(plan, scenario=world, library=policy.plan.library))
    for round_ in stagewise.participation.bernoulli(world, 3):
        policy.decide(round_)
    after = {name: len(one.signatures) for name, one in dispatchers().items()}
    print(sorted(name for name in after if after[name] != before.get(name)))
"""


def test_nothing_is_compiled_in_an_infeasible_round():
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_IN_ROUNDS],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n[]\n", done.stdout + done.stderr
