"""Shorter rounds where delay is most of the cost: never worse, within the limits, and often faster."""

from dataclasses import replace

import numpy as np
import pytest

from stagewise.checker import check
from stagewise.deciding import decide, solve
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
    problem = p0(round_of(1, Weights(1, 1)))  # energy is much more in numbers
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


def test_it_ends_with_its_time(monkeypatch):
    problem = p0(round_of(0, Weights(1, 0)))
    instance = build_instance(problem)
    found = local_search(instance, effort=HASTY)
    assert found.violation == 0
    monkeypatch.setattr("stagewise.search.fast_links.local_search", None)
    assert shortened(problem, instance, found, 0, lambda same: same, seconds=0.0) is found


@pytest.mark.parametrize("method", ["pool-flexible", "all-online+pool"])
def test_rounds_with_an_edge_down_and_own_delays_keep_the_contract(method):
    scenario = numeric(60, 3, 5, weights=Weights(1, 0))
    [usual] = bernoulli(scenario, rounds=1, seed=5)
    round_ = replace(
        usual,
        up=scenario.links.edge != 1,
        delay_s=scenario.costs.delay_s * np.linspace(1, 2, len(scenario.links)),
    )
    one, same = (solve(scenario, [round_], method)[0] for _ in range(2))
    assert one.edge_of.tolist() == same.edge_of.tolist()
    assert 1 not in one.edge_of
    assert not check(scenario, [one], [round_])


@pytest.mark.parametrize(("edges", "times"), [(20, 1), (21, 0)])
def test_with_more_than_twenty_edges_there_is_no_such_search(edges, times, monkeypatch):
    called = []

    def count(problem, instance, found, *more):
        called.append(found)
        return found

    monkeypatch.setattr("stagewise.plan_b.pool.shortened", count)
    scenario = numeric(20 * edges, edges, 1, weights=Weights(1, 0))
    solve(scenario, bernoulli(scenario, rounds=1, seed=1), "pool")
    assert len(called) == times
