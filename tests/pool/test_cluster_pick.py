"""The pick of a round and its stand-ins against all assignments there are."""

from dataclasses import replace

import numpy as np
import pytest
from pool_cases import EDGES, Case, case_of, keeps_limits, small_case

from brute_force import best_decision
from references import plain_scenario, violations
from stagewise.exact.columns import Columns, select
from stagewise.exact.solver import solve_exactly
from stagewise.pool import round_clusters
from stagewise.pool.learning import build_library
from stagewise.pool.library import Library, unlearned_prices
from stagewise.pool.pick import pick_from_library, pick_on_the_spot
from stagewise.pool.round_clusters import costs_are_far, online_columns
from stagewise.pool.surcharge import surcharged
from stagewise.pool.unserved import serve_unserved
from stagewise.problem.statement import p0, p2
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

SEEDS = range(60)


def library_for(case: Case) -> Library:
    return build_library(case.scenario, clusters_per_edge=200)


def check_found(case: Case, assignment: np.ndarray, violation: float) -> None:
    """Nobody serves who may not, the pinned stay, and no violation means what it says."""
    problem = p2(case.round_, case.pinned)
    broken = violations(problem, assignment)
    assert not [line for line in broken if "serve" in line or "capacity" in line]
    assert (violation == 0) == (not broken)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_pick_is_nearly_always_the_optimum(pinned):
    possible = found = right = 0
    for seed in SEEDS:
        case = small_case(seed, pinned=pinned, loose=True)
        best = best_decision(case.round_, case.pinned)
        if pinned:
            pick = pick_on_the_spot(case.instance, library_for(case), case.round_, case.pinned)
        else:
            pick = pick_from_library(case.instance, library_for(case), case.round_)
        check_found(case, pick.assignment, pick.violation)
        possible += best.feasible
        if pick.violation > 0:
            continue
        found += 1
        assert best.feasible
        value = p0(case.round_).objective(pick.assignment)
        assert value == pytest.approx(pick.value, rel=1e-9)
        assert value >= best.value * (1 - 1e-9)
        right += value <= best.value * (1 + 1e-9)
    assert possible > 40
    assert found >= 0.97 * possible
    assert right >= 0.95 * possible


def in_other_weather(case: Case, seed: int) -> Case:
    """The case with every channel and CPU drawn again, as the paper's Ext. I has them."""
    (round_,) = fluctuate([case.round_], seed)
    return case_of(round_, case.pinned)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_library_of_other_costs_does_not_spoil_the_pick(pinned):
    possible = right = far = 0
    for seed in SEEDS:
        usual = small_case(seed, pinned=pinned, loose=True)
        case = in_other_weather(usual, seed)
        best = best_decision(case.round_, case.pinned)
        if pinned:
            library = library_for(usual)
            pick = pick_on_the_spot(case.instance, library, case.round_, case.pinned)
        else:
            pick = pick_from_library(case.instance, library_for(usual), case.round_)
        check_found(case, pick.assignment, pick.violation)
        far += costs_are_far(case.round_, case.scenario.costs)
        possible += best.feasible
        if pick.violation == 0:
            assert pick.value >= best.value * (1 - 1e-9)
            right += pick.value <= best.value * (1 + 1e-9)
    assert far == len(SEEDS)
    assert possible > 40
    assert right >= 0.95 * possible


def test_in_other_weather_the_library_alone_would_be_dear(monkeypatch):
    scenario = numeric(clients=60, edges=3, seed=8)
    library = build_library(scenario)
    values = {}
    for name, limit in (("own clusters", round_clusters.FAR), ("the library's", np.inf)):
        monkeypatch.setattr(round_clusters, "FAR", limit)
        rounds = fluctuate(bernoulli(scenario, 6, seed=2), seed=3)
        found = [pick_from_library(case_of(round_).instance, library, round_) for round_ in rounds]
        assert all(one.violation == 0 for one in found)
        values[name] = [one.value for one in found]
    best = [solve_exactly(p0(round_)).value for round_ in rounds]
    assert np.mean(np.divide(values["own clusters"], best)) < 1.05
    assert np.mean(np.divide(values["the library's"], best)) > 1.1


def test_costs_are_far_where_they_differ_by_more_than_the_limit():
    scenario = numeric(clients=30, edges=3, seed=1)
    (round_,) = bernoulli(scenario, 1, seed=1)
    usual, cpu_hz = scenario.costs, scenario.clients.cpu_hz
    assert not costs_are_far(round_, usual)
    same = replace(round_, cpu_hz=cpu_hz.copy(), gain=scenario.links.gain.copy())
    assert not costs_are_far(same, usual)
    # Energy goes with the square of the frequency: a twentieth more is little, a half more is not.
    assert not costs_are_far(replace(round_, cpu_hz=1.05 * cpu_hz), usual)
    fast = replace(round_, cpu_hz=1.5 * cpu_hz)
    assert costs_are_far(fast, usual)
    # What counts is what the library was made for, not what the scenario says.
    assert not costs_are_far(fast, fast.costs)
    assert costs_are_far(round_, fast.costs)
    # Who is offline does not count.
    offline = replace(round_, cpu_hz=np.where(round_.online, 1.0, 5.0) * cpu_hz)
    assert not costs_are_far(offline, usual)
    assert not costs_are_far(replace(same, online=np.zeros(30, dtype=np.bool_)), usual)


@pytest.mark.parametrize("edges", [3, 14])
def test_in_other_weather_a_surcharge_and_many_edges_are_minded(edges):
    scenario = numeric(clients=20 * edges, edges=edges, seed=5)
    library = build_library(scenario, clusters_per_edge=100)
    (round_,) = fluctuate(bernoulli(scenario, 1, seed=0), seed=0)
    extra = np.random.default_rng(0).exponential(1.0, 20 * edges)
    instance = surcharged(case_of(round_).instance, extra)
    found = pick_from_library(instance, library, round_, extra)
    assert found.violation == 0
    assert violations(p0(round_), found.assignment) == []
    owed = extra[found.assignment >= 0].sum()
    assert found.value == pytest.approx(p0(round_).objective(found.assignment) + owed)
    careless = pick_from_library(case_of(round_).instance, library, round_)
    assert owed < extra[careless.assignment >= 0].sum()


def test_the_pinned_array_is_left_as_it_is():
    case = small_case(4, pinned=True)
    before = case.pinned.copy()
    pick_on_the_spot(case.instance, library_for(case), case.round_, case.pinned)
    assert case.pinned.tolist() == before.tolist()


def rows_of(columns: Columns, edge: int) -> list[tuple]:
    part = select(columns, columns.edge == edge)
    return list(zip(map(tuple, part.members.tolist()), part.energy, part.delay, strict=True))


def test_the_clusters_online_are_those_with_every_member_there():
    scenario = numeric(clients=40, edges=3, seed=3)
    library = build_library(scenario, clusters_per_edge=100)
    for round_ in bernoulli(scenario, 3, seed=1):
        rng = np.random.default_rng(7)
        round_ = replace(round_, cpu_hz=scenario.clients.cpu_hz * rng.uniform(0.5, 1.5, 40))
        columns, counts = online_columns(library, round_)
        problem = p0(round_)
        for edge in range(3):
            rows = library.clients[library.start[edge] : library.start[edge + 1]]
            there = [row for row in rows if round_.online[row[row >= 0]].all()]
            assert counts[edge] == len(there)
            for row, (members, energy, delay) in zip(there, rows_of(columns, edge), strict=True):
                assert tuple(row.tolist()) == members
                edge_of = np.full(40, -1)
                edge_of[row[row >= 0]] = edge
                figures = problem.evaluate(edge_of)
                assert energy == pytest.approx(figures.energy_j, rel=1e-9)
                assert delay == pytest.approx(figures.delay_s, rel=1e-9)


def test_a_surcharge_in_the_columns_is_that_of_the_instance():
    scenario = numeric(clients=40, edges=3, seed=3)
    library = build_library(scenario, clusters_per_edge=50)
    (round_,) = bernoulli(scenario, 1, seed=1)
    extra = np.random.default_rng(0).exponential(1.0, 40)
    plain, _ = online_columns(library, round_)
    charged, _ = online_columns(library, round_, extra)
    owed = np.append(extra, 0.0)[plain.members].sum(axis=1)
    np.testing.assert_allclose(charged.energy, scenario.weights.energy * plain.energy + owed)
    np.testing.assert_array_equal(charged.delay, plain.delay)
    instance = surcharged(case_of(round_).instance, extra)
    found = pick_from_library(instance, library, round_, extra)
    serving = found.assignment >= 0
    owed_in_all = extra[serving].sum()
    assert found.value == pytest.approx(p0(round_).objective(found.assignment) + owed_in_all)


@pytest.mark.parametrize("edges", [3, 14])
def test_few_edges_are_searched_and_many_choose_in_turn(edges):
    """Both ways end in a feasible answer, and in the same one again."""
    scenario = numeric(clients=45 * edges // 2, edges=edges, seed=5)
    library = build_library(scenario, clusters_per_edge=100)
    for round_ in bernoulli(scenario, 2, seed=0):
        instance = case_of(round_).instance
        found = pick_from_library(instance, library, round_)
        assert found.violation == 0
        assert violations(p0(round_), found.assignment) == []
        again = pick_from_library(instance, library, round_)
        assert again.assignment.tolist() == found.assignment.tolist()


def contested(*, capacity: tuple[int, int] = (9, 9)) -> Scenario:
    """Edge 1 can only use clients 0 and 1; edge 0 has everybody."""
    counts = [[60, 0], [0, 60], [50, 0], [0, 50]]
    links = [[0, 1], [0, 1], [0], [0]]
    limits = Limits(kld_max=0.01, data_min=100)
    return plain_scenario(counts, links, limits=limits, capacity=capacity)


def served(scenario: Scenario, edge_of: list[int], pinned: list[int] | None = None) -> list[int]:
    """The assignment after edge 1, which has nobody, was served."""
    round_ = Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))
    case = case_of(round_, None if pinned is None else np.array(pinned))
    assignment = np.array(edge_of)
    serve_unserved(case.instance, assignment, [1], unlearned_prices(scenario).delay)
    return assignment.tolist()


def test_an_edge_left_out_takes_what_it_needs_and_the_losing_one_is_served_again():
    assert served(contested(), [0, 0, -1, -1]) == [1, 1, 0, 0]
    # Only one of the two is taken: what is left of the other cluster does not stay behind alone.
    assert served(contested(), [0, -1, -1, 0]) == [1, 1, 0, 0]


def test_free_clients_are_taken_before_those_of_other_edges():
    counts = [[60, 0], [0, 60], [60, 0], [0, 60]]
    limits = Limits(kld_max=0.01, data_min=100)
    scenario = plain_scenario(counts, [[0, 1]] * 4, limits=limits)
    assert served(scenario, [0, 0, -1, -1]) == [0, 0, 1, 1]
    assert served(scenario, [-1, 0, 0, -1]) == [1, 0, 0, 1]


def test_pinned_clients_are_never_taken():
    assert served(contested(), [0, 0, -1, -1], pinned=[0, -1, -1, -1]) == [0, 0, -1, -1]
    result = served(contested(), [0, 0, 1, -1], pinned=[-1, -1, -1, -1])
    assert result[:2] == [1, 1]
    # Whoever is pinned to the edge left out counts towards its cluster.
    assert served(contested(), [1, 0, -1, 0], pinned=[1, -1, -1, -1]) == [1, 1, 0, 0]


def test_where_nothing_helps_everybody_stays():
    assert served(contested(capacity=(9, 1)), [0, 0, -1, -1]) == [0, 0, -1, -1]
    assert served(contested(capacity=(9, 0)), [0, 0, -1, -1]) == [0, 0, -1, -1]


def test_what_is_served_in_the_end_is_served_by_clusters():
    served = 0
    for seed in range(60):
        case = small_case(seed, pinned=bool(seed % 2))
        assignment = case.pinned.copy()
        unserved = list(range(EDGES))
        serve_unserved(case.instance, assignment, unserved, unlearned_prices(case.scenario).delay)
        must = case.pinned >= 0
        assert (assignment[must] == case.pinned[must]).all()
        assert not assignment[~case.round_.online & (assignment >= 0)].size
        for edge in range(EDGES):
            members = np.flatnonzero(assignment == edge)
            free = [client for client in members.tolist() if not must[client]]
            if free:
                assert keeps_limits(case.scenario, members.tolist())
                assert len(members) <= case.scenario.edges.capacity[edge]
                served += 1
    assert served > 60
