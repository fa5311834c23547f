"""Our own methods as policies: the stagewise ones, and `local-search`."""

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario, renumbered
from plan_b_cases import decide
from references import random_round
from stagewise.checker import check
from stagewise.deciding import decide as decide_rounds
from stagewise.deciding import solve
from stagewise.plan_a.planners import plan
from stagewise.policies.diverse import Diverse
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.registry import policy_factory
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

LIMITS = Limits(kld_max=0.6, data_min=120, kld_risk=0.5, data_risk=0.5)
STAGEWISE = {
    "stagewise-paper": ("paper", "ccu", "strict"),
    "stagewise-paper-flexible": ("paper", "ccu", "flexible"),
    "stagewise-strict": ("local-search", "repair", "strict"),
    "stagewise-flexible": ("local-search", "repair", "flexible"),
    "pool-strict": ("pool", "pool", "strict"),
    "pool-flexible": ("pool", "pool", "flexible"),
}
METHODS = (*STAGEWISE, "local-search")


def system(seed: int) -> Scenario:
    return random_scenario(seed, clients=16, edges=3, labels=4, limits=LIMITS, coverage=0.7)


def some_rounds(scenario: Scenario, seed: int) -> list[Round]:
    rounds = bernoulli(scenario, 2, seed)
    ends = [Round(scenario, np.full(len(scenario.clients), online)) for online in (False, True)]
    return renumbered(rounds + fluctuate(rounds, seed) + ends)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_true(method, seed):
    scenario = system(seed)
    rounds = some_rounds(scenario, seed)
    made = solve(scenario, rounds, method=method, seed=seed)
    assert check(scenario, [decision.record() for decision in made], rounds) == []
    assert made[4].assignment == {}


@pytest.mark.parametrize("method", STAGEWISE)
def test_a_stagewise_method_is_plan_a_and_then_plan_b(method):
    planner, update, mode = STAGEWISE[method]
    scenario = system(4)
    long_term = plan(scenario, method=planner, seed=3)
    rounds = some_rounds(scenario, 4)
    made = solve(scenario, rounds, method=method, seed=3)
    for index, round_ in enumerate(rounds):
        expected = decide(long_term, round_, index=index, method=update, mode=mode)
        assert made[index].edge_of.tolist() == expected.edge_of.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_decisions_depend_on_seed_and_round_alone(method):
    scenario = system(1)
    rounds = some_rounds(scenario, 1)
    first = [decision.edge_of.tolist() for decision in solve(scenario, rounds, method=method)]
    policy = policy_factory(method)(system(1), seed=0, seconds=None)
    for index in (3, 0, 5):
        assert policy.decide(rounds[index]).edge_of.tolist() == first[index]


@pytest.mark.parametrize("method", ["stagewise-paper", "stagewise-strict", "pool-strict"])
def test_strict_methods_keep_their_long_term_clients(method):
    scenario = system(5)
    policy = policy_factory(method)(scenario, seed=0, seconds=None)
    long_term = policy.plan.edge_of
    for round_ in some_rounds(scenario, 5):
        answer = policy.decide(round_).edge_of
        must = (long_term >= 0) & round_.online
        assert (answer[must] == long_term[must]).all()


def test_a_policy_without_diversity_forgets():
    scenario = system(6)
    policy = PlanPolicy(plan(scenario, method="pool"))
    round_ = some_rounds(scenario, 6)[0]
    (first,) = solve(scenario, [round_], policy)
    (again,) = solve(scenario, [round_], policy)
    assert again.edge_of.tolist() == first.edge_of.tolist()


def test_diversity_is_the_same_through_a_wrapper_and_through_decide():
    scenario = system(6).as_of(online_probability=np.ones(16))
    long_term = plan(scenario, method="pool")
    rounds = renumbered([Round(scenario, np.ones(16, dtype=np.bool_))] * 6)
    made = solve(scenario, rounds, Diverse(PlanPolicy(long_term), 2.0))
    expected = decide_rounds(long_term, rounds, diversity=2.0)
    assert [d.edge_of.tolist() for d in made] == [d.edge_of.tolist() for d in expected]
    assert len({tuple(decision.edge_of.tolist()) for decision in made}) > 1
    assert check(scenario, made, rounds) == []


def test_local_search_against_all_assignments():
    """120 small rounds: feasible exactly where possible, and the optimum nearly always."""
    possible = found = optimal = 0
    for seed in range(120):
        scenario = random_scenario(
            seed, 6, 2, 3, limits=Limits(kld_max=0.6, data_min=60), isolated=0
        )
        round_ = random_round(scenario, np.random.default_rng(seed), bool(seed % 3))
        best, (made,) = best_decision(round_), solve(scenario, [round_])
        assert check(scenario, [made.record()], [round_]) == []
        possible += best.feasible
        if made.feasible:
            found += 1
            assert best.feasible
            assert made.objective >= best.value - 1e-9
            optimal += made.objective <= best.value + 1e-9
    assert 40 < possible < 120
    assert found >= possible - 2
    assert optimal >= 0.97 * possible


def test_three_edges_against_all_assignments():
    optimal = possible = 0
    for seed in range(16):
        scenario = random_scenario(
            seed, 7, 3, 2, limits=Limits(kld_max=0.7, data_min=30), isolated=0, coverage=0.8
        )
        round_ = random_round(scenario, np.random.default_rng(seed))
        best, (made,) = best_decision(round_), solve(scenario, [round_])
        possible += best.feasible
        if made.feasible:
            assert made.objective >= best.value - 1e-9
            optimal += made.objective <= best.value + 1e-9
    assert possible > 5
    assert optimal >= 0.95 * possible


def test_local_search_is_no_worse_than_the_papers_solver():
    for seed in range(4):
        scenario = random_scenario(seed, 30, 3, 4, limits=LIMITS, coverage=0.7)
        rounds = bernoulli(scenario, 2, seed)
        ours = solve(scenario, rounds, method="local-search")
        papers = solve(scenario, rounds, method="orig-prob-solver")
        for mine, theirs in zip(ours, papers, strict=True):
            if theirs.feasible:
                assert mine.feasible
                assert mine.objective <= theirs.objective * 1.01


def test_local_search_decides_a_large_system_by_neighbourhoods():
    """Beyond 50 edges: feasible, true, and the same again."""
    scenario = numeric(clients=53 * 16, edges=53, seed=4)
    rounds = bernoulli(scenario, 1, 5)
    made = [solve(scenario, rounds, method="local-search", seed=7)[0] for _ in range(2)]
    assert check(scenario, [made[0].record()], rounds) == []
    assert made[0].feasible
    assert made[0].assignment == made[1].assignment


def test_a_time_limit_gives_whole_answers():
    scenario = system(2)
    rounds = some_rounds(scenario, 2)
    made = solve(scenario, rounds, method="local-search", seconds=1e-6)
    assert check(scenario, [decision.record() for decision in made], rounds) == []
