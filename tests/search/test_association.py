"""Alg. 2 against a plain transcription and against every complete association of small sets."""

import math

import numpy as np
import pytest

from helpers import random_scenario
from references import (
    NOBODY,
    complete_associations,
    edge_violations,
    edges_of,
    members_of,
    plain_scenario,
    plain_value,
)
from stagewise.errors import StagewiseError
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import Problem, p0, p1
from stagewise.search.association import (
    BACK_TRACKING,
    MARKED_PAIRS,
    READINGS,
    Reading,
    associate,
    new_association,
    reading_of,
)
from stagewise.search.instance import build_instance
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Weights

CASES = 150
PLENTY = 100_000


def problem_of(seed: int, **changes) -> Problem:
    """P0 or P1 in turn, with limits that about half of the sets can keep."""
    options = {"clients": 8, "edges": 3, "labels": 3, "isolated": 0.0, "labels_per_client": (1, 3)}
    limits = Limits(kld_max=0.4, data_min=60, kld_risk=0.5, data_risk=0.5)
    options |= {"limits": limits, "weights": Weights(0.5, 0.5, 3.0), **changes}
    scenario = random_scenario(seed, **options)
    if seed % 3 == 0:
        return p0(Round(scenario, np.ones(len(scenario.clients), dtype=bool)))
    measure = "exact" if seed % 3 == 1 else "sampled"
    return p1(scenario, risk_measure(scenario, measure, seed=seed, samples=100))


def set_of(seed: int, problem: Problem) -> list[int]:
    rng = np.random.default_rng(seed)
    clients = len(problem.scenario.clients)
    return rng.permutation(clients)[: rng.integers(1, clients)].tolist()


def by_algorithm_2(
    problem: Problem, selected: list[int], nodes: int = 0, reading: Reading | None = None
):
    """(violation, value, association), by default by back-tracking from cost alone."""
    reading = reading or Reading(BACK_TRACKING, penalty=0.0, steps=nodes)
    association = new_association(build_instance(problem), reading)
    found = associate(association, np.array(selected, dtype=np.int64), len(selected))
    return (*found, association.work.best.copy())


def greedy(problem: Problem, selected: list[int]) -> np.ndarray | None:
    """Lines 2-10 of Alg. 2; None where a client finds no room."""
    scenario = problem.scenario
    assignment = np.full(len(scenario.clients), NOBODY, dtype=np.int64)

    def with_room(client: int) -> list[int]:
        counts = [len(members) for members in members_of(scenario, assignment)]
        return [j for j in edges_of(scenario, client) if counts[j] < scenario.edges.capacity[j]]

    waiting = []
    for client in selected:
        if len(edges_of(scenario, client)) > 1:
            waiting.append(client)
        elif with_room(client):
            assignment[client] = edges_of(scenario, client)[0]
        else:
            return None
    while waiting:
        best = None
        for client in waiting:
            for edge in with_room(client):
                assignment[client] = edge
                value = plain_value(problem, assignment)
                assignment[client] = NOBODY
                if best is None or value < best[0]:
                    best = (value, client, edge)
        if best is None:
            return None
        assignment[best[1]] = best[2]
        waiting.remove(best[1])
    return assignment


def test_the_greedy_association():
    """Without back-tracking the result is the plain transcription's."""
    compared = 0
    for seed in range(CASES):
        problem = problem_of(seed)
        selected = set_of(seed, problem)
        violation, value, association = by_algorithm_2(problem, selected, nodes=0)
        expected = greedy(problem, selected)
        if expected is None:
            assert violation == math.inf
            continue
        compared += 1
        np.testing.assert_array_equal(association, expected, err_msg=f"seed {seed}")
        assert value == pytest.approx(plain_value(problem, expected), rel=1e-9, abs=1e-9)
        assert violation == pytest.approx(sum(edge_violations(problem, expected)), abs=1e-9)
    assert compared >= CASES // 2


def test_the_greedy_association_by_hand():
    """c0 can only go to es0. c1 has the larger data set, so its delay counts wherever it goes.

    With delay alone, T_ij = 5e-4 d + 0.2: c0 (200) 0.30 s, c1 (400) 0.40 s, c2 (100) 0.25 s; es0 adds
    0.1 and es1 0.2. After c0 the delay is 3 * 0.30 + 0.1 = 1.0. c2 at es0 leaves it at 1.0, at es1
    3 * 0.25 + 0.2 = 0.95 as well; the first in order is es0. Then c1 costs 1.3 at es0, 1.4 at es1: but
    es0 has room for two only, so es1.
    """
    scenario = plain_scenario(
        [[100, 100], [200, 200], [50, 50]],
        [[0], [0, 1], [0, 1]],
        capacity=[2, 2],
        weights=Weights(delay=1.0, energy=0.0),
    )
    problem = p0(Round(scenario, np.ones(3, dtype=bool)))
    violation, value, association = by_algorithm_2(problem, [0, 1, 2], nodes=0)
    assert association.tolist() == [0, 1, 0]
    assert value == pytest.approx(3 * 0.40 + 0.2, rel=1e-12)
    assert violation == 0


def test_back_tracking_finds_what_there_is():
    """With room for everybody: a feasible association if there is one, else the least violation."""
    feasible = rescued = 0
    for seed in range(CASES):
        problem = problem_of(seed, clients=7, edges=2, capacity=(7, 7))
        selected = set_of(seed, problem)
        everything = complete_associations(problem.scenario, selected)
        least = min(sum(edge_violations(problem, association)) for association in everything)
        violation, value, association = by_algorithm_2(problem, selected, PLENTY)
        assert violation == pytest.approx(least, abs=1e-9), f"seed {seed}"
        assert violation == pytest.approx(sum(edge_violations(problem, association)), abs=1e-9)
        assert value == pytest.approx(plain_value(problem, association), rel=1e-9, abs=1e-9)
        assert sorted(np.flatnonzero(association != NOBODY)) == sorted(selected)
        feasible += violation == 0
        rescued += violation == 0 and by_algorithm_2(problem, selected, 0)[0] > 0
    assert feasible >= 10
    assert rescued >= 3


def test_back_tracking_finds_what_there_is_where_room_is_short():
    """The same with full edges, also where the greedy association leaves a client without a place."""
    possible = stuck = 0
    for seed in range(CASES):
        problem = problem_of(seed, clients=7, capacity=(1, 4))
        selected = set_of(seed, problem)
        everything = list(complete_associations(problem.scenario, selected))
        violation, _, _ = by_algorithm_2(problem, selected, PLENTY)
        if not everything:
            assert violation == math.inf
            continue
        possible += 1
        stuck += greedy(problem, selected) is None
        least = min(sum(edge_violations(problem, association)) for association in everything)
        assert violation == pytest.approx(least, abs=1e-9), f"seed {seed}"
    assert possible >= CASES // 3
    assert stuck >= 1


def test_the_node_budget_is_kept():
    """An infeasible set with 4^40 associations: every budget ends, and more is never worse."""
    scenario = random_scenario(
        5,
        clients=40,
        edges=4,
        coverage=1.0,
        isolated=0.0,
        capacity=(40, 40),
        limits=Limits(kld_max=0.3, data_min=10**6),
    )
    problem = p0(Round(scenario, np.ones(40, dtype=bool)))
    results = [by_algorithm_2(problem, list(range(40)), nodes) for nodes in (0, 1, 10, 100, 2_000)]
    violations = [violation for violation, _, _ in results]
    assert violations == sorted(violations, reverse=True)
    assert violations[-1] > 0
    # A step or two reaches the last clients only: the first ones stay where the greedy put them.
    assert (results[0][2] != results[1][2]).sum() <= 1


def test_nobody_and_the_unreachable():
    """An empty set leaves every edge empty; a client without a link has no association."""
    scenario = plain_scenario([[5, 5], [5, 5]], [[0, 1], []], capacity=[2, 2])
    problem = p0(Round(scenario, np.ones(2, dtype=bool)))
    violation, value, association = by_algorithm_2(problem, [], nodes=10)
    assert violation == pytest.approx(sum(edge_violations(problem, association)))
    assert value == 0
    assert (association == NOBODY).all()
    assert by_algorithm_2(problem, [0, 1], nodes=10)[0] == math.inf


@pytest.mark.parametrize("name", READINGS)
def test_every_reading_tells_what_its_association_is(name):
    """Figures are those of the association, which has exactly the clients of the set."""
    feasible = 0
    for seed in range(CASES):
        problem = problem_of(seed, edges=2, capacity=(3, 7))
        selected = set_of(seed, problem)
        violation, value, association = by_algorithm_2(problem, selected, reading=READINGS[name])
        if violation == math.inf:
            continue
        assert sorted(np.flatnonzero(association != NOBODY)) == sorted(selected)
        assert violation == pytest.approx(sum(edge_violations(problem, association)), abs=1e-9)
        assert value == pytest.approx(plain_value(problem, association), rel=1e-9, abs=1e-9)
        feasible += violation == 0
    assert feasible >= 5


def test_after_re_association_no_client_is_better_elsewhere():
    """No single client can move and leave less violation, or as little at less cost."""
    compared = moved = 0
    for seed in range(CASES):
        problem = problem_of(seed, capacity=(2, 5))
        selected = set_of(seed, problem)
        violation, value, association = by_algorithm_2(
            problem, selected, reading=READINGS["from-scratch"]
        )
        if violation == math.inf:
            continue
        start = greedy(problem, selected)
        moved += start is not None and (association != start).any()
        for client in selected:
            for edge in edges_of(problem.scenario, client):
                trial = association.copy()
                trial[client] = edge
                counts = [len(members) for members in members_of(problem.scenario, trial)]
                if edge == association[client] or (counts > problem.scenario.edges.capacity).any():
                    continue
                compared += 1
                then = sum(edge_violations(problem, trial))
                assert then >= violation - 1e-9, f"seed {seed}"
                if then <= violation + 1e-12:
                    assert plain_value(problem, trial) >= value - 1e-9, f"seed {seed}"
    assert compared >= CASES
    assert moved >= 10


def test_marked_pairs_never_come_back():
    """More runs of the greedy are never worse, and some sets need them."""
    rescued = 0
    for seed in range(CASES):
        problem = problem_of(seed, edges=2, capacity=(3, 7))
        selected = set_of(seed, problem)
        found = [
            by_algorithm_2(problem, selected, reading=Reading(MARKED_PAIRS, 0.0, steps))[0]
            for steps in (0, 1, 3, 50, 500)
        ]
        assert found == sorted(found, reverse=True), f"seed {seed}"
        assert found[-1] == found[-2]  # 8 clients x 2 edges: every pair has been marked before
        rescued += found[0] > 0 and found[-1] == 0
    assert rescued >= 3


def test_readings_by_name():
    assert reading_of("back-tracking,steps=2000") == READINGS["back-tracking"]._replace(steps=2000)
    assert reading_of("re-association,starts=1,penalty=5").penalty == 5.0
    for text in (
        "",
        "guess",
        "back-tracking,steps",
        "back-tracking,steps=-1",
        "marked-pairs,keeps=1",
        "re-association,penalty=inf",
        "re-association,penalty=nan",
    ):
        with pytest.raises(StagewiseError, match=r"reading = .*: must be one of re-association"):
            reading_of(text)
