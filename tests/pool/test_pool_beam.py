"""A beam over all edges: disjoint, true to its cost, the optimum where it is wide enough."""

import numpy as np
import pytest
from choice_cases import UNSERVED, best_value, problems, value_of
from hypothesis import given, settings

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, select
from stagewise.pool.beam import beam_search, new_beam
from stagewise.pool.pricing import Choices
from stagewise.pool.round_clusters import each_once
from stagewise.pool.windows import choose_together
from stagewise.problem.statement import p0
from stagewise.search.instance import build_instance
from stagewise.world.generate import numeric
from stagewise.world.rounds import everybody_online

CLIENTS = 9


def with_going_without(choices):
    """The clusters with one more for each edge, of nobody."""
    edges = len(choices.start) - 1
    rows = [[*range(choices.start[a], choices.start[a + 1]), NONE] for a in range(edges)]
    order = np.concatenate(rows).astype(np.int64)
    without = order == NONE
    members = choices.members[np.where(without, 0, order)] if len(choices.cost) else None
    if members is None:
        members = np.full((edges, 1), NONE, dtype=np.int32)
    members = np.where(without[:, None], NONE, members).astype(np.int32)
    cost, delay = (np.append(part, 0.0)[order] for part in (choices.cost, choices.delay))
    return choices._replace(
        start=choices.start + np.arange(edges + 1),
        members=members,
        cost=np.where(without, UNSERVED, cost),
        delay=np.where(without, 0.0, delay),
    )


def search(choices, client_price, width, limit):
    """What a beam finds at even prices of delays: the choice and what it says that costs."""
    edges = len(choices.start) - 1
    edge = np.repeat(np.arange(edges), np.diff(choices.start))
    padded = np.append(client_price, 0.0)
    reduced = choices.cost + choices.delay_weight / edges * choices.delay
    reduced += padded[choices.members].sum(axis=1)
    least = np.minimum.reduceat(reduced, choices.start[:-1])
    order = np.lexsort((reduced, edge))
    beam = new_beam(edges, len(edge), choices.members.shape[1], CLIENTS, width)
    beam.start[:] = choices.start
    beam.members[:] = choices.members[order]
    beam.cost[:] = choices.cost[order]
    beam.delay[:] = choices.delay[order]
    beam.reduced[:] = (reduced - least[edge])[order]
    base = least.sum() - client_price.sum()
    picked = np.full(edges, NONE, dtype=np.int64)
    weight = choices.delay_weight
    value = beam_search(beam, CLIENTS, client_price, base, limit, weight, picked)
    return order[picked] if picked[0] != NONE else None, value


@given(problems((1, 5)))
@settings(max_examples=200)
def test_a_wide_beam_has_the_best_choice_whatever_the_prices(problem):
    choices, client_price = problem
    all_choices = with_going_without(choices)
    choice, value = search(all_choices, client_price, 5**5, np.inf)
    assert value == pytest.approx(best_value(choices))
    assert value_of_rows(all_choices, choice) == pytest.approx(value)


@given(problems((1, 8)))
@settings(max_examples=200)
def test_a_narrow_beam_is_disjoint_and_tells_the_true_cost(problem):
    choices, client_price = problem
    choices = with_going_without(choices)
    choice, value = search(choices, client_price, 3, np.inf)
    assert value_of_rows(choices, choice) == pytest.approx(value)
    assert search(choices, client_price, 3, value)[0] is None  # nothing is below itself


@given(problems((1, 5)))
@settings(max_examples=100)
def test_edges_that_choose_together_have_the_best_choice(problem):
    choices, client_price = problem
    choice = choose_together(choices, client_price, likely=1.0)
    assert value_of(choices, choice) == pytest.approx(best_value(choices))


def value_of_rows(choices, choice):
    """What clusters cost, those of nobody included; they must be disjoint."""
    members = choices.members[choice]
    clients = members[members >= 0].tolist()
    assert len(set(clients)) == len(clients)
    return choices.cost[choice].sum() + choices.delay_weight * choices.delay[choice].max()


def test_many_contested_clients_take_more_than_one_word():
    """Each edge wants clients of its own, each together with one of the next: all 200 are contested."""
    edges, own = 50, 4
    members = []
    for a in range(edges):
        first = own * a
        members += [[first + n, (first + own + n) % (own * edges)] for n in range(own)]
        members.append([first, first + 1])
    rows = np.array(members, dtype=np.int32)
    cost = np.tile([1.0, 1.1, 1.2, 1.3, 3.0], edges)
    choices = Choices(5 * np.arange(edges + 1), rows, cost, np.ones(5 * edges), 0.5, UNSERVED)
    choice = choose_together(choices, np.zeros(own * edges))
    # 1.0 and 1.1 in turn.
    assert value_of_rows(choices, choice) == pytest.approx(1.05 * edges + 0.5)
    np.testing.assert_array_equal(np.repeat(np.arange(edges), 5)[choice], np.arange(edges))


def test_each_cluster_of_a_round_counts_once():
    instance = build_instance(p0(everybody_online(numeric(clients=30, edges=3, seed=1))))
    members = np.array([[3, 1, -1], [1, 3, -1], [1, 3, 5], [1, 3, -1], [5, 3, 1], [7, -1, -1]])
    edge = np.array([0, 0, 0, 1, 1, 2], dtype=np.int32)
    columns = Columns(edge, members.astype(np.int32), np.arange(6.0), np.ones(6))
    kept = each_once(instance, columns)
    assert kept.energy.tolist() == [0, 2, 3, 4, 5]
    assert len(each_once(instance, select(columns, np.empty(0, dtype=np.int64)))) == 0
