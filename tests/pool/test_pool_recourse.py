"""The assignment of a pool plan: within the risk limits, never trivial, chosen by its rounds' cost."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from pool_cases import pool_plan

from brute_force import best_plan, true_risks
from helpers import InlineExecutor, random_scenario
from stagewise.checker import check_plan
from stagewise.decisions import Answer, make_decision
from stagewise.plan_a import recourse
from stagewise.plan_a.planners import plan
from stagewise.plan_a.recourse import plan_by_recourse
from stagewise.plan_b.pool import pool
from stagewise.plans import make_plan
from stagewise.pool.learning import sampled_rounds
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import p1
from stagewise.randomness import integer_seed
from stagewise.search.local_search import Found
from stagewise.world.scenario import Limits, Scenario


@pytest.fixture(autouse=True)
def fewer_searches(monkeypatch) -> None:
    """So small a system needs no more."""
    monkeypatch.setattr(recourse, "_SEARCHES", 3)


def small_system(seed: int) -> Scenario:
    limits = Limits(kld_max=0.9, data_min=60, kld_risk=0.5, data_risk=0.5)
    return random_scenario(seed, 9, 2, 3, limits=limits, coverage=0.9, isolated=0, capacity=(3, 5))


def test_within_the_risk_limits_and_never_empty_where_a_plan_is_feasible():
    possible = 0
    for seed in range(5):
        scenario = small_system(seed)
        made = plan(scenario, method="pool", seed=seed)
        assert check_plan(scenario, made.record()) == []
        best = best_plan(scenario)
        if made.feasible:
            assert best.feasible
        if not best.feasible:
            continue
        possible += 1
        assert made.feasible
        kld_risk, data_risk = true_risks(scenario)
        for edge in range(2):
            members = np.flatnonzero(made.edge_of == edge)
            assert 0 < len(members) <= scenario.edges.capacity[edge]
            mask = int((1 << members).sum())
            assert kld_risk[mask] <= scenario.limits.kld_risk + 1e-9
            assert data_risk[mask] <= scenario.limits.data_risk + 1e-9
    assert possible >= 3


def test_where_no_plan_is_feasible_the_least_bad_one_still_holds_clients():
    scenario = small_system(0)
    strict = replace(scenario.limits, kld_risk=0.0, data_risk=0.0)
    scenario = replace(scenario, limits=strict).as_of(online_probability=np.full(9, 0.5))
    made = plan(scenario, method="pool")
    assert not made.feasible
    assert made.assignment


def test_of_several_candidates_the_cheapest_after_repair(monkeypatch):
    """Among those of the least violation, whatever P1 says of their value."""
    made = pool_plan(40, 2, 0)
    scenario, library = made.scenario, made.library
    assert library is not None
    problem = p1(scenario, risk_measure(scenario))
    rng = np.random.default_rng(3)
    fewer = made.edge_of.copy()
    fewer[rng.choice(np.flatnonzero(fewer >= 0), 3, replace=False)] = -1
    nobody = np.full(40, -1)
    rounds = sampled_rounds(scenario, integer_seed(0, "recourse", 0), 16)

    def mean_cost(edge_of: np.ndarray) -> float:
        plan_ = make_plan(problem.risk, edge_of, method="pool", seed=0, plan_ms=0.0)
        plan_ = replace(plan_, library=library)
        costs = []
        for round_ in rounds:
            answer = Answer(pool(plan_, round_, "strict"))
            decision = make_decision(round_, answer, method="pool", decision_ms=0.0)
            costs.append(decision.objective * (1.0 if decision.feasible else 3.0))
        return float(np.mean(costs))

    candidates = [made.edge_of, fewer, nobody]
    expected = int(np.argmin([mean_cost(edge_of) for edge_of in candidates]))
    for violations in ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 2.0)):
        found = (Found(candidates[i % 3], violations[i % 3], 0.0) for i in count())
        monkeypatch.setattr(recourse, "local_search", lambda *a, found=found, **k: next(found))
        chosen = plan_by_recourse(problem, library, 0, None, InlineExecutor())
        allowed = [i for i in range(3) if violations[i] == 0]
        if expected in allowed:
            assert chosen.tolist() == candidates[expected].tolist()
        assert any(chosen.tolist() == candidates[i].tolist() for i in allowed)


def test_the_same_seed_gives_the_same_plan():
    scenario = small_system(2)
    first, again = (plan(scenario, method="pool", seed=5) for _ in range(2))
    assert first.edge_of.tolist() == again.edge_of.tolist()


@pytest.mark.parametrize("risk", ["sampled", "markov"])
def test_other_measures_of_risk(risk):
    scenario = small_system(3)
    made = plan(scenario, method="pool", risk=risk)
    assert check_plan(scenario, made.record(), risk) == []
