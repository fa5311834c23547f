"""Shorter rounds where delay is most of the cost: never worse, within the limits, and often faster."""

import numpy as np
import pytest

from stagewise.deciding import decide
from stagewise.exact.solver import solve_exactly
from stagewise.plan_a.planners import plan
from stagewise.pool.surcharge import surcharged
from stagewise.problem.evaluation import evaluate
from stagewise.problem.statement import p0
from stagewise.search.fast_links import fast_links, link_delays, shortened
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Weights

HASTY = Effort(runs=1, moves_per_edge=400, fix_runs=2)


def round_of(seed, weights, clients=60, edges=3):
    scenario = numeric(clients, edges, seed, weights=weights)
    [round_] = bernoulli(scenario, rounds=1, seed=seed)
    return round_


@pytest.mark.parametrize("seed", range(5))
def test_it_is_never_worse_and_its_value_is_that_of_the_problem(seed):
    round_ = round_of(seed, Weights(1, 0))
    problem = p0(round_)
    instance = build_instance(problem)
    hasty = local_search(instance, seed=seed, effort=HASTY)
    found = shortened(problem, instance, hasty, seed, lambda same: same)
    assert not hasty.better_than(found)
    figures = evaluate(round_, found.assignment)
    assert found.violation > 0 or not figures.failing.any()
    assert found.value == pytest.approx(figures.cost)


def test_delays_get_shorter_where_only_these_count():
    shorter = 0
    for seed in range(6):
        problem = p0(round_of(seed, Weights(1, 0)))
        instance = build_instance(problem)
        hasty = local_search(instance, seed=seed, effort=HASTY)
        found = shortened(problem, instance, hasty, seed, lambda same: same)
        shorter += found.value < hasty.value * 0.99
    assert shorter >= 3


def test_where_energy_is_most_of_the_cost_nothing_is_searched(monkeypatch):
    problem = p0(round_of(1, Weights(0, 1)))
    instance = build_instance(problem)
    found = local_search(instance, effort=HASTY)
    monkeypatch.setattr("stagewise.search.fast_links.local_search", None)
    assert shortened(problem, instance, found, 0, lambda same: same) is found


def test_a_surcharge_counts_there_as_in_the_rest_of_the_search():
    round_ = round_of(2, Weights(1, 0))
    problem, more = p0(round_), np.linspace(0, 1e-3, 60)
    instance = surcharged(build_instance(problem), more)
    hasty = local_search(instance, effort=HASTY)
    found = shortened(problem, instance, hasty, 0, lambda one: surcharged(one, more))
    serving = found.assignment >= 0
    figures = evaluate(round_, found.assignment)
    assert found.value == pytest.approx(figures.cost + more[serving].sum())


def test_fast_links_are_those_within_the_limit():
    problem = p0(round_of(3, Weights(1, 0)))
    instance = build_instance(problem)
    limit = float(np.median(link_delays(instance)))
    fast = build_instance(problem, usable=fast_links(problem, limit))
    assert link_delays(fast).max() <= limit
    assert len(fast.link_delay) == (link_delays(instance) <= limit).sum()


def test_decisions_by_delay_alone_are_near_the_optimum():
    ratios = []
    for seed in (640, 641, 643):
        scenario = numeric(93, 4, seed, weights=Weights(1, 0))
        rounds = list(bernoulli(scenario, rounds=3, seed=seed))
        for decision in decide(plan(scenario), rounds):
            best = solve_exactly(p0(decision.round), seconds=20)
            assert decision.objective >= best.lower_bound * (1 - 1e-9)
            ratios.append(decision.objective / best.value)
    assert np.mean(ratios) < 1.005  # 1.012 without
