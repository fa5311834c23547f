"""Rounds decided from a pool: true, possible, and optimal or nearly so; infeasible only where proven."""

import numpy as np
import pytest
from pool_cases import pool_plan, small_case

from brute_force import best_decision
from helpers import renumbered
from plan_b_cases import decide, plan_of
from references import random_assignment
from stagewise.checker import check, check_plan
from stagewise.cli.main import main
from stagewise.exact.solver import solve_exactly
from stagewise.problem.statement import p0
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario_file import save_scenario

MODES = ["strict", "flexible"]


@pytest.mark.parametrize("loose", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_decisions_against_all_assignments(mode, loose):
    """Infeasible exactly where no assignment is feasible, else nearly always the optimum."""
    possible = right = 0
    for seed in range(20):
        case = small_case(seed, pinned=True, loose=loose)
        made = plan_of(case.scenario, case.pinned)
        decision = decide(made, case.round_, method="pool", mode=mode)
        assert check(case.scenario, [decision.record()], [case.round_]) == []
        pinned = case.pinned if mode == "strict" else None
        if pinned is not None:
            must = pinned >= 0
            assert (decision.edge_of[must] == pinned[must]).all()
        best = best_decision(case.round_, pinned)
        assert decision.feasible == best.feasible
        if best.feasible:
            possible += 1
            assert decision.objective >= best.value * (1 - 1e-9)
            right += decision.objective <= best.value * (1 + 1e-9)
    assert possible > (14 if loose else 2)
    assert right >= 0.95 * possible - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", [(40, 2, 0), (60, 3, 2)])
def test_decisions_are_true_and_strict_ones_keep_the_plan(system, mode):
    made = pool_plan(*system)
    scenario = made.scenario
    clients = len(scenario.clients)
    assert check_plan(scenario, made.record()) == []
    rounds = bernoulli(scenario, 3, 5)
    rounds += fluctuate(rounds[:1], 5)
    rounds += [Round(scenario, np.full(clients, everybody)) for everybody in (False, True)]
    decisions = [decide(made, r, index=i, mode=mode) for i, r in enumerate(rounds)]
    assert check(scenario, [d.record() for d in decisions], renumbered(rounds)) == []
    assert {decision.method for decision in decisions} == {"pool"}
    assert decisions[4].assignment == {}
    if mode == "strict":
        for round_, decision in zip(rounds, decisions, strict=True):
            present = (made.edge_of >= 0) & round_.online
            assert (decision.edge_of[present] == made.edge_of[present]).all()


def test_decisions_against_the_certified_optimum():
    """Flexible ones come close to it; strict ones cost at least as much as is proven."""
    made = pool_plan(60, 3, 2)
    ratios = []
    for index, round_ in enumerate(bernoulli(made.scenario, 4, seed=4)):
        certified = solve_exactly(p0(round_))
        flexible, strict = (
            decide(made, round_, index=index, mode=m) for m in ("flexible", "strict")
        )
        assert flexible.feasible
        assert flexible.objective >= certified.lower_bound * (1 - 1e-9)
        assert not strict.feasible or strict.objective >= certified.lower_bound * (1 - 1e-9)
        ratios.append(flexible.objective / certified.value)
    assert np.mean(ratios) <= 1.02


@pytest.mark.parametrize("mode", MODES)
def test_a_decision_depends_on_its_round_alone(mode):
    made = pool_plan(60, 3, 2)
    rounds = bernoulli(made.scenario, 4, seed=0)
    forth = [decide(made, r, index=i, mode=mode).edge_of for i, r in enumerate(rounds)]
    back = [decide(made, rounds[i], index=i, mode=mode).edge_of for i in (3, 2, 1, 0)]
    assert all(np.array_equal(a, b) for a, b in zip(forth, back[::-1], strict=True))


def test_any_plan_can_be_decided_by_pool():
    """A plan without a library gets one from its scenario."""
    scenario = pool_plan(40, 2, 0).scenario
    rounds = bernoulli(scenario, 2, seed=0)
    made = plan_of(scenario, random_assignment(scenario, np.random.default_rng(0), share=0.2))
    decisions = [decide(made, r, index=i, method="pool") for i, r in enumerate(rounds)]
    assert check(scenario, [d.record() for d in decisions], renumbered(rounds)) == []


def test_the_commands(tmp_path):
    scenario, rounds = str(tmp_path / "s.json"), str(tmp_path / "r.jsonl")
    planned, decided = str(tmp_path / "p.json"), str(tmp_path / "d.jsonl")
    save_scenario(numeric(clients=30, edges=1, seed=0), scenario)
    assert main(["availability", scenario, "--rounds", "3", "-o", rounds]) == 0
    assert main(["plan", scenario, "--method", "pool", "-o", planned]) == 0
    assert main(["check-plan", scenario, planned]) == 0
    for mode in MODES:
        arguments = ["decide", scenario, planned, "--online", rounds, "-o", decided, "--mode", mode]
        assert main(arguments) == 0
        assert main(["check", scenario, decided, "--online", rounds]) == 0
    assert '"method":"pool"' in (tmp_path / "d.jsonl").read_text()
