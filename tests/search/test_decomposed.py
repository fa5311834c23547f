"""Search by neighbourhoods: valid, rightly reported, the same on any workers, near the whole search."""

import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from helpers import random_scenario
from references import NOBODY, edge_violations, edges_of, random_assignment, random_round
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import Problem, p0, p1, p2
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import search_by_neighbourhoods
from stagewise.search.instance import build_instance
from stagewise.search.local_search import _TRIAL, Effort, local_search
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round

QUICK = (
    Effort(runs=1, moves_per_edge=1_500, hardening=30, fix_runs=0),
    Effort(runs=1, moves_per_edge=1_500, start_temperature=0.1, hardening=30, fix_runs=1),
)


def small_problems(seed: int) -> dict[str, Problem]:
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, 90, 12, coverage=0.2, capacity=(2, 6))
    round_ = random_round(scenario, rng)
    long_term = random_assignment(scenario, rng, share=0.3)
    return {
        "P0": p0(round_),
        "P1": p1(scenario, risk_measure(scenario, "exact")),
        "P2": p2(round_, long_term),
    }


@pytest.mark.parametrize("name", ["P0", "P1", "P2"])
def test_what_is_found_is_valid_and_rightly_reported(name):
    for seed in range(4):
        problem = small_problems(seed)[name]
        scenario = problem.scenario
        found = search_by_neighbourhoods(
            build_instance(problem), problem.pinned, seed=seed, passes=QUICK, largest_block=4
        )
        for client, edge in enumerate(found.assignment.tolist()):
            if edge != NOBODY:
                assert problem.round.online[client]
                assert edge in edges_of(scenario, client)
        serving = found.assignment[found.assignment != NOBODY]
        counts = np.bincount(serving, minlength=len(scenario.edges))
        assert (counts <= scenario.edges.capacity).all()
        if problem.pinned is not None:
            held = problem.pinned != NOBODY
            np.testing.assert_array_equal(found.assignment[held], problem.pinned[held])
        assert found.value == pytest.approx(problem.objective(found.assignment), rel=1e-9)
        assert found.violation == pytest.approx(
            sum(edge_violations(problem, found.assignment)), abs=1e-9
        )


class ByPickle(Executor):
    """Runs each call at once, on copies that went through pickle, as a cluster would."""

    def submit(self, function, /, *arguments, **named):
        future: Future = Future()
        function, arguments, named = pickle.loads(pickle.dumps((function, arguments, named)))
        future.set_result(pickle.loads(pickle.dumps(function(*arguments, **named))))
        return future


@pytest.mark.parametrize("name", ["P0", "P1"])
def test_workers_do_not_matter(name):
    instance = build_instance(small_problems(5)[name])

    def found(executor: Executor | None) -> np.ndarray:
        return search_by_neighbourhoods(
            instance, seed=2, passes=QUICK, largest_block=4, executor=executor
        ).assignment

    expected = found(None)
    np.testing.assert_array_equal(found(ByPickle()), expected)
    for workers in (1, 2, 3):
        with ThreadPoolExecutor(workers) as threads:
            np.testing.assert_array_equal(found(threads), expected)
            # Still usable: an executor that was given is not shut down.
            assert threads.submit(int, "3").result() == 3
    if name == "P0":
        with ProcessPoolExecutor(2) as processes:
            np.testing.assert_array_equal(found(processes), expected)


def test_one_block_is_the_search_of_the_whole():
    for seed in range(4):
        instance = build_instance(small_problems(seed)["P1"])
        effort = QUICK[0]
        apart = search_by_neighbourhoods(instance, seed=seed, passes=[effort], largest_block=12)
        block_seed = integer_seed(integer_seed(seed, "pass"), "block")
        whole = local_search(instance, seed=block_seed, effort=effort)
        np.testing.assert_array_equal(apart.assignment, whole.assignment)
        assert apart.violation == pytest.approx(whole.violation, abs=1e-9)
        assert apart.value == pytest.approx(whole.value, rel=1e-9)


HOT = Effort(
    runs=1,
    moves_per_edge=4_000,
    start_temperature=0.4,
    end_temperature=0.1,
    penalty=20,
    hardening=10,
    fix_runs=0,
)
COLD = replace(HOT, start_temperature=0.15, end_temperature=0.015, hardening=50)


@pytest.mark.parametrize(("name", "most"), [("P0", 1.10), ("P1", 1.15)])
def test_nearly_as_good_as_the_whole_search(name, most):
    """With the same number of moves, on maps of sixteen edges in blocks of eight at the most."""
    broken = {"apart": 0, "whole": 0}
    ratios = []
    for seed in range(6):
        scenario = numeric(400, 16, seed)
        problem = p0(Round(scenario, np.ones(400, dtype=bool)))
        if name == "P1":
            problem = p1(scenario, risk_measure(scenario, "exact"))
        instance = build_instance(problem)
        whole, apart = (
            search_by_neighbourhoods(
                instance, seed=seed, passes=[HOT, COLD, COLD], fixing=HOT, largest_block=largest
            )
            for largest in (16, 8)
        )
        broken["apart"] += apart.violation > 0
        broken["whole"] += whole.violation > 0
        ratios.append(apart.value / whole.value)
    assert broken["apart"] <= broken["whole"] + 1
    assert np.mean(ratios) < most, ratios


def test_fixing_reaches_edges_that_cold_passes_leave():
    """A search too cold to leave the empty start, with and without it."""
    scenario = numeric(1000, 16, 1)
    instance = build_instance(p1(scenario, risk_measure(scenario, "exact")))
    cold = replace(COLD, start_temperature=0.02, moves_per_edge=500)
    left, fixed = (
        search_by_neighbourhoods(instance, passes=[cold, cold], fixing=fixing, largest_block=6)
        for fixing in (None, HOT)
    )
    assert left.violation > 1
    assert fixed.violation < 0.5 * left.violation


def test_more_passes_are_never_worse():
    for seed in range(4):
        instance = build_instance(small_problems(seed)["P1"])
        found = [
            search_by_neighbourhoods(instance, seed=seed, passes=QUICK[:1] * n, largest_block=3)
            for n in (1, 2, 4)
        ]
        pairs = [(each.violation, each.value) for each in found]
        assert pairs == sorted(pairs, reverse=True)
    assert len(set(pairs)) > 1


def test_away_from_the_focus_nothing_is_added():
    for seed in range(5):
        problem = small_problems(seed)["P0"]
        rng = np.random.default_rng(seed)
        start = random_assignment(problem.scenario, rng, share=0.4)
        start[~problem.round.online] = NOBODY
        focus = np.array([2, 7])
        found = search_by_neighbourhoods(
            build_instance(problem), start, seed=seed, passes=QUICK, focus=focus, largest_block=4
        )
        for edge in set(range(12)) - {2, 7}:
            assert (found.assignment == edge).sum() <= (start == edge).sum()


def test_a_time_limit_leaves_one_short_pass():
    instance = build_instance(small_problems(0)["P0"])
    trial = replace(QUICK[0], runs=1, moves_per_edge=_TRIAL, fix_runs=0)
    one = search_by_neighbourhoods(instance, passes=[trial], largest_block=4)
    limited = search_by_neighbourhoods(instance, passes=QUICK, largest_block=4, seconds=1e-9)
    np.testing.assert_array_equal(limited.assignment, one.assignment)
    longer = search_by_neighbourhoods(instance, passes=QUICK[:1], largest_block=4, seconds=0.3)
    assert not one.better_than(longer)


def test_a_failing_worker_is_not_hidden():
    class Broken(Executor):
        def submit(self, function, /, *arguments, **named):
            future: Future = Future()
            future.set_exception(OSError("a worker is gone"))
            return future

    instance = build_instance(small_problems(0)["P0"])
    with pytest.raises(OSError, match="a worker is gone"):
        search_by_neighbourhoods(instance, passes=QUICK, largest_block=4, executor=Broken())


def test_nobody_to_choose_from():
    scenario = random_scenario(0, clients=30, edges=9)
    instance = build_instance(p0(Round(scenario, np.zeros(30, dtype=bool))))
    found = search_by_neighbourhoods(instance, passes=QUICK, largest_block=2)
    assert (found.assignment == NOBODY).all()
    assert found.violation > 0
