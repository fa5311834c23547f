"""Edges that settle one after the other: disjoint, and in the mean cheaper than taking turns."""

import numpy as np
import pytest
from choice_cases import UNSERVED, best_value, problems, value_of
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewise.compiled import NONE
from stagewise.exact.prices import Prices
from stagewise.pool.dive import _sift_down, dive
from stagewise.pool.pricing import CHOOSE_EVERY, Choices, new_pricing_workspace, price_clients


def even(choices, client_price):
    edges = len(choices.start) - 1
    return Prices(client_price, np.full(edges, choices.delay_weight / edges))


def in_turn(choices, prices):
    """What the best choice costs that forty steps of pricing meet by taking turns again and again."""
    work = new_pricing_workspace(choices, prices.client, prices.delay)
    price_clients(choices, len(prices.client), 40, CHOOSE_EVERY, np.inf, work)
    return value_of(choices, work.choice)


def contested(seed, edges, clients, rows=60):
    """Neighbouring edges that want the same clients, in clusters of four to six."""
    rng = np.random.default_rng(seed)
    members = np.full((edges * rows, 6), NONE, dtype=np.int32)
    for row in range(len(members)):
        near = (clients // edges * (row // rows) + np.arange(15)) % clients
        chosen = rng.choice(near, rng.integers(4, 7), replace=False)
        members[row, : len(chosen)] = chosen
    energy = rng.uniform(1, 3, clients)
    return Choices(
        start=rows * np.arange(edges + 1),
        members=members,
        cost=np.where(members >= 0, energy[members], 0).sum(axis=1),
        delay=rng.uniform(0.1, 2, len(members)),
        delay_weight=0.5,
        unserved_cost=UNSERVED,
    )


@given(problems((1, 5)))
@settings(max_examples=200)
def test_a_choice_is_disjoint_and_leaves_the_clusters_alone(problem):
    choices, client_price = problem
    prices = even(choices, client_price)
    given_choices = [np.copy(part) for part in choices]
    choice = dive(choices, prices)
    value = value_of(choices, choice)
    assert value is not None
    assert value >= best_value(choices) - 1e-9
    for j, row in enumerate(choice):
        assert row == NONE or choices.start[j] <= row < choices.start[j + 1]
    for part, before in zip(choices, given_choices, strict=True):
        np.testing.assert_array_equal(part, before)


def test_edges_that_share_nobody_have_their_cheapest():
    choices = Choices(
        start=np.array([0, 2, 4, 6]),
        members=np.repeat(np.arange(3, dtype=np.int32), 2)[:, None],
        cost=np.array([2.0, 1.0, 5.0, 6.0, 1.0, 1.5]),
        delay=np.ones(6),
        delay_weight=1.0,
        unserved_cost=UNSERVED,
    )
    assert dive(choices, even(choices, np.zeros(3))).tolist() == [1, 2, 4]


def test_where_neighbours_want_the_same_clients_it_is_cheaper_in_the_mean():
    ratios = []
    for seed in range(12):
        choices = contested(seed, edges=120, clients=960)
        prices = even(choices, np.zeros(960))
        found = value_of(choices, dive(choices, prices))
        ratios.append(found / in_turn(choices, prices))
    assert np.exp(np.mean(np.log(ratios))) < 0.995


@pytest.mark.parametrize("edges", [101, 130])
def test_very_many_edges_settle_too(edges):
    choices = contested(1, edges=edges, clients=8 * edges)
    choice = dive(choices, even(choices, np.zeros(8 * edges)))
    assert value_of(choices, choice) is not None
    assert (choice != NONE).mean() > 0.9


@given(st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0]), min_size=1, max_size=30))
def test_the_heap_gives_the_least_reluctant_first_and_the_lower_number_of_equals(values):
    reluctance, size = np.array(values), len(values)
    queue = np.arange(size)
    for place in range(size // 2 - 1, -1, -1):
        _sift_down(queue, size, place, reluctance)
    order = []
    while size:
        order.append(queue[0])
        size -= 1
        queue[0] = queue[size]
        _sift_down(queue, size, 0, reluctance)
    assert order == np.argsort(reluctance, kind="stable").tolist()
