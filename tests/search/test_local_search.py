"""Local search against the optimum by enumeration of every assignment of tiny instances."""

import itertools
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from helpers import random_scenario
from references import (
    NOBODY,
    edge_violations,
    edges_of,
    random_assignment,
    random_round,
    serving_of,
    violations,
)
from stagewise.checker.equations import link_cost
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import Problem, p0, p1, p2
from stagewise.search import local_search as local_search_module
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import Limits, Scenario, Weights

CASES = 500
EFFORT = Effort(runs=2, moves_per_edge=1_500)


class Tiny(NamedTuple):
    """Two edges and up to eight clients, of which some are offline."""

    scenario: Scenario
    round: Round


@cache
def tiny(seed: int) -> Tiny:
    rng = np.random.default_rng(seed)
    delay = rng.choice([0.0, 0.5, 1.0])
    scenario = random_scenario(
        seed,
        clients=int(rng.integers(4, 9)),
        edges=2,
        labels=3,
        limits=Limits(kld_max=rng.uniform(0.1, 0.6), data_min=int(rng.integers(40, 150))),
        weights=Weights(delay=delay, energy=1 - delay),
        coverage=0.8,
        capacity=(2, 6),
        labels_per_client=(1, 3),
    )
    return Tiny(scenario, random_round(scenario, rng))


@cache
def optimum(seed: int) -> float | None:
    """The least cost of P0 over all assignments of `tiny(seed)`, or None if none is feasible."""
    scenario, round_ = tiny(seed)
    limits, clients = scenario.limits, len(scenario.clients)
    options = [
        [NOBODY, *edges_of(scenario, client)] if round_.online[client] else [NOBODY]
        for client in range(clients)
    ]
    assignments = np.array(list(itertools.product(*options)))
    delay = np.zeros((clients, 2))
    energy = np.zeros((clients, 2))
    for client, edge in itertools.product(range(clients), range(2)):
        if edge in options[client]:
            alone = np.full(clients, NOBODY)
            alone[client] = edge
            (link,) = serving_of(scenario, alone)
            delay[client, edge], energy[client, edge] = link_cost(scenario, link, round_)
    feasible = np.ones(len(assignments), dtype=bool)
    slowest = np.zeros(len(assignments))
    spent = np.zeros(len(assignments))
    for edge in range(2):
        here = assignments == edge
        sums = here @ scenario.clients.label_counts
        total = sums.sum(axis=1)
        share = sums / np.maximum(total, 1)[:, None]
        kld = (share * np.log(np.where(share > 0, share / scenario.target, 1.0))).sum(axis=1)
        feasible &= (here.sum(axis=1) <= scenario.edges.capacity[edge]) & (total > 0)
        feasible &= (total >= limits.data_min) & (kld <= limits.kld_max + 1e-9)
        uplink_s, uplink_j = (
            scenario.edges.uplink_delay_s[edge],
            scenario.edges.uplink_energy_j[edge],
        )
        slowest = np.maximum(slowest, 3 * (here * delay[:, edge]).max(axis=1) + uplink_s)
        spent += 3 * here @ energy[:, edge] + uplink_j
    if not feasible.any():
        return None
    weights = scenario.weights
    return float((weights.delay * slowest + weights.energy * spent)[feasible].min())


# A hot start crosses any barrier of instances this small: what is missing then is a fault of the
# kernel. The usual temperatures and penalty are made for larger ones, and meet some barriers here.
EFFORTS = {
    "hot": (Effort(moves_per_edge=5_000, start_temperature=20, penalty=100), 0.98),
    "usual": (Effort(), 0.95),
}


@pytest.mark.parametrize("name", EFFORTS)
def test_the_optimum_is_found(name):
    """In nearly all of the feasible cases; and no infeasible case is ever called feasible."""
    effort, share = EFFORTS[name]
    feasible = found_optimal = 0
    for seed in range(CASES):
        case = tiny(seed)
        problem = p0(case.round)
        best = optimum(seed)
        found = local_search(build_instance(problem), seed=seed, effort=effort)
        broken = violations(problem, found.assignment)
        assert (found.violation == 0) == (not broken)
        assert found.value == pytest.approx(problem.objective(found.assignment), rel=1e-9)
        assert found.violation == pytest.approx(
            sum(edge_violations(problem, found.assignment)), abs=1e-9
        )
        if best is None:
            assert broken
            continue
        feasible += 1
        if not broken:
            assert found.value >= best * (1 - 1e-9)
            found_optimal += found.value <= best * (1 + 1e-9)
    assert 200 <= feasible <= CASES - 100
    assert found_optimal >= share * feasible, f"{found_optimal} of {feasible}"


def test_the_seed_alone_decides():
    """The same seed gives the same assignment; of several seeds not all give one path."""
    scenario = random_scenario(3, clients=40, edges=4, capacity=(4, 8))
    problem = p0(Round(scenario, np.ones(40, dtype=bool)))
    instance = build_instance(problem)
    effort = Effort(runs=1, moves_per_edge=50)
    answers = [local_search(instance, seed=seed, effort=effort).assignment for seed in range(4)]
    for seed, answer in enumerate(answers):
        again = local_search(build_instance(problem), seed=seed, effort=effort)
        np.testing.assert_array_equal(again.assignment, answer)
    assert any((answer != answers[0]).any() for answer in answers)


def test_more_runs_are_never_worse():
    """The runs of a larger effort begin with those of the smaller one."""
    for seed in range(10):
        scenario = random_scenario(seed, clients=30, edges=4, capacity=(3, 6))
        instance = build_instance(p0(Round(scenario, np.ones(30, dtype=bool))))
        results = [
            local_search(instance, seed=seed, effort=Effort(runs=runs, moves_per_edge=100))
            for runs in (1, 2, 5)
        ]
        pairs = [(found.violation, found.value) for found in results]
        assert pairs == sorted(pairs, reverse=True)


@pytest.mark.parametrize("measure", ["exact", "sampled", "markov"])
def test_a_plan_is_never_worse_than_its_start(measure):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(seed, clients=15, edges=3)
        problem = p1(scenario, risk_measure(scenario, measure, seed=seed, samples=100))
        start = random_assignment(scenario, rng)
        found = local_search(build_instance(problem), start, seed=seed, effort=EFFORT)
        assert found.violation == pytest.approx(
            sum(edge_violations(problem, found.assignment)), abs=1e-9
        )
        assert found.value == pytest.approx(problem.objective(found.assignment), rel=1e-9, abs=1e-9)
        before = (sum(edge_violations(problem, start)), problem.objective(start))
        assert (found.violation, found.value) <= (before[0] + 1e-9, before[1] + 1e-9) or (
            found.violation < before[0] - 1e-9
        )


def test_pinned_clients_stay():
    moved = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(seed, clients=15, edges=3)
        long_term = random_assignment(scenario, rng, share=0.4)
        problem: Problem = p2(random_round(scenario, rng), long_term)
        pinned = problem.pinned
        found = local_search(build_instance(problem), pinned, seed=seed, effort=EFFORT)
        held = pinned != NOBODY
        np.testing.assert_array_equal(found.assignment[held], pinned[held])
        assert not [text for text in violations(problem, found.assignment) if "must serve" in text]
        moved += (found.assignment != pinned).any()
    assert moved >= 15


def test_focus_leaves_other_edges_no_more_clients():
    """Away from the focus nobody is added: a client comes there only in exchange for another."""
    changed = 0
    for seed in range(10):
        scenario = random_scenario(seed, clients=20, edges=4, capacity=(3, 6))
        problem = p0(Round(scenario, np.ones(20, dtype=bool)))
        start = random_assignment(scenario, np.random.default_rng(seed), share=0.5)
        focus = np.array([1])
        found = local_search(build_instance(problem), start, seed=seed, effort=EFFORT, focus=focus)
        for edge in (0, 2, 3):
            assert (found.assignment == edge).sum() <= (start == edge).sum()
        changed += (found.assignment != start).any()
    assert changed >= 5


def test_nobody_to_choose_from():
    """No one online: nobody serves, and every edge is in violation."""
    scenario = random_scenario(0, clients=6, edges=2)
    problem = p0(Round(scenario, np.zeros(6, dtype=bool)))
    found = local_search(build_instance(problem), effort=EFFORT)
    assert (found.assignment == NOBODY).all()
    assert found.violation > 0


@pytest.mark.parametrize("moves_a_second", [1e3, 1e5, 1e7])
def test_a_search_keeps_its_time(moves_a_second, monkeypatch):
    """By a clock that goes with the moves: runs are as short as the time asks for."""
    spent = 0.0
    true = local_search_module.anneal

    def timed(instance, state, focus, moves, *rest):
        nonlocal spent
        spent += moves / moves_a_second
        return true(instance, state, focus, moves, *rest)

    clock = SimpleNamespace(perf_counter=lambda: 1.0 + spent)
    monkeypatch.setattr(local_search_module, "anneal", timed)
    monkeypatch.setattr(local_search_module, "time", clock)
    instance = build_instance(p0(everybody_online(numeric(clients=30, edges=2, seed=0))))
    shortest = 2 * local_search_module._TRIAL / moves_a_second
    for seconds in (shortest, 10 * shortest, 1000 * shortest):
        spent = 0.0
        local_search(instance, seconds=seconds, repeat=False)
        assert spent <= 1.001 * seconds
        spent = 0.0
        local_search(instance, seconds=seconds)
        assert 0.9 * seconds <= spent <= 1.001 * seconds
