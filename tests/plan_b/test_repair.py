"""Repair: the best stand-ins there are, compared with every assignment of small systems."""

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario
from plan_b_cases import everybody, plan_of, still_there
from references import edge_violations, plain_scenario, random_assignment, random_round, violations
from stagewise.plan_b.repair import repair, repair_by_lending
from stagewise.problem.statement import p0
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_small_rounds_against_all_assignments(mode):
    """Never better than the optimum of P2 (P0 where flexible), and nearly always the optimum."""
    solvable = found = optimal = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(
            seed, 6, 2, 3, limits=Limits(kld_max=0.5, data_min=60), isolated=0, capacity=(2, 5)
        )
        plan = plan_of(scenario, random_assignment(scenario, rng, share=0.6))
        round_ = random_round(scenario, rng)
        best = best_decision(round_, still_there(plan, round_) if mode == "strict" else None)
        answer = repair(plan, round_, mode)
        cost, feasible = p0(round_).objective(answer), not violations(p0(round_), answer)
        if feasible:
            assert best.feasible
            assert cost >= best.value - 1e-9
        solvable += best.feasible
        found += feasible
        optimal += best.feasible and feasible and cost <= best.value + 1e-9
    assert 20 < solvable < 110
    assert found >= 0.95 * solvable
    assert optimal >= 0.95 * solvable


def test_the_cheapest_stand_in_is_taken():
    """Only c2 and c3 bring the missing label; c3 has less data and so costs less."""
    scenario = plain_scenario(
        [[60, 0], [0, 60], [0, 70], [0, 55], [70, 0]], [[0]] * 5, capacity=[3]
    )
    plan = plan_of(scenario, [0, 0, -1, -1, -1])
    online = np.array([True, False, True, True, True])
    assert repair(plan, Round(scenario, online), "strict").tolist() == [0, -1, -1, 0, -1]


def test_an_edge_that_can_borrow_from_nobody_keeps_its_rest():
    """c1 is the only other client and serves es1 under (12d): es0 stays short."""
    scenario = plain_scenario([[60, 60], [60, 60], [20, 20]], [[0], [0, 1], [0]])
    plan = plan_of(scenario, [0, 1, 0])
    online = np.array([False, True, True])
    assert repair(plan, Round(scenario, online), "strict").tolist() == [-1, 1, 0]


def test_flexible_leaves_surplus_out():
    """One balanced client is enough for each edge; the plan has two."""
    scenario = plain_scenario([[60, 60], [70, 70], [60, 60], [70, 70]], [[0], [0], [1], [1]])
    plan = plan_of(scenario, [0, 0, 1, 1])
    assert repair(plan, everybody(scenario), "strict").tolist() == [0, 0, 1, 1]
    assert repair(plan, everybody(scenario), "flexible").tolist() == [0, -1, 1, -1]


def test_flexible_may_move_a_long_term_client():
    """c0 and c1 suffice at either edge, c2 and c3 only at es0: c1 has to go to es1."""
    scenario = plain_scenario([[60, 60], [60, 60], [30, 30], [30, 30]], [[0, 1], [0, 1], [0], [0]])
    plan = plan_of(scenario, [0, 0, -1, -1])
    assert violations(p0(everybody(scenario)), repair(plan, everybody(scenario), "strict"))
    moved = repair(plan, everybody(scenario), "flexible")
    assert violations(p0(everybody(scenario)), moved) == []


def test_lending_keeps_every_long_term_client_in_service():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(
            seed, 8, 3, 3, limits=Limits(kld_max=0.4, data_min=90), isolated=0, capacity=(3, 5)
        )
        plan = plan_of(scenario, random_assignment(scenario, rng, share=0.7))
        round_ = random_round(scenario, rng)
        lent = repair_by_lending(plan, round_)
        present = still_there(plan, round_)
        assert (lent[present >= 0] >= 0).all()
        assert (lent[~round_.online] == -1).all()
        before = sum(edge_violations(p0(round_), present))
        assert sum(edge_violations(p0(round_), lent)) <= before + 1e-9


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_large_systems_by_neighbourhoods(mode):
    """Sixty edges: what a plan's repair must keep, and that it fixes nearly all that can be."""
    for seed in range(2):
        scenario = numeric(3000, 60, seed)
        rng = np.random.default_rng(seed)
        start = local_search(
            build_instance(p0(everybody(scenario))),
            seed=seed,
            effort=Effort(runs=1, moves_per_edge=2_000),
        ).assignment
        plan = plan_of(scenario, start)
        round_ = random_round(scenario, rng)
        answer = repair(plan, round_, mode)
        present = still_there(plan, round_)
        assert len(violations(p0(round_), present)) > 10
        assert len(violations(p0(round_), answer)) <= 1
        assert (answer[~round_.online] == -1).all()
        if mode == "strict":
            np.testing.assert_array_equal(answer[present >= 0], present[present >= 0])
        np.testing.assert_array_equal(repair(plan, round_, mode), answer)
        lent = repair_by_lending(plan, round_)
        assert (lent[present >= 0] >= 0).all()
        assert sum(edge_violations(p0(round_), lent)) <= sum(edge_violations(p0(round_), present))
