"""Column generation: the linear master over all clusters, without having them all.

The master's prices jump about while clusters are few. Pricing at a mix of them and of the prices with
the best bound so far keeps the bound rising from the first step on. Once the master is solved, cuts
raise its value further, as long as they do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stagewise.exact.columns import Columns, join, select
from stagewise.exact.cuts import Cuts
from stagewise.exact.master import Master, MasterSolution
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import Priced, Scope, Search, cheapest_known, even_prices, price_edges
from stagewise.exact.search_threads import SearchThreads
from stagewise.search.instance import Instance

_SMOOTHING = 0.5  # the share of the best prices in those that are tried
_NEAR = 0.02  # a master this close to its bound, relative, gives good prices by itself
_TAIL = 1e-4  # a master this close to its bound, relative, is solved
_ROUNDING = 1e-9
_MAX_COLUMNS = 16_000  # beyond this many, or so many for an edge, the master keeps the best alone
_MAX_COLUMNS_OF_AN_EDGE = 50
_CUTS, _CUTS_OF_AN_EDGE = 20, 2  # new ones at a time, at the most
_RISE, _PATIENCE = 2e-4, 3  # what the bound must rise by, relative, and how often it may fail to


@dataclass
class Generation:
    """The state of one column generation."""

    found: Columns
    """The clusters to begin with."""
    best: Priced
    """The prices with the best bound so far."""
    master: Master | None = None
    solution: MasterSolution | None = None
    """The master's last."""
    converged: bool = False
    """Whether the master has nothing more to gain, as far as pricing can tell."""
    stopped: bool = False
    """Whether it was stopped before."""

    @property
    def bound(self) -> float:
        return self.best.bound

    @property
    def columns(self) -> Columns:
        """The clusters at hand; those of `solution` come first."""
        return self.found if self.master is None else self.master.columns


def generate(
    instance: Instance,
    scope: Scope,
    columns: Columns | None,
    threads: SearchThreads,
    *,
    prices: Prices | None = None,
    cut: bool = False,
    progress: Callable[[float], bool],
) -> Generation | None:
    """Solve the master within `scope`, beginning with `columns`; None where it is infeasible.

    `cut` says whether cuts are added; `progress` is told each bound, and says whether to stop.
    """
    largest_cost = _largest_cost(instance)
    edges = len(instance.capacity)
    search = _search(edges)
    even = even_prices(instance)
    start = even if prices is None else _in_use(prices)
    known = cheapest_known(instance, columns, start)
    first = price_edges(instance, scope, start, known, search, threads)
    if not np.isfinite(first.bound):
        return None
    given = [] if columns is None else [columns]
    generation = Generation(join([*given, *first.found]), first)
    if (np.bincount(generation.found.edge, minlength=edges) == 0).any():
        return generation  # an edge without a cluster at hand: there is no master yet
    unserved_cost = 3.0 * float(
        cheapest_known(instance, generation.found, even).max() + first.least.max()
    )
    unserved_cost = unserved_cost or 1.0  # where nothing costs anything
    generation.stopped = progress(generation.bound)
    cutting = _Cutting(edges)
    master = Master(instance, generation.found, unserved_cost, scope.least_delay, start.cuts.items)
    generation.master = master
    while not generation.stopped and not threads.out_of_time:
        if generation.solution is not None and len(master.columns) > _most_columns(edges):
            master = _trimmed(instance, master, generation.solution, unserved_cost, scope)
            generation.master, generation.solution = master, None
        solution = master.solve(threads.seconds_left)
        if solution is None:
            break
        generation.solution = solution
        grown = _extend(instance, scope, generation, solution, search, threads)
        generation.stopped = progress(generation.bound)
        if generation.bound > largest_cost:
            return None  # clusters there are, but no disjoint ones
        if solution.value - generation.bound <= _TAIL * abs(solution.value) or not grown:
            if solution.unserved > _ROUNDING and generation.best.complete:
                unserved_cost *= 4.0
                master.set_unserved_cost(unserved_cost)
                continue
            generation.converged = solution.unserved <= _ROUNDING
            if generation.stopped or not generation.converged or not cut:
                break
            if not cutting.goes_on(generation.bound) or not cutting.cut(master, solution):
                break
    return generation


def _in_use(prices: Prices) -> Prices:
    """The same prices without the cuts that nobody pays."""
    paid = np.flatnonzero(prices.cuts.price > 0)
    return replace(prices, cuts=Cuts(prices.cuts.items[paid], prices.cuts.price[paid]))


class _Cutting:
    """Cuts are added until the bound has hardly risen for some times."""

    def __init__(self, edges: int) -> None:
        self.limit = max(_CUTS, _CUTS_OF_AN_EDGE * edges)
        self.last = -np.inf
        self.idle = 0

    def goes_on(self, bound: float) -> bool:
        self.idle = self.idle + 1 if bound < self.last + _RISE * abs(bound) else 0
        self.last = max(self.last, bound)
        return self.idle < _PATIENCE

    def cut(self, master: Master, solution: MasterSolution) -> bool:
        return master.add_violated_cuts(solution, self.limit) > 0


def _search(edges: int) -> Search:
    """Many clusters at once for a few edges; for many edges a few, the best of a short search."""
    return Search(
        nodes=max(2_000_000, 400_000_000 // edges),
        clusters=int(np.clip(8_000 // edges, 20, 2_000)),
        cluster_nodes=int(np.clip(40_000_000 // edges, 20_000, 2_000_000)),
    )


def _most_columns(edges: int) -> int:
    return max(_MAX_COLUMNS, _MAX_COLUMNS_OF_AN_EDGE * edges)


def _trimmed(
    instance: Instance,
    master: Master,
    solution: MasterSolution,
    unserved_cost: float,
    scope: Scope,
) -> Master:
    """The master without what `solution` has least use for: with too many columns it becomes slow."""
    columns = master.columns
    edges = len(instance.capacity)
    reduced = columns.reduced_costs(instance, solution.edge_dual, solution.prices)
    order = np.lexsort((reduced, columns.edge))
    first = np.searchsorted(columns.edge[order], np.arange(edges))
    rank = np.arange(len(order)) - first[columns.edge[order]]
    kept = np.sort(order[rank < _most_columns(edges) // (2 * edges)])
    return Master(instance, select(columns, kept), unserved_cost, scope.least_delay, master.cuts)


def _extend(
    instance: Instance,
    scope: Scope,
    generation: Generation,
    solution: MasterSolution,
    search: Search,
    threads: SearchThreads,
) -> bool:
    """Add clusters that improve the master; false where there are none, or the time is over."""
    master = generation.master
    assert master is not None
    near = solution.value - generation.bound <= _NEAR * abs(solution.value)
    for share in (0.0,) if near else (_SMOOTHING, 0.0):
        prices = solution.prices.mixed(generation.best.prices, share)
        known = cheapest_known(instance, master.columns, prices)
        priced = price_edges(instance, scope, prices, known, search, threads)
        if priced.bound > generation.bound:
            generation.best = priced
        new = _improving(instance, priced, solution, search.clusters // 2)
        if new:
            master.add_columns(new)
            return True
        if threads.out_of_time:
            break
    return False


def _improving(
    instance: Instance, priced: Priced, solution: MasterSolution, limit: int
) -> list[Columns]:
    """The clusters found that improve the master, at most `limit` best for each edge."""
    parts = []
    for part in priced.found:
        reduced = part.reduced_costs(instance, solution.edge_dual, solution.prices)
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
