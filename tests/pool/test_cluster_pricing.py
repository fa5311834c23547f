"""Prices, bounds and disjoint choices against all choices there are among random columns."""

import itertools

import numpy as np
import pytest
from pool_cases import CLIENTS, EDGES, WEIGHTS
from pool_cases import random_prices as prices_for

from references import plain_scenario
from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, select
from stagewise.exact.prices import Prices
from stagewise.pool.library import unlearned_prices
from stagewise.pool.priced_columns import PricedColumns, price
from stagewise.pool.pricing import Choices, improve_choice
from stagewise.problem.statement import p0
from stagewise.search.instance import Instance, build_instance
from stagewise.world.rounds import Round
from stagewise.world.scenario import Weights

SEEDS = range(120)
UNSERVED = 1e3


def some_prices(seed: int) -> Prices:
    return prices_for(seed, scenario_of(seed))


def scenario_of(seed: int):
    weights = Weights(*WEIGHTS[seed % 3])
    links = [range(EDGES)] * CLIENTS
    return plain_scenario([[1]] * CLIENTS, links, capacity=[9] * EDGES, weights=weights)


def instance_of(seed: int) -> Instance:
    return build_instance(p0(Round(scenario_of(seed), np.ones(CLIENTS, dtype=np.bool_))))


def some_columns(seed: int) -> Columns:
    """One to eight columns of every edge, each of one to three clients."""
    rng = np.random.default_rng(seed)
    rows = [edge for edge in range(EDGES) for _ in range(rng.integers(1, 9))]
    members = np.full((len(rows), 3), NONE, dtype=np.int32)
    for row in members:
        size = rng.integers(1, 4)
        row[:size] = rng.choice(CLIENTS, size, replace=False)
    size = (members != NONE).sum(axis=1)
    return Columns(
        edge=np.array(rows, dtype=np.int32),
        members=members,
        energy=size * rng.uniform(0.5, 1.5, len(rows)),
        delay=rng.uniform(1, 5, len(rows)),
    )


def priced_by(seed: int, columns: Columns, steps: int, limit: float = np.inf) -> PricedColumns:
    return price(instance_of(seed), columns, some_prices(seed), steps, limit)


def value_of(seed: int, columns: Columns, rows: list[int]) -> float:
    """What a choice costs; an edge that goes without counts UNSERVED."""
    served = [row for row in rows if row != NONE]
    delay_weight, energy_weight = WEIGHTS[seed % 3]
    delay = columns.delay[served].max(initial=0.0)
    value = delay_weight * delay + energy_weight * columns.energy[served].sum()
    return float(value + UNSERVED * (len(rows) - len(served)))


def disjoint(columns: Columns, rows: list[int]) -> bool:
    members = [m for row in rows if row != NONE for m in columns.members[row].tolist() if m >= 0]
    return len(set(members)) == len(members)


def best_choice(seed: int, columns: Columns) -> float:
    """The least value of a disjoint choice that serves every edge."""
    parts = [np.flatnonzero(columns.edge == edge).tolist() for edge in range(EDGES)]
    choices = (list(rows) for rows in itertools.product(*parts) if disjoint(columns, list(rows)))
    return min((value_of(seed, columns, rows) for rows in choices), default=np.inf)


def test_a_bound_is_below_every_choice_and_a_choice_is_one():
    possible = 0
    found = {1: 0, 8: 0, 60: 0}
    optimal = dict(found)
    for seed in SEEDS:
        columns = some_columns(seed)
        best = best_choice(seed, columns)
        possible += np.isfinite(best)
        for steps in found:
            priced = priced_by(seed, columns, steps)
            assert (priced.prices.client >= 0).all() and np.isfinite(priced.prices.client).all()
            assert priced.prices.delay.sum() == pytest.approx(WEIGHTS[seed % 3][0])
            assert priced.base <= best * (1 + 1e-9)
            assert (priced.reduced >= 0).all()
            if priced.choice is None:
                assert priced.limit == np.inf
                continue
            rows = priced.choice.tolist()
            assert columns.edge[rows].tolist() == list(range(EDGES))
            assert disjoint(columns, rows)
            assert priced.limit == pytest.approx(value_of(seed, columns, rows), rel=1e-9)
            assert priced.limit >= best * (1 - 1e-9)
            # What is pruned by: no choice costs less than its own bound.
            assert priced.base + priced.reduced[rows].sum() <= priced.limit * (1 + 1e-9)
            found[steps] += 1
            optimal[steps] += priced.limit <= best * (1 + 1e-9)
    assert 60 < possible < len(SEEDS)
    assert found[60] >= 0.9 * possible
    assert optimal[60] >= 0.7 * possible
    assert optimal[60] >= optimal[1]


def test_every_choice_costs_at_least_its_bound():
    """Base plus reduced costs, for all choices: else the search would drop the best one."""
    for seed in SEEDS[::4]:
        columns = some_columns(seed)
        priced = priced_by(seed, columns, 30)
        parts = [np.flatnonzero(columns.edge == edge).tolist() for edge in range(EDGES)]
        for rows in itertools.product(*parts):
            if disjoint(columns, list(rows)):
                bound = priced.base + priced.reduced[list(rows)].sum()
                assert bound <= value_of(seed, columns, list(rows)) * (1 + 1e-9)


def test_more_steps_lift_the_bound():
    left = []
    for seed in SEEDS:
        columns = some_columns(seed)
        best = best_choice(seed, columns)
        first, last = (priced_by(seed, columns, steps).base for steps in (1, 60))
        assert last >= first - 1e-9
        if np.isfinite(best):
            instance, prices = instance_of(seed), unlearned_prices(scenario_of(seed))
            left.append(1 - price(instance, columns, prices, 60, np.inf).base / best)
    assert np.median(left) < 0.15


def test_prices_far_too_high_come_down():
    """The bound is then below 0; steps must lead away from there all the same."""
    for seed in range(0, 60, 3):
        columns = some_columns(seed)
        dear = Prices(np.full(CLIENTS, 20.0), some_prices(seed).delay)
        first, last = (price(instance_of(seed), columns, dear, steps, np.inf) for steps in (1, 200))
        assert first.base < 0
        assert last.base > first.base + 0.5 * abs(first.base)


def test_only_a_choice_below_the_limit_counts():
    for seed in SEEDS:
        columns = some_columns(seed)
        best = best_choice(seed, columns)
        if np.isfinite(best):
            limit = best * (1 - 1e-9)
            priced = priced_by(seed, columns, 20, limit)
            assert priced.choice is None
            assert priced.limit == limit
            above = priced_by(seed, columns, 20, best * 1.2)
            assert above.choice is None or above.limit < best * 1.2


def test_an_edge_without_clusters_goes_without():
    for seed in SEEDS:
        columns = some_columns(seed)
        columns = select(columns, columns.edge != seed % EDGES)
        assert priced_by(seed, columns, 10).choice is None
        partial = price(instance_of(seed), columns, some_prices(seed), 10, np.inf, everyone=False)
        assert partial.choice is not None
        rows = partial.choice.tolist()
        assert rows[seed % EDGES] == NONE
        assert disjoint(columns, rows)
        assert all(row == NONE or columns.edge[row] == edge for edge, row in enumerate(rows))
        assert sum(row != NONE for row in rows) >= 1


def test_without_any_cluster_nobody_serves():
    columns = select(some_columns(0), np.zeros(0, dtype=np.int64))
    partial = price(instance_of(0), columns, some_prices(0), 5, np.inf, everyone=False)
    assert partial.choice is not None
    assert partial.choice.tolist() == [NONE] * EDGES
    assert len(partial.reduced) == 0
    assert priced_by(0, columns, 5).choice is None


def improved(seed: int, columns: Columns, choice: list[int]) -> list[int]:
    delay_weight, energy_weight = WEIGHTS[seed % 3]
    room = np.array(choice, dtype=np.int64)
    choices = Choices(
        start=np.searchsorted(columns.edge, np.arange(EDGES + 1)),
        members=columns.members,
        cost=energy_weight * columns.energy,
        delay=columns.delay,
        delay_weight=delay_weight,
        unserved_cost=UNSERVED,
    )
    improve_choice(choices, room, np.full(CLIENTS + 1, 77.0), 50)  # whatever the room held before
    return room.tolist()


def random_choice(columns: Columns, rng: np.random.Generator) -> list[int]:
    """A disjoint choice in which edges may go without."""
    rows: list[int] = []
    for edge in range(EDGES):
        part = rng.permutation(np.flatnonzero(columns.edge == edge)).tolist()
        fits = [row for row in part if disjoint(columns, [*rows, row])]
        rows.append(fits[0] if fits and rng.random() < 0.7 else NONE)
    return rows


def test_second_thoughts_end_where_no_edge_alone_can_do_better():
    better = 0
    for seed in SEEDS:
        columns = some_columns(seed)
        start = random_choice(columns, np.random.default_rng(seed))
        end = improved(seed, columns, start)
        assert disjoint(columns, end)
        assert all(row == NONE or columns.edge[row] == edge for edge, row in enumerate(end))
        value = value_of(seed, columns, end)
        better += value < value_of(seed, columns, start)
        assert value <= value_of(seed, columns, start) * (1 + 1e-9)
        for edge in range(EDGES):
            for row in np.flatnonzero(columns.edge == edge).tolist():
                other = [*end[:edge], row, *end[edge + 1 :]]
                if disjoint(columns, other):
                    assert value_of(seed, columns, other) >= value * (1 - 1e-9)
    assert better > 60


def test_second_thoughts_without_anything_to_choose():
    columns = select(some_columns(0), np.zeros(0, dtype=np.int64))
    assert improved(0, columns, [NONE] * EDGES) == [NONE] * EDGES
