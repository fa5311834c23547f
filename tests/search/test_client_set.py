"""Alg. 3 against a plain transcription of its three operations."""

import itertools
import math

import numpy as np
import pytest

from helpers import random_scenario
from references import (
    NOBODY,
    edge_violations,
    edges_of,
    plain_value,
    random_assignment,
    random_round,
    violations,
)
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import Problem, p0, p1, p2
from stagewise.search.association import (
    BACK_TRACKING,
    READINGS,
    Reading,
    associate,
    new_association,
)
from stagewise.search.client_set import best_client_set, improve_client_set, random_client_set
from stagewise.search.instance import COST, MEAN_KLD, MOST_CLIENTS, Instance, build_instance
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Weights

CASES = 60
FEW_STEPS = Reading(BACK_TRACKING, penalty=0.0, steps=20, keeps=False)


def problem_of(seed: int) -> Problem:
    """P0 or P1 in turn, small enough for the transcription."""
    scenario = random_scenario(
        seed,
        clients=8,
        edges=2,
        labels=3,
        labels_per_client=(1, 3),
        capacity=(2, 4),
        limits=Limits(kld_max=0.4, data_min=80, kld_risk=0.5, data_risk=0.5),
        weights=Weights(0.5, 0.5, 3.0),
    )
    if seed % 3 == 0:
        return p0(Round(scenario, np.ones(8, dtype=bool)))
    measure = "exact" if seed % 3 == 1 else "markov"
    return p1(scenario, risk_measure(scenario, measure))


class Association:
    """Alg. 2 for one problem, as Alg. 3 calls it."""

    def __init__(self, instance: Instance, reading: Reading) -> None:
        self.association = new_association(instance, reading)

    def begin_at(self, association: list[int]) -> None:
        if self.association.reading.keeps:
            self.association.work.before[:] = association

    def of(self, selected: list[int]) -> tuple[float, float, list[int]]:
        """(violation, value, association) of a set of clients."""
        chosen = np.array(selected, dtype=np.int64)
        violation, value = associate(self.association, chosen, len(chosen))
        return violation, value, self.association.work.best.tolist()


def transcription(
    problem: Problem, instance: Instance, start: list[int], reading: Reading
) -> tuple[float, float, list[int]]:
    """Alg. 3: each operation tries all its changes of one set N_0 and keeps the best of them."""
    association = Association(instance, reading)
    everybody = [i for i in range(len(problem.scenario.clients)) if edges_of(problem.scenario, i)]
    selected, best = list(start), association.of(start)
    while not math.isfinite(best[0]) and selected:  # start with fewer where there is no place
        selected = selected[: len(selected) // 2]
        best = association.of(selected)

    def operation(changes) -> bool:
        nonlocal selected, best
        unchanged, improved = selected, False
        association.begin_at(best[2])
        for leaving, entering in changes:
            trial = [i for i in unchanged if i != leaving]
            trial += [] if entering is None else [entering]
            found = association.of(trial)
            if found[0] < best[0] - 1e-12 or (
                found[0] <= best[0] and found[1] < best[1] - 1e-12 * abs(best[1])
            ):
                selected, best, improved = trial, found, True
        return improved

    improved = True
    while improved:
        outside = [i for i in everybody if i not in selected]
        improved = operation([(None, i) for i in outside])
        improved |= operation([(i, None) for i in selected])
        outside = [i for i in everybody if i not in selected]
        improved |= operation(list(itertools.product(selected, outside)))
    return best


def start_of(seed: int, problem: Problem) -> list[int]:
    rng = np.random.default_rng(seed)
    reachable = [i for i in range(8) if edges_of(problem.scenario, i)]
    return rng.permutation(reachable)[: rng.integers(0, len(reachable) + 1)].tolist()


@pytest.mark.parametrize("objective", [None, COST, MEAN_KLD, MOST_CLIENTS])
@pytest.mark.parametrize("reading", [FEW_STEPS, *READINGS.values()])
def test_the_transcription(reading, objective):
    """The bounds that spare associations change nothing."""
    changed = 0
    for seed in range(CASES // 3):
        problem = problem_of(seed)
        start = start_of(seed, problem)
        instance = build_instance(problem, objective=objective, keep_kld=seed % 2 == 0)
        found = improve_client_set(instance, np.array(start, dtype=np.int64), reading=reading)
        violation, value, association = transcription(problem, instance, start, reading)
        assert found.assignment.tolist() == association, f"seed {seed}"
        assert found.value == pytest.approx(value, rel=1e-12)
        assert found.violation == pytest.approx(violation, abs=1e-12)
        changed += sorted(np.flatnonzero(found.assignment != NOBODY)) != sorted(start)
    assert changed >= CASES // 6


def test_the_best_of_several_starts():
    """More starts are never worse, and the first is the same whatever their number."""
    better = 0
    for seed in range(CASES):
        instance = build_instance(problem_of(seed))
        found = [
            best_client_set(
                instance, np.random.default_rng(seed), 200, reading=Reading(starts=starts)
            )
            for starts in (1, 4)
        ]
        assert not found[0].better_than(found[1])
        better += found[1].better_than(found[0])
    assert better >= 3


def test_the_figures_are_those_of_the_assignment():
    feasible = 0
    for seed in range(CASES):
        problem = problem_of(seed)
        start = np.array(start_of(seed, problem), dtype=np.int64)
        found = improve_client_set(build_instance(problem), start, reading=FEW_STEPS)
        assert found.value == pytest.approx(
            plain_value(problem, found.assignment), rel=1e-9, abs=1e-9
        )
        violation = sum(edge_violations(problem, found.assignment))
        assert found.violation == pytest.approx(violation, abs=1e-9)
        assert (found.violation == 0) == (violations(problem, found.assignment) == [])
        feasible += found.violation == 0
    assert 5 <= feasible <= CASES - 5


def test_never_worse_than_the_start():
    """Less violation or, with no more of it, no more value; also where time is up at once."""
    for seed in range(CASES):
        problem = problem_of(seed)
        start = start_of(seed, problem)
        instance = build_instance(problem)
        before = Association(instance, FEW_STEPS).of(start)[:2]
        for seconds in (None, 0.0):
            found = improve_client_set(
                instance, np.array(start, dtype=np.int64), reading=FEW_STEPS, seconds=seconds
            )
            assert found.violation <= before[0] + 1e-12
            if found.violation >= before[0]:
                assert found.value <= before[1] + 1e-12


def test_no_single_change_is_left():
    """At the end no Add, Remove or Exchange improves the set."""
    for seed in range(0, CASES, 2):
        problem = problem_of(seed)
        start = np.array(start_of(seed, problem), dtype=np.int64)
        found = improve_client_set(
            build_instance(problem), start, reading=FEW_STEPS._replace(steps=0)
        )
        again = improve_client_set(
            build_instance(problem),
            np.flatnonzero(found.assignment != NOBODY),
            reading=FEW_STEPS._replace(steps=0),
        )
        assert (again.violation, again.value) >= (found.violation - 1e-9, found.value - 1e-9)


def test_pinned_clients_stay():
    """P2: the online long-term clients keep their edges; offline ones do not serve."""
    changed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scenario = random_scenario(seed, clients=14, edges=3, capacity=(3, 5))
        round_ = random_round(scenario, rng)
        problem = p2(round_, random_assignment(scenario, rng, share=0.3))
        pinned = problem.pinned
        instance = build_instance(problem)
        held = np.flatnonzero(pinned != NOBODY)
        start = random_client_set(instance, rng, 300, held)
        found = improve_client_set(instance, start, reading=FEW_STEPS)
        np.testing.assert_array_equal(found.assignment[held], pinned[held])
        assert not [text for text in violations(problem, found.assignment) if "serve" in text]
        changed += (found.assignment != pinned).any()
    assert changed >= 20


def test_a_random_set():
    """Enough data or everybody with a place, the pinned first; decided by the generator alone."""
    for seed in range(40):
        scenario = random_scenario(seed, clients=12, edges=3, capacity=(1, 4))
        instance = build_instance(p0(Round(scenario, np.ones(12, dtype=bool))))
        pinned = np.array([i for i in range(12) if edges_of(scenario, i)][:2])
        data = float(np.random.default_rng(seed).integers(50, 1_000))
        chosen = random_client_set(instance, np.random.default_rng(seed), data, pinned)
        again = random_client_set(instance, np.random.default_rng(seed), data, pinned)
        np.testing.assert_array_equal(chosen, again)
        assert len(set(chosen.tolist())) == len(chosen)
        assert len(chosen) <= scenario.edges.capacity.sum()
        assert all(edges_of(scenario, client) for client in chosen.tolist())
        sizes = scenario.clients.data[chosen]
        if len(chosen) > 2:  # the last one was still needed
            assert sizes[:-1].sum() < data
        if sizes.sum() < data:  # then all others find the edges full
            others = set(range(12)) - set(chosen.tolist())
            reachable = [j for client in others for j in edges_of(scenario, client)]
            assert len(chosen) >= min((scenario.edges.capacity[j] for j in reachable), default=0)
