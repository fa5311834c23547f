"""Columns at prices: subgradient steps over them, and which of them are worth a closer look."""

from dataclasses import dataclass

import numpy as np

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, select
from stagewise.exact.prices import Prices
from stagewise.pool.pricing import CHOOSE_EVERY, Choices, new_pricing_workspace, price_clients
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray


def in_order(columns: Columns) -> Columns:
    """The same columns, edge by edge."""
    if (np.diff(columns.edge) >= 0).all():
        return columns
    return select(columns, np.argsort(columns.edge, kind="stable"))


@dataclass(frozen=True, eq=False)
class PricedColumns:
    """Clusters after some pricing steps: `base` plus the reduced costs of a choice is a bound."""

    prices: Prices
    reduced: FloatArray
    base: float
    limit: float
    choice: IntArray | None
    """The rows of the best disjoint choice met, where it beats the limit given."""


def price(
    instance: Instance,
    columns: Columns,
    prices: Prices,
    steps: int,
    limit: float,
    *,
    everyone: bool = True,
    choose_every: int = CHOOSE_EVERY,
) -> PricedColumns:
    """Price the clients by subgradient steps over `columns`, which stand in order of edges.

    `everyone` says that a choice must serve every edge; otherwise an edge may go without, row -1.
    Choices take time: who wants the prices alone sets `choose_every` to `steps`.
    """
    choices = choices_of(instance, columns)
    work = new_pricing_workspace(choices, prices.client, prices.delay)
    reached = price_clients(choices, len(prices.client), steps, choose_every, limit, work)
    incomplete = everyone and bool((work.choice == NONE).any())
    padded = np.append(work.reduced, choices.unserved_cost)
    least = np.minimum.reduceat(padded, choices.start[:-1])
    least[np.diff(choices.start) == 0] = choices.unserved_cost
    client_price = work.client_price[:-1]
    return PricedColumns(
        prices=Prices(client_price, work.delay_price),
        reduced=work.reduced - least[columns.edge],
        base=float(least.sum() - client_price.sum()),
        limit=limit if incomplete else float(reached),
        choice=None if incomplete else work.choice,
    )


def choices_of(instance: Instance, columns: Columns) -> Choices:
    """`columns`, which stand in order of edges, as compiled functions see them."""
    cost = instance.energy_weight * columns.energy
    largest = float((cost + instance.delay_weight * columns.delay).max(initial=0.0))
    return Choices(
        start=np.searchsorted(columns.edge, np.arange(len(instance.capacity) + 1)),
        members=columns.members,
        cost=cost,
        delay=columns.delay,
        delay_weight=instance.delay_weight,
        # More than any edge can save by going without.
        unserved_cost=10.0 * (largest + instance.price_scale),
    )


def likely(columns: Columns, priced: PricedColumns, most: int) -> IntArray:
    """The rows of each edge's `most` clusters that are the cheapest at the prices, these first.

    Of clusters that cost the same the first ones.
    """
    ends = np.flatnonzero(np.diff(columns.edge)) + 1
    rows = []
    for first, costs in zip((0, *ends), np.split(priced.reduced, ends), strict=True):
        if len(costs) > most:
            highest = np.partition(costs, most - 1)[most - 1]
            within = np.flatnonzero(costs <= highest)
        else:
            within = np.arange(len(costs))
        by_cost = np.argsort(costs[within], kind="stable")[:most]
        rows.append(first + within[by_cost])
    return np.concatenate(rows)
