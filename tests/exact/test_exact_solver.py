"""The certified optimum against brute force, and its bound against everything feasible."""

from dataclasses import replace

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario
from references import violations
from stagewise.checker import check
from stagewise.deciding import solve
from stagewise.decisions import load_decision_records, save_decisions
from stagewise.exact import generation, pricing, solver
from stagewise.exact.pricing import Search
from stagewise.exact.solver import Certified, solve_exactly
from stagewise.problem.statement import Problem, p0, p2
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario, Weights

WEIGHTS = {"both": (0.5, 0.5), "delay": (1.0, 0.0), "energy": (0.0, 1.0), "mixed": (0.9, 0.1)}


def tiny(seed: int, weights: tuple[float, float]) -> Scenario:
    """Up to 8 clients and 3 edges, about half of them feasible."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(
        seed, clients=int(rng.integers(4, 9)), edges=int(rng.integers(1, 4)), labels=3
    )
    limits = replace(
        scenario.limits,
        data_min=float(scenario.clients.data.mean() * rng.uniform(0.3, 1.4)),
        kld_max=float(rng.choice([0.15, 0.3, 0.6, 1.2])),
    )
    return replace(scenario, weights=Weights(*weights, 1.0), limits=limits)


def everybody_online(scenario: Scenario) -> Round:
    return Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))


def assert_certified(problem: Problem, found: Certified, optimum: float) -> None:
    if np.isinf(optimum):
        assert np.isinf(found.value) and np.isinf(found.lower_bound)
        assert violations(problem, found.assignment)
        return
    assert not violations(problem, found.assignment)
    assert found.value == pytest.approx(problem.objective(found.assignment), rel=1e-12)
    assert optimum * (1 - 1e-9) <= found.value <= optimum * (1 + 1.01e-3)
    assert found.lower_bound <= optimum * (1 + 1e-9)
    assert found.gap <= 1.01e-3


@pytest.mark.parametrize("name", WEIGHTS)
def test_p0_equals_brute_force(name):
    feasible = 0
    for seed in range(60):
        scenario = tiny(seed, WEIGHTS[name])
        online = np.random.default_rng(seed).random(len(scenario.clients)) < 0.9
        round_ = Round(scenario, online)
        optimum = best_decision(round_).value
        assert_certified(p0(round_), solve_exactly(p0(round_)), optimum)
        feasible += np.isfinite(optimum)
    assert 10 <= feasible <= 55


def test_p2_keeps_the_long_term_clients():
    feasible = 0
    for seed in range(60):
        scenario = tiny(seed, WEIGHTS["both"])
        everybody = everybody_online(scenario)
        plan = best_decision(everybody).assignment
        if plan is None:
            continue
        online = np.random.default_rng(seed).random(len(scenario.clients)) < 0.8
        problem = p2(Round(scenario, online), plan)
        optimum = best_decision(Round(scenario, online), problem.pinned).value
        assert_certified(problem, solve_exactly(problem), optimum)
        feasible += np.isfinite(optimum)
    assert feasible >= 10


@pytest.mark.parametrize(
    "change",
    [
        {"kld_max": 0.0},
        {"kld_max": 50.0},
        {"data_min": 0.0},
        {"data_min": 1e9},
        {"kld_max": 50.0, "data_min": 0.0},
    ],
)
def test_degenerate_limits(change):
    for seed in range(8):
        scenario = tiny(seed, WEIGHTS["both"])
        scenario = replace(scenario, limits=replace(scenario.limits, **change))
        round_ = everybody_online(scenario)
        assert_certified(p0(round_), solve_exactly(p0(round_)), best_decision(round_).value)


def test_nobody_online_and_no_capacity_are_proven_infeasible():
    scenario = tiny(0, WEIGHTS["both"])
    nobody = Round(scenario, np.zeros(len(scenario.clients), dtype=np.bool_))
    assert np.isinf(solve_exactly(p0(nobody)).lower_bound)
    full = replace(scenario, edges=replace(scenario.edges, capacity=0 * scenario.edges.capacity))
    assert np.isinf(solve_exactly(p0(everybody_online(full))).lower_bound)


def test_the_paper_size_is_certified_and_no_search_beats_the_bound():
    scenario = numeric(clients=93, edges=4, seed=5)
    for round_ in bernoulli(scenario, 3, seed=2):
        found = solve_exactly(p0(round_))
        assert found.gap <= 1e-3
        assert not violations(p0(round_), found.assignment)
        for seed in range(3):
            other = local_search(
                build_instance(p0(round_)), seed=seed, effort=Effort(runs=2, moves_per_edge=20_000)
            )
            if other.violation == 0:
                assert other.value >= found.lower_bound * (1 - 1e-9)


def test_a_time_limit_leaves_a_valid_bound_and_a_usable_answer():
    scenario = numeric(clients=120, edges=5, seed=1)
    round_ = bernoulli(scenario, 1, seed=0)[0]
    best = solve_exactly(p0(round_))
    for seconds in (1e-6, 0.2, 0.4):
        hurried = solve_exactly(p0(round_), seconds=seconds)
        assert hurried.lower_bound <= best.value * (1 + 1e-9)
        assert hurried.value >= best.lower_bound * (1 - 1e-9)


def test_the_log_tells_of_a_bound_that_rises_and_a_cost_that_falls():
    scenario = numeric(clients=93, edges=4, seed=2)
    lines: list[tuple[str, float, float]] = []
    solve_exactly(
        p0(bernoulli(scenario, 1, seed=2)[0]),
        log=lambda what, cost, bound: lines.append((what, cost, bound)),
    )
    costs, bounds = [line[1] for line in lines], [line[2] for line in lines]
    assert len(lines) >= 3
    assert costs == sorted(costs, reverse=True)
    assert bounds == sorted(bounds)


def test_decisions_carry_the_bound():
    scenario = numeric(clients=40, edges=2, seed=0)
    decision = solve(scenario, bernoulli(scenario, 1, seed=0), method="exact")[0]
    assert decision.lower_bound is not None
    assert decision.objective * (1 - 1.01e-3) <= decision.lower_bound <= decision.objective


def test_the_bound_holds_where_enumeration_cannot_finish():
    """With delay alone in the objective no price prunes; the bound must stay below what is found."""
    scenario = replace(numeric(clients=93, edges=4, seed=1), weights=Weights(1.0, 0.0, 1.0))
    for round_ in bernoulli(scenario, 2, seed=3):
        found = solve_exactly(p0(round_), seconds=1.5)
        for seed in range(3):
            other = local_search(build_instance(p0(round_)), seed=seed)
            if other.violation == 0:
                assert other.value >= found.lower_bound * (1 - 1e-9)


def test_a_pricing_that_was_cut_short_proves_nothing(monkeypatch):
    """The search for better clusters stops at once: what it missed may be in the optimum."""
    hurried_search = Search(nodes=1, clusters=100, cluster_nodes=100)
    claims = []
    for seed in (0, 2, 3, 5):
        scenario = numeric(clients=93, edges=4, seed=seed)
        problem = p0(bernoulli(scenario, 1, seed)[0])
        best = solve_exactly(problem)
        with monkeypatch.context() as patch:
            patch.setattr(generation, "_search", lambda edges: hurried_search)
            patch.setattr(pricing, "_NODES", 4)
            hurried = solve_exactly(problem)
        assert hurried.lower_bound <= best.value * (1 + 1e-9)
        claims.append(hurried.gap)
    assert max(claims) > 1e-3


@pytest.mark.parametrize("name", WEIGHTS)
def test_edges_searched_a_few_at_a_time(name, monkeypatch):
    """What is done for many edges, at a size where the optimum is known."""
    monkeypatch.setattr(solver, "_FEW_EDGES", 1)
    missed = feasible = 0
    for seed in range(60):
        round_ = everybody_online(tiny(seed, WEIGHTS[name]))
        optimum = best_decision(round_).value
        found = solve_exactly(p0(round_))
        assert found.lower_bound <= optimum * (1 + 1e-9)
        if np.isfinite(found.value):
            assert not violations(p0(round_), found.assignment)
            assert found.value >= optimum * (1 - 1e-9)
        if np.isfinite(optimum):
            feasible += 1
            missed += not found.value <= optimum * (1 + 1.01e-3)
    assert missed <= 0.05 * feasible


@pytest.mark.parametrize("weights", [*WEIGHTS.values(), (0.99, 0.01)])
def test_the_bound_of_a_medium_round_is_below_all_that_is_found(weights):
    rng = np.random.default_rng(7)
    for seed in range(4):
        scenario = numeric(
            clients=int(rng.integers(20, 61)), edges=int(rng.integers(3, 7)), seed=seed
        )
        limits = replace(scenario.limits, data_min=1000, kld_max=float(rng.choice([0.3, 0.6])))
        scenario = replace(scenario, weights=Weights(*weights, 1.0), limits=limits)
        problem = p0(bernoulli(scenario, 1, seed=seed)[0])
        proven = [solve_exactly(problem, seconds=seconds) for seconds in (0.05, 0.3, 20.0)]
        other = local_search(build_instance(problem), seed=seed)
        values = [found.value for found in proven]
        if other.violation == 0:
            values.append(problem.objective(other.assignment))
        assert max(found.lower_bound for found in proven) <= min(values) * (1 + 1e-9)
        for found in proven:
            assert np.isinf(found.value) == bool(violations(problem, found.assignment))


@pytest.mark.parametrize("weights", [(0.5, 0.5), (1.0, 0.0)])
def test_results_do_not_depend_on_the_number_of_threads(weights):
    scenario = replace(numeric(clients=60, edges=4, seed=3), weights=Weights(*weights, 1.0))
    problem = p0(bernoulli(scenario, 1, seed=3)[0])
    answers = [solve_exactly(problem, threads=threads) for threads in (1, 2, 5)]
    for answer in answers[1:]:
        assert np.array_equal(answer.assignment, answers[0].assignment)
        assert answer.lower_bound == answers[0].lower_bound


def test_delay_alone_is_certified_at_the_paper_size():
    for seed in range(3):
        scenario = replace(numeric(clients=93, edges=4, seed=seed), weights=Weights(1.0, 0.0, 1.0))
        found = solve_exactly(p0(bernoulli(scenario, 1, seed=seed)[0]), seconds=60)
        assert found.gap <= 1e-2


def test_many_edges_get_a_useful_bound():
    scenario = numeric(clients=300, edges=12, seed=0)
    problem = p0(bernoulli(scenario, 1, seed=0)[0])
    found = solve_exactly(problem, seconds=120, gap=0.1)
    assert not violations(problem, found.assignment)
    assert found.gap <= 0.1


def test_one_edge_one_client_and_certain_clients():
    for seed in range(10):
        alone = random_scenario(seed, clients=1, edges=1, labels=1, isolated=0.0, data=(150, 200))
        round_ = everybody_online(alone)
        assert_certified(p0(round_), solve_exactly(p0(round_)), best_decision(round_).value)
        certain = random_scenario(seed, certain=1.0)
        for scenario in (certain, replace(tiny(seed, WEIGHTS["both"]), reference=None)):
            round_ = everybody_online(scenario)
            assert_certified(p0(round_), solve_exactly(p0(round_)), best_decision(round_).value)


def test_a_label_that_nobody_holds_is_proven_infeasible_where_it_matters():
    for seed in range(6):
        scenario = tiny(seed, WEIGHTS["both"])
        counts = scenario.clients.label_counts.copy()
        counts[:, 1:] += counts[:, :1] > 0
        counts[:, 0] = 0
        scenario = replace(
            scenario,
            clients=replace(scenario.clients, label_counts=counts),
            reference=np.array([0.6, 0.2, 0.2]),
        )
        round_ = everybody_online(scenario)
        found = solve_exactly(p0(round_))
        assert_certified(p0(round_), found, best_decision(round_).value)


def test_a_round_proven_infeasible_is_written_and_checked(tmp_path):
    scenario = tiny(0, WEIGHTS["both"])
    scenario = replace(scenario, limits=replace(scenario.limits, data_min=1e9))
    rounds = [everybody_online(scenario)]
    decisions = solve(scenario, rounds, method="exact")
    save_decisions(decisions, tmp_path / "d.jsonl")
    records = load_decision_records(tmp_path / "d.jsonl")
    assert not records[0].feasible and records[0].lower_bound is None
    assert check(scenario, records, rounds) == []
