"""Edges that are not part of a round: every search against brute force over the others."""

from dataclasses import dataclass

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario
from references import edge_violations, random_assignment
from stagewise.exact.solver import solve_exactly
from stagewise.pool.learning import build_library
from stagewise.pool.pick import pick_from_library, pick_on_the_spot
from stagewise.problem.statement import Problem, p0, p2
from stagewise.search.client_set import improve_client_set, random_client_set
from stagewise.search.decomposed import search_by_neighbourhoods
from stagewise.search.instance import MEAN_KLD, Instance, build_instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.divergence import kl_divergence
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Weights

EFFORT = Effort(runs=2, moves_per_edge=3_000, start_temperature=5)
WEIGHTS = [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)]


@dataclass(frozen=True)
class Case:
    """A round in which some edges are missing."""

    round_: Round
    in_round: np.ndarray
    problem: Problem
    optimum: float

    @property
    def instance(self) -> Instance:
        return build_instance(self.problem)

    def check(self, assignment: np.ndarray, violation: float) -> None:
        """Nobody serves an edge that is missing; only the others can be in violation."""
        assert not (assignment[:, None] == np.flatnonzero(~self.in_round)).any()
        broken = np.array(edge_violations(self.problem, assignment))[self.in_round]
        assert violation == pytest.approx(broken.sum(), abs=1e-9)

    def check_found(self, found: Found) -> bool:
        """Never better than the optimum; returns whether it is as good."""
        self.check(found.assignment, found.violation)
        value = self.problem.objective(found.assignment)
        assert found.value == pytest.approx(value, rel=1e-9, abs=1e-12)
        if found.violation > 0:
            return np.isinf(self.optimum)
        assert value >= self.optimum - 1e-9 * abs(self.optimum)
        return value <= self.optimum * (1 + 1e-9) + 1e-12


def make_case(seed: int, pinned: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    scenario = random_scenario(
        seed,
        clients=int(rng.integers(5, 9)),
        edges=3,
        labels=3,
        coverage=0.8,
        labels_per_client=(1, 3),
        limits=Limits(kld_max=rng.uniform(0.1, 0.6), data_min=float(rng.integers(40, 150))),
        weights=Weights(*WEIGHTS[seed % 3]),
    )
    online = rng.random(len(scenario.clients)) < 0.9
    in_round = np.ones(3, dtype=np.bool_)
    in_round[rng.permutation(3)[: 1 + seed % 7 // 3]] = False
    if seed % 11 == 0:
        in_round[:] = False
    round_ = Round(scenario, online, up=in_round[scenario.links.edge])
    problem = p2(round_, random_assignment(scenario, rng, share=0.3)) if pinned else p0(round_)
    optimum = best_decision(round_, problem.pinned, in_round=round_.edges_up)
    return Case(round_, round_.edges_up, problem, optimum.value)


def test_local_search_finds_the_optimum():
    hits = []
    for seed in range(80):
        case = make_case(seed, pinned=seed % 2 == 1)
        start = case.problem.pinned
        hits.append(case.check_found(local_search(case.instance, start, seed=seed, effort=EFFORT)))
        case.check_found(
            search_by_neighbourhoods(case.instance, start, passes=[EFFORT], largest_block=1)
        )
    assert np.mean(hits) >= 0.97


def test_algorithms_2_and_3_never_beat_the_optimum():
    hits = []
    for seed in range(60):
        case = make_case(seed)
        instance = case.instance
        start = random_client_set(instance, np.random.default_rng(seed), 300.0)
        hits.append(case.check_found(improve_client_set(instance, start)))
    assert np.mean(hits) >= 0.6


@pytest.mark.parametrize("pinned", [False, True])
def test_the_pool_never_beats_the_optimum(pinned):
    hits = []
    for seed in range(60):
        case = make_case(seed, pinned)
        library = build_library(case.round_.scenario, clusters_per_edge=20)
        if pinned:
            found = pick_on_the_spot(case.instance, library, case.round_, case.problem.pinned)
        else:
            found = pick_from_library(case.instance, library, case.round_)
        hits.append(case.check_found(found))
    assert np.mean(hits) >= 0.9


@pytest.mark.parametrize("pinned", [False, True])
def test_the_certified_optimum_equals_brute_force(pinned):
    feasible = 0
    for seed in range(90):
        case = make_case(seed, pinned)
        found = solve_exactly(case.problem, gap=1e-9)
        if np.isinf(case.optimum):
            assert np.isinf(found.value) and np.isinf(found.lower_bound)
            continue
        feasible += 1
        case.check(found.assignment, 0.0)
        assert found.value == pytest.approx(case.optimum, rel=1e-9, abs=1e-12)
        assert found.lower_bound <= case.optimum * (1 + 1e-9)
        assert found.gap <= 1.01e-9
    assert 20 <= feasible <= 85


def test_the_mean_divergence_is_that_of_the_edges_in_the_round():
    for seed in range(20):
        case = make_case(seed)
        instance = build_instance(case.problem, objective=MEAN_KLD, keep_kld=False)
        found = local_search(instance, seed=seed, effort=EFFORT)
        counts = case.round_.scenario.clients.label_counts
        edges = np.flatnonzero(case.in_round)
        sums = np.array([counts[found.assignment == edge].sum(axis=0) for edge in edges])
        if len(edges) == 0:
            assert found.value == 0.0
            continue
        kld = kl_divergence(sums, case.round_.scenario.target)
        kld[np.isinf(kld)] = instance.empty_violation
        assert found.value == pytest.approx(kld.mean(), abs=1e-9)
