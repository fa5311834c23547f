"""Windows of edges that choose together: never worse, disjoint, the optimum where one has all edges."""

from dataclasses import replace

import numpy as np
import pytest
from choice_cases import UNSERVED, best_value, problems, value_of
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.checker import check
from stagewise.compiled import NONE
from stagewise.deciding import decide, solve
from stagewise.exact.prices import Prices
from stagewise.instances.best_known import best_known
from stagewise.instances.catalogue import load_instance
from stagewise.plan_a.planners import plan
from stagewise.pool import neighbours as neighbours_module
from stagewise.pool import windows
from stagewise.pool.dive import dive
from stagewise.pool.learning import build_library, clusters_of_an_edge
from stagewise.pool.neighbours import NEIGHBOURS, neighbours
from stagewise.pool.pick import pick_from_library
from stagewise.pool.pricing import Choices, renumbered
from stagewise.pool.round_clusters import costs_are_far
from stagewise.pool.sizes import FEW_EDGES
from stagewise.pool.windows import choose_in_windows, improve_in_windows
from stagewise.problem.statement import p0
from stagewise.search.instance import build_instance
from stagewise.world.fluctuation import fluctuate
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli


def near_of(choices):
    edges = len(choices.start) - 1
    return neighbours(edges, np.repeat(np.arange(edges), np.diff(choices.start)), choices.members)


def everybody(edges):
    """As if every edge wanted the clients of every other."""
    near = np.full((edges, NEIGHBOURS), NONE, dtype=np.int64)
    for j in range(edges):
        near[j, : edges - 1] = [k for k in range(edges) if k != j]
    return near


@given(problems((1, 5)))
@settings(max_examples=200)
def test_a_window_of_all_edges_has_the_best_choice(problem):
    choices, price = problem
    edges = len(choices.start) - 1
    choice = np.full(edges, NONE, dtype=np.int64)
    improve_in_windows(choices, choice, price, everybody(edges), likely=1.0)
    assert value_of(choices, choice) == pytest.approx(best_value(choices))


@given(problems((2, 20)), st.data())
@settings(max_examples=100)
def test_a_choice_never_gets_worse(problem, data):
    choices, price = problem
    choice = np.full(len(choices.start) - 1, NONE, dtype=np.int64)
    for j in data.draw(st.permutations(range(len(choice)))):
        rows = range(choices.start[j], choices.start[j + 1])
        fitting = [NONE]
        for row in rows:
            choice[j] = row
            if value_of(choices, choice) is not None:
                fitting.append(row)
        choice[j] = data.draw(st.sampled_from(fitting))
    before = value_of(choices, choice)
    improve_in_windows(choices, choice, price, near_of(choices))
    after = value_of(choices, choice)
    assert after is not None
    assert after <= before + 1e-9
    for j, row in enumerate(choice):
        assert row == NONE or choices.start[j] <= row < choices.start[j + 1]


@pytest.mark.parametrize("seed", [849, 1710, 1814])
def test_edges_that_go_without_cost_the_same_whatever_windows_came_before(seed):
    """A window that took clients of an earlier one into account missed the best."""
    rng = np.random.default_rng(seed)
    edges, clients, of_each = int(rng.integers(4, 6)), int(rng.integers(5, 8)), 5
    rows = edges * of_each
    members, cost = np.full((rows, 3), NONE, dtype=np.int32), np.zeros(rows)
    for row in range(rows):
        size = int(rng.integers(1, 4))
        members[row, :size] = rng.choice(clients, size, replace=False)
        cost[row] = rng.uniform(0.5, 3)
    choices = Choices(
        start=of_each * np.arange(edges + 1),
        members=members,
        cost=cost,
        delay=rng.uniform(0.5, 1.5, rows),
        delay_weight=0.5,
        unserved_cost=UNSERVED,
    )
    choice = np.full(edges, NONE, dtype=np.int64)
    improve_in_windows(choices, choice, np.zeros(clients), near_of(choices))
    assert value_of(choices, choice) == pytest.approx(best_value(choices))


@given(problems((1, 25)))
def test_neighbours_want_the_same_clients(problem):
    choices, _ = problem
    near = near_of(choices)
    wanted = [
        {int(i) for i in choices.members[a:b].ravel() if i >= 0}
        for a, b in zip(choices.start, choices.start[1:], strict=False)
    ]
    for j, row in enumerate(near):
        shared = {k: len(wanted[j] & wanted[k]) for k in range(len(wanted)) if k != j}
        order = sorted((k for k in shared if shared[k]), key=lambda k: (-shared[k], k))
        padded = order[:NEIGHBOURS] + [NONE] * (NEIGHBOURS - len(order[:NEIGHBOURS]))
        assert list(row) == padded


def test_a_window_with_more_clients_than_it_has_room_for():
    """Edges that share nobody: each has a cheap cluster of its own, however many clients they have."""
    edges, own, width, rows = 8, 90, 20, 12
    rng = np.random.default_rng(5)
    members = np.concatenate(
        [
            [own * j + rng.choice(own, width, replace=False) for _ in range(rows)]
            for j in range(edges)
        ]
    ).astype(np.int32)
    cost = rng.uniform(4, 5, edges * rows)
    cost[::rows] = 1.0  # the first of each edge
    choices = Choices(
        start=rows * np.arange(edges + 1),
        members=members,
        cost=cost,
        delay=np.ones(edges * rows),
        delay_weight=0.5,
        unserved_cost=UNSERVED,
    )
    choice = rows * np.arange(edges) + rows - 1
    improve_in_windows(choices, choice, np.zeros(edges * own), everybody(edges))
    assert choice.tolist() == list(range(0, edges * rows, rows))


def test_only_edges_that_changed_and_their_neighbours_choose_again():
    """Edges 0 and 1 want client 0, 2 and 3 want client 1; all have a cheaper cluster of their own."""
    members = np.array([[0], [2], [0], [3], [1], [4], [1], [5]], dtype=np.int32)
    choices = Choices(
        start=2 * np.arange(5),
        members=members,
        cost=np.array([2.0, 1.0] * 4),
        delay=np.ones(8),
        delay_weight=0.5,
        unserved_cost=UNSERVED,
    )
    expected = {(): [0, NONE, 4, NONE], (1,): [1, 3, 4, NONE], (0, 3): [1, 3, 5, 7]}
    for edges, wanted in expected.items():
        choice = np.array([0, NONE, 4, NONE])
        changed = np.isin(np.arange(4), edges)
        improve_in_windows(choices, choice, np.zeros(6), near_of(choices), changed=changed)
        assert choice.tolist() == wanted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["flexible", "strict"])
def test_many_edges_keep_the_contract_in_every_kind_of_round(seed, mode):
    """Long-term clients stay, nobody is at an edge that is down, figures are true; costs may be new."""
    scenario = numeric(clients=220, edges=FEW_EDGES + 4, seed=seed)
    made = plan(scenario, method="pool", seed=seed)
    rounds = bernoulli(scenario, rounds=4, seed=seed)
    down = scenario.links.edge < 2
    rounds[1] = replace(rounds[1], up=~down)
    rounds[2:] = [replace(r, index=n) for n, r in enumerate(fluctuate(rounds[2:], seed), start=2)]
    decisions = decide(made, rounds, mode=mode)
    assert check(scenario, decisions, rounds) == []
    assert not np.isin(decisions[1].edge_of, [0, 1]).any()
    if mode == "strict":
        for decision in decisions:
            usable = scenario.links.find(np.arange(220), made.edge_of) >= 0
            there = decision.round.online & usable
            if decision.round.index == 1:
                there &= made.edge_of >= 2
            np.testing.assert_array_equal(decision.edge_of[there], made.edge_of[there])


def test_no_clusters_at_all():
    choices = Choices(
        start=np.zeros(4, dtype=np.int64),
        members=np.empty((0, 1), dtype=np.int32),
        cost=np.empty(0),
        delay=np.empty(0),
        delay_weight=1.0,
        unserved_cost=UNSERVED,
    )
    choice = np.full(3, NONE, dtype=np.int64)
    improve_in_windows(choices, choice, np.zeros(5), near_of(choices))
    assert (choice == NONE).all()


def test_the_same_round_gives_the_same_assignment():
    scenario = numeric(clients=200, edges=FEW_EDGES + 4, seed=3)
    library = build_library(scenario, clusters_per_edge=200)
    for round_ in bernoulli(scenario, rounds=2, seed=1):
        instance = build_instance(p0(round_))
        first, again = (pick_from_library(instance, library, round_) for _ in range(2))
        np.testing.assert_array_equal(first.assignment, again.assignment)


@pytest.mark.parametrize("cores", [1, 3])
def test_how_many_cores_generate_clusters_makes_no_difference(cores, monkeypatch):
    scenario = numeric(clients=160, edges=FEW_EDGES + 4, seed=3)
    made = plan(scenario, method="pool", seed=3)
    rounds = fluctuate(bernoulli(scenario, rounds=2, seed=1), seed=2)
    assert all(costs_are_far(round_, scenario.costs) for round_ in rounds)  # so some are generated
    usual = [decision.edge_of for decision in decide(made, rounds)]
    monkeypatch.setattr("stagewise.search.workers.available_cores", lambda: cores)
    monkeypatch.setattr("stagewise.pool.round_clusters._WORTH_THREADS", 0)
    for before, decision in zip(usual, decide(made, rounds), strict=True):
        np.testing.assert_array_equal(decision.edge_of, before)


@given(problems((2, 20)), st.integers(1, 14))
@settings(max_examples=100)
def test_the_slowest_edge_is_known_after_every_window(problem, scope):
    choices, price = problem
    edges = len(choices.start) - 1
    choice = np.full(edges, NONE, dtype=np.int64)
    work = windows._new_workspace(choices, price, scope, 50)
    work.chosen_at[:] = 1
    if len(choices.cost):
        windows._improve(choices, choice, price, near_of(choices), 2, 1.0, work)
    delays = [choices.delay[c] for c in choice if c != NONE]
    if not delays:
        assert work.slowest[0] == NONE
        return
    assert choices.delay[choice[work.slowest[0]]] == max(delays)


@given(problems((2, 12)))
@settings(max_examples=50)
def test_many_edges_choose_disjoint_clusters_no_worse_than_the_dive(problem):
    """As if there were more than a hundred: clients by other numbers, first a dive."""
    choices, price = problem
    edges = len(choices.start) - 1
    prices = Prices(price, np.full(edges, choices.delay_weight / edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "MANY_EDGES", 1)
        patch.setattr(windows, "_EDGES", 1)
        choice = choose_in_windows(choices, prices, near_of(choices))
    value = value_of(choices, choice)
    assert value is not None
    assert value <= value_of(choices, dive(*renumbered(choices, prices))) + 1e-9
    if edges <= 6:
        assert value >= best_value(choices) - 1e-9


def test_clusters_without_members_are_chosen_like_any():
    """Where pinned clients suffice an edge needs nobody else."""
    choices = Choices(
        start=np.array([0, 1, 2]),
        members=np.full((2, 3), NONE, dtype=np.int32),
        cost=np.ones(2),
        delay=np.ones(2),
        delay_weight=1.0,
        unserved_cost=UNSERVED,
    )
    own, prices = renumbered(choices, Prices(np.ones(4), np.full(2, 0.5)))
    assert len(prices.client) == 0
    choice = np.full(2, NONE, dtype=np.int64)
    improve_in_windows(own, choice, prices.client, near_of(own))
    assert choice.tolist() == [0, 1]
    assert dive(own, prices).tolist() == [0, 1]


@given(problems((2, 12)), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_clients_that_nobody_wants_and_their_numbers_make_no_difference(problem, seed):
    choices, price = problem
    edges = len(choices.start) - 1
    new = np.random.default_rng(seed).permutation(40)[: len(price)]
    members = np.where(choices.members >= 0, new[choices.members], NONE).astype(np.int32)
    everywhere = np.full(40, 7.0)
    everywhere[new] = price
    delay = np.full(edges, choices.delay_weight / edges)
    few, own = renumbered(choices, Prices(price, delay))
    same, others = renumbered(choices._replace(members=members), Prices(everywhere, delay))
    np.testing.assert_array_equal(few.members, same.members)
    np.testing.assert_array_equal(own.client, others.client)
    assert len(own.client) == len(np.unique(members[members >= 0]))
    used = few.members >= 0
    np.testing.assert_array_equal(own.client[few.members[used]], price[choices.members[used]])


def test_neighbours_are_the_same_for_some_clusters_at_a_time(monkeypatch):
    library = build_library(random_scenario(3, clients=40, edges=9), clusters_per_edge=30)
    edge = np.repeat(np.arange(9), np.diff(library.start))
    whole = neighbours(9, edge, library.clients)
    monkeypatch.setattr(neighbours_module, "CLUSTERS_AT_ONCE", 7)
    np.testing.assert_array_equal(neighbours(9, edge, library.clients), whole)


@pytest.mark.parametrize("seed", range(6))
def test_small_systems_of_many_edges_keep_the_contract(seed):
    """Few clients for many edges: most of them go without, and nothing breaks."""
    scenario = random_scenario(seed, clients=20, edges=FEW_EDGES + 3)
    library = build_library(scenario)
    for round_ in bernoulli(scenario, rounds=3, seed=seed):
        found = pick_from_library(build_instance(p0(round_)), library, round_)
        served = np.flatnonzero(found.assignment >= 0)
        assert round_.online[served].all()
        assert (scenario.links.find(served, found.assignment[served]) >= 0).all()
        counts = np.bincount(found.assignment[served], minlength=len(scenario.edges))
        assert (counts <= scenario.edges.capacity).all()


def test_clusters_of_an_edge():
    assert [clusters_of_an_edge(n) for n in (1, 4, 20)] == [4_000] * 3
    assert [clusters_of_an_edge(n) for n in (40, 200, 500)] == [2_000] * 3
    assert [clusters_of_an_edge(n) for n in (1_000, 10_000)] == [1_000] * 2


def test_where_windows_leave_limits_broken_everything_is_searched():
    """A chain of edges has one choice; no window of some of its edges can see it."""
    instance = load_instance("chain-40x8")
    scenario, rounds = instance.make()
    known = best_known(instance.name)
    for decision, best in zip(solve(scenario, rounds[:2], "pool"), known[:2], strict=True):
        assert decision.feasible
        assert decision.objective == pytest.approx(best.value)
