"""Cuts and the branch and bound over clusters, against every choice there is."""

import itertools

import numpy as np
import pytest
from test_exact_parts import CLIENTS, random_cuts, some_instance

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, distinct, select, with_columns
from stagewise.exact.cuts import Cuts, crossings, violated
from stagewise.exact.master import Master
from stagewise.exact.prices import Prices
from stagewise.exact.search_threads import SearchThreads
from stagewise.exact.selection import select_disjoint
from stagewise.search.instance import Instance

EDGES = 3


def random_columns(rng: np.random.Generator, count: int) -> Columns:
    members = np.full((count, 3), NONE, dtype=np.int32)
    for row in members:
        size = int(rng.integers(1, 4))
        row[:size] = rng.choice(CLIENTS, size, replace=False)
    edge = np.append(np.arange(EDGES), rng.integers(0, EDGES, count - EDGES)).astype(np.int32)
    return Columns(edge, members, rng.random(count) + 0.2, rng.random(count))


def items_of(columns: Columns, row: int) -> set[int]:
    clients = {int(c) for c in columns.members[row] if c != NONE}
    return clients | {CLIENTS + int(columns.edge[row])}


def disjoint_choices(columns: Columns) -> list[tuple[int, ...]]:
    by_edge = [np.flatnonzero(columns.edge == j).tolist() for j in range(EDGES)]
    return [
        rows
        for rows in itertools.product(*by_edge)
        if sum(len(items_of(columns, row)) for row in rows)
        == len(set().union(*(items_of(columns, row) for row in rows)))
    ]


def cost_of(instance: Instance, columns: Columns, rows: tuple[int, ...], least: float) -> float:
    chosen = list(rows)
    delay = max(least, float(columns.delay[chosen].max()))
    energy = float(columns.energy[chosen].sum())
    return instance.delay_weight * delay + instance.energy_weight * energy


@pytest.fixture(params=range(40))
def rng(request):
    return np.random.default_rng(request.param)


def test_crossings_are_counted_item_by_item(rng):
    columns, cuts = random_columns(rng, 20), random_cuts(rng, 8)
    crossed = crossings(columns.held(some_instance(0)), cuts.items).toarray()
    for row, cut in itertools.product(range(20), range(8)):
        common = items_of(columns, row) & set(cuts.items[cut].tolist())
        assert crossed[row, cut] == (len(common) >= 2)


def test_no_disjoint_choice_breaks_a_cut(rng):
    columns, cuts = random_columns(rng, 18), random_cuts(rng, 30)
    crossed = crossings(columns.held(some_instance(0)), cuts.items).toarray()
    for rows in disjoint_choices(columns):
        assert (crossed[list(rows)].sum(axis=0) <= 1).all()


def test_reduced_costs_have_what_cuts_cost(rng):
    instance, columns, cuts = some_instance(1), random_columns(rng, 12), random_cuts(rng, 6)
    prices = Prices(rng.random(CLIENTS), rng.random(EDGES))
    without = columns.reduced_costs(instance, np.zeros(EDGES), prices)
    paid = crossings(columns.held(instance), cuts.items).toarray() @ cuts.price
    with_cuts = Prices(prices.client, prices.delay, cuts)
    assert columns.reduced_costs(instance, np.zeros(EDGES), with_cuts) == pytest.approx(
        without + paid
    )
    assert with_cuts.paid == pytest.approx(prices.client.sum() + cuts.price.sum())


def test_the_most_violated_triples_are_found(rng):
    """Against all triples, on fractional uses of clusters."""
    columns = random_columns(rng, 14)
    use = rng.random(14) * 0.6
    held = columns.held(some_instance(0))
    broken = {
        triple: excess
        for triple in itertools.combinations(range(CLIENTS + EDGES), 3)
        if (
            excess := sum(
                use[row] for row in range(14) if len(items_of(columns, row) & set(triple)) >= 2
            )
            - 1
        )
        > 0.0021
    }
    found = [tuple(row) for row in violated(held, use, 10_000).tolist()]
    assert len(set(found)) == len(found)
    assert set(found) <= set(broken)
    assert bool(found) == bool(broken)
    if found:
        assert broken[found[0]] == pytest.approx(max(broken.values()))


def test_cuts_raise_the_master_and_never_above_the_best_choice(rng):
    instance, columns = some_instance(0), random_columns(rng, 24)
    master = Master(instance, columns, unserved_cost=50.0)
    best = min(
        (cost_of(instance, columns, rows, 0.0) for rows in disjoint_choices(columns)), default=50.0
    )
    value = -np.inf
    while (solution := master.solve()) is not None:
        assert value - 1e-7 <= solution.value <= best + 1e-7
        value = solution.value
        # The prices prove the value: what clusters cost at them, less what is paid.
        least = columns.reduced_costs(instance, np.zeros(EDGES), solution.prices)
        cheapest = [min(50.0, float(least[columns.edge == j].min())) for j in range(EDGES)]
        assert sum(cheapest) - solution.prices.paid == pytest.approx(value, abs=1e-6)
        if not master.add_violated_cuts(solution, 5):
            break
    assert solution is not None


def test_a_cut_brings_its_columns_of_later(rng):
    """A master that gets clusters after cuts equals one that had all from the start."""
    instance, columns = some_instance(0), random_columns(rng, 24)
    early = np.arange(12)
    cuts = random_cuts(rng, 6).items
    grown = Master(instance, select(columns, early), 50.0, cuts=cuts)
    grown.solve()
    grown.add_columns([select(columns, np.arange(12, 24))])
    whole = Master(instance, columns, 50.0, cuts=cuts)
    first, second = grown.solve(), whole.solve()
    assert first is not None and second is not None
    assert first.value == pytest.approx(second.value)


@pytest.mark.parametrize("scale", [1.0, 1e-7])
def test_branch_and_bound_finds_the_best_choice(rng, scale):
    """However small costs are: HiGHS's tolerances are absolute."""
    instance, columns = some_instance(0), distinct(random_columns(rng, 24))
    instance = instance._replace(
        delay_weight=scale * instance.delay_weight, energy_weight=scale * instance.energy_weight
    )
    least = float(rng.random())
    choices = disjoint_choices(columns)
    costs = {rows: cost_of(instance, columns, rows, least) for rows in choices}
    start = np.array(choices[0] if choices and rng.random() < 0.5 else [], dtype=np.int64)
    with SearchThreads() as threads:
        found = select_disjoint(instance, columns, least, start, threads, seconds=60.0, gap=1e-9)
    if not costs:
        assert found.rows is None and np.isinf(found.bound)
        return
    best = min(costs.values())
    assert found.rows is not None
    assert cost_of(instance, columns, tuple(found.rows), least) == pytest.approx(best, rel=1e-6)
    assert best * (1 - 1e-5) <= found.bound <= best


def test_a_choice_is_found_again_among_the_columns(rng):
    columns = random_columns(rng, 20)
    mine = select(columns, np.array([3, 7, 11]))
    together, rows = with_columns(columns, mine)
    for n, row in enumerate(rows):
        assert items_of(together, int(row)) == items_of(mine, n)
    everything = {frozenset(items_of(together, row)) for row in range(len(together))}
    assert len(everything) == len(together) <= 20


def test_prices_mix_with_cuts_that_came_later():
    old = Prices(np.ones(2), np.ones(1), Cuts(np.array([[0, 1, 2]]), np.array([1.0])))
    items = np.array([[0, 1, 2], [1, 2, 3]])
    new = Prices(np.zeros(2), np.zeros(1), Cuts(items, np.array([0.0, 2.0])))
    mixed = new.mixed(old, 0.25)
    assert mixed.cuts.price.tolist() == [0.25, 1.5]
    assert mixed.client.tolist() == [0.25, 0.25]
