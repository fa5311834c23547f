"""Column generation: the linear master over all clusters, without having them all.

The master's prices jump about while clusters are few. Pricing at a mix of them and of the prices with
the best bound so far keeps the bound rising from the first step on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stagewise.exact.columns import Columns, Prices, join, select
from stagewise.exact.master import MasterSolution, solve_master
from stagewise.exact.pricing import Priced, Scope, Search, cheapest_known, even_prices, price_edges
from stagewise.exact.search_threads import SearchThreads
from stagewise.search.instance import Instance

_SMOOTHING = 0.5  # the share of the best prices in those that are tried
_NEAR = 0.02  # a master this close to its bound, relative, gives good prices by itself
_TAIL = 1e-4  # a master this close to its bound, relative, is solved
_ROUNDING = 1e-9
_MAX_COLUMNS = 16_000  # beyond this many, or so many for an edge, the master keeps the best alone
_MAX_COLUMNS_OF_AN_EDGE = 50


@dataclass
class Generation:
    """The state of one column generation; `columns` hold every cluster seen within the scope."""

    columns: Columns
    best: Priced
    """The prices with the best bound so far."""
    master: MasterSolution | None = None
    converged: bool = False
    """Whether the master has nothing more to gain, as far as pricing can tell."""
    stopped: bool = False
    """Whether it was stopped before."""

    @property
    def bound(self) -> float:
        return self.best.bound


def generate(
    instance: Instance,
    scope: Scope,
    columns: Columns | None,
    threads: SearchThreads,
    *,
    prices: Prices | None = None,
    progress: Callable[[float], bool],
) -> Generation | None:
    """Solve the master within `scope`, beginning with `columns`; None where it is infeasible.

    `progress` is told each bound, and says whether to stop.
    """
    largest_cost = _largest_cost(instance)
    search = _search(len(instance.capacity))
    even = even_prices(instance)
    start = even if prices is None else prices
    known = cheapest_known(instance, columns, start)
    first = price_edges(instance, scope, start, known, search, threads)
    if not np.isfinite(first.bound):
        return None
    given = [] if columns is None else [columns]
    generation = Generation(join([*given, *first.found]), first)
    if (np.bincount(generation.columns.edge, minlength=len(instance.capacity)) == 0).any():
        return generation  # an edge without a cluster at hand: there is no master yet
    unserved_cost = 3.0 * float(
        cheapest_known(instance, generation.columns, even).max() + first.least.max()
    )
    unserved_cost = unserved_cost or 1.0  # where nothing costs anything
    generation.stopped = progress(generation.bound)
    while not generation.stopped and not threads.out_of_time:
        _trim(instance, generation)
        master = solve_master(
            instance, generation.columns, unserved_cost, scope.least_delay, threads.seconds_left
        )
        if master is None:
            break
        generation.master = master
        grown = _extend(instance, scope, generation, master, search, threads)
        generation.stopped = progress(generation.bound)
        if generation.bound > largest_cost:
            return None  # clusters there are, but no disjoint ones
        if master.value - generation.bound <= _TAIL * abs(master.value) or not grown:
            if master.unserved <= _ROUNDING or not generation.best.complete:
                generation.converged = master.unserved <= _ROUNDING
                break
            unserved_cost *= 4.0
    return generation


def _search(edges: int) -> Search:
    """Many clusters at once for a few edges; for many edges a few, the best of a short search."""
    return Search(
        nodes=max(2_000_000, 400_000_000 // edges),
        clusters=int(np.clip(8_000 // edges, 20, 2_000)),
        cluster_nodes=int(np.clip(40_000_000 // edges, 20_000, 2_000_000)),
    )


def _trim(instance: Instance, generation: Generation) -> None:
    """Drop what the last master had least use for, where there are so many that it becomes slow."""
    columns, master = generation.columns, generation.master
    edges = len(instance.capacity)
    limit = max(_MAX_COLUMNS // edges, _MAX_COLUMNS_OF_AN_EDGE)
    if master is None or len(columns) <= limit * edges:
        return
    reduced = columns.reduced_costs(instance, master.edge_dual, master.prices)
    order = np.lexsort((reduced, columns.edge))
    first = np.searchsorted(columns.edge[order], np.arange(edges))
    rank = np.arange(len(order)) - first[columns.edge[order]]
    generation.columns = select(columns, np.sort(order[rank < limit]))


def _extend(
    instance: Instance,
    scope: Scope,
    generation: Generation,
    master: MasterSolution,
    search: Search,
    threads: SearchThreads,
) -> bool:
    """Add clusters that improve the master; false where there are none, or the time is over."""
    near = master.value - generation.bound <= _NEAR * abs(master.value)
    for share in (0.0,) if near else (_SMOOTHING, 0.0):
        prices = master.prices.mixed(generation.best.prices, share)
        known = cheapest_known(instance, generation.columns, prices)
        priced = price_edges(instance, scope, prices, known, search, threads)
        if priced.bound > generation.bound:
            generation.best = priced
        new = _improving(instance, priced, master, search.clusters // 2)
        if new:
            generation.columns = join([generation.columns, *new])
            return True
        if threads.out_of_time:
            break
    return False


def _improving(
    instance: Instance, priced: Priced, master: MasterSolution, limit: int
) -> list[Columns]:
    """The clusters found that improve the master, at most `limit` best for each edge."""
    parts = []
    for part in priced.found:
        reduced = part.reduced_costs(instance, master.edge_dual, master.prices)
        rows = np.flatnonzero(reduced < -_ROUNDING)
        if len(rows) > limit:
            rows = rows[np.argpartition(reduced[rows], limit)[:limit]]
        if len(rows):
            parts.append(select(part, rows))
    return parts


def _largest_cost(instance: Instance) -> float:
    """More than any assignment costs: every client over its most expensive link, the slowest of all."""
    largest = np.zeros(len(instance.lock))
    np.maximum.at(largest, instance.link_client, instance.link_energy)
    energy = float(largest.sum() + instance.uplink_energy.sum())
    delay = float(instance.link_delay.max(initial=0.0) + instance.uplink_delay.max())
    cost = instance.delay_weight * delay + instance.energy_weight * energy
    return cost * (1 + _ROUNDING)
