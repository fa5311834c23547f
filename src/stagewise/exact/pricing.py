"""Pricing: the cheapest cluster of every edge at given prices, and the bound that follows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stagewise.exact.clusters import edge_candidates
from stagewise.exact.columns import Columns, Enumeration, enumerate_columns, join
from stagewise.exact.prices import Prices
from stagewise.exact.relaxation import relaxed_price
from stagewise.exact.search_threads import SearchThreads
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray

_ROUNDING = 1e-10
_MAX_CLUSTERS = 4_000_000  # clusters of all edges together that are enumerated for a proof
_NODES = 8_000_000_000
_SHORT = 400  # so many times fewer nodes of a search that is not the last resort
_SHORT_NODES = 20_000_000  # of all edges together, for a bound at small cost
_EDGE_NODES = (10_000, 200_000)
_MOST_OF_AN_EDGE = 8  # times its share of the clusters for branch and bound
_LEAST_REACH = 1e-3
_NEAR = 0.2  # of what an edge's cheapest cluster costs is near, where all are too many


class Scope(NamedTuple):
    """The part of the problem in which the round's delay lies between these two."""

    least_delay: float = 0.0
    delay_limit: float = np.inf


def even_prices(instance: Instance) -> Prices:
    """Those of a round of which nothing is known."""
    return Prices.even(len(instance.lock), instance.delay_weight, instance.in_round)


@dataclass(frozen=True)
class Search:
    """How far to search at each edge."""

    nodes: int
    clusters: int
    """Clusters of each edge to return besides the cheapest."""
    cluster_nodes: int


@dataclass(frozen=True, eq=False)
class Priced:
    """The outcome of one pricing."""

    prices: Prices
    least: FloatArray
    """A price that no cluster of the edge is below; infinite where the edge has none."""
    bound: float
    """No assignment within the scope costs less."""
    found: list[Columns]
    complete: bool
    """Whether `least` is met by a cluster at every edge."""


def price_edges(
    instance: Instance,
    scope: Scope,
    prices: Prices,
    known: FloatArray,
    search: Search,
    threads: SearchThreads,
) -> Priced:
    """The cheapest cluster of each edge, and others nearly as cheap.

    known[j] is the price of the cheapest cluster of edge j that is at hand, infinite without any.
    """
    answers = threads.map(
        lambda edge: _price_edge(
            instance, edge, scope, prices, float(known[edge]), search, threads
        ),
        range(len(instance.capacity)),
    )
    least = np.array([answer.least for answer in answers])
    spare_weight = max(0.0, instance.delay_weight - float(prices.delay.sum()))
    paid = prices.paid
    bound = float(least.sum()) - paid + spare_weight * scope.least_delay
    return Priced(
        prices=prices,
        least=least,
        bound=bound - _ROUNDING * (float(least.sum()) + paid) if np.isfinite(bound) else bound,
        found=[part for answer in answers for part in answer.found if len(part)],
        complete=all(answer.complete for answer in answers),
    )


@dataclass(frozen=True, eq=False)
class _PricedEdge:
    least: float
    found: list[Columns]
    complete: bool


def _price_edge(
    instance: Instance,
    edge: int,
    scope: Scope,
    prices: Prices,
    known: float,
    search: Search,
    threads: SearchThreads,
) -> _PricedEdge:
    candidates = edge_candidates(instance, edge, prices, scope.delay_limit)
    # Better means better by more than rounding.
    cap = known - _ROUNDING * (known + instance.price_scale) if np.isfinite(known) else np.inf
    best = enumerate_columns(
        instance,
        candidates,
        cap,
        max_clusters=1,
        nodes=search.nodes,
        best_only=True,
        stop=threads.stop,
    )
    least = cap
    if len(best.columns):
        least = float(_priced(instance, best.columns, prices)[0])
    if not best.complete:
        reached = max(best.left_out, relaxed_price(candidates, least))
        return _PricedEdge(min(least, reached), [best.columns], reached >= least)
    if not np.isfinite(least) or search.clusters == 0:
        return _PricedEdge(least, [best.columns], True)
    reach = least + max(0.5 * (min(known, 2 * least) - least), 0.02 * least)
    more = enumerate_columns(
        instance,
        candidates,
        reach,
        max_clusters=search.clusters,
        nodes=search.cluster_nodes,
        stop=threads.stop,
    )
    return _PricedEdge(least, [best.columns, more.columns], True)


def _priced(instance: Instance, columns: Columns, prices: Prices) -> FloatArray:
    return columns.reduced_costs(instance, np.zeros(len(instance.capacity)), prices)


def least_delay(instance: Instance, threads: SearchThreads) -> float:
    """A delay that no round is below: that of the edge whose fastest cluster is the slowest."""
    seconds = instance._replace(delay_weight=1.0, energy_weight=0.0)
    return float(_least(seconds, 1.0, threads).max()) * (1 - _ROUNDING)


def least_energy_cost(instance: Instance, threads: SearchThreads) -> float:
    """What the energy of a round costs at the least: every edge with the cluster that needs least."""
    return float(_least(instance, 0.0, threads).sum()) * (1 - _ROUNDING)


def _least(instance: Instance, delay_price: float, threads: SearchThreads) -> FloatArray:
    """What a cluster of each edge costs at the least, as far as a short search can tell."""
    edges = len(instance.capacity)
    prices = Prices(np.zeros(len(instance.lock)), np.full(edges, delay_price))
    nodes = int(np.clip(_SHORT_NODES // edges, *_EDGE_NODES))
    search = Search(nodes=nodes, clusters=0, cluster_nodes=0)
    return price_edges(instance, Scope(), prices, np.full(edges, np.inf), search, threads).least


def cheapest_known(instance: Instance, columns: Columns | None, prices: Prices) -> FloatArray:
    """The price of the cheapest cluster at hand for each edge; infinite without any."""
    known = np.full(len(instance.capacity), np.inf)
    if columns is not None:
        np.minimum.at(known, columns.edge, _priced(instance, columns, prices))
    return known


def near_columns(
    instance: Instance,
    scope: Scope,
    priced: Priced,
    slack: float,
    threads: SearchThreads,
    *,
    few: bool,
    last: bool = False,
) -> tuple[Columns, bool]:
    """The clusters within `slack` of the cheapest, and whether these are all of them.

    For a `few` edges all are wanted, and if it is the `last` resort at almost any cost; for many
    edges so many near ones as a short search finds.
    """
    edges = len(instance.capacity)
    max_clusters, nodes = _MAX_CLUSTERS // 20, _NODES // _SHORT
    if few and last:
        max_clusters, nodes = _MAX_CLUSTERS, _NODES

    def enumerate_edge(edge: int) -> tuple[Columns, bool]:
        candidates = edge_candidates(instance, edge, priced.prices, scope.delay_limit)
        least = float(priced.least[edge])
        reach = slack if few else min(slack, _NEAR * least)
        while True:
            found = enumerate_columns(
                instance,
                candidates,
                least + reach + _ROUNDING * (least + reach),
                max_clusters=max_clusters // edges,
                nodes=nodes // edges,
                stop=threads.stop,
            )
            if found.complete or few or threads.out_of_time or reach <= 0.01 * least:
                return found.columns, found.complete and reach == slack
            reach *= 0.5

    answers = threads.map(enumerate_edge, range(edges))
    return join([found for found, _ in answers]), all(complete for _, complete in answers)


def selectable_columns(
    instance: Instance,
    scope: Scope,
    priced: Priced,
    slack: float,
    most: int,
    threads: SearchThreads,
) -> tuple[Columns, float]:
    """All clusters within the largest slack of their edge's cheapest that about `most` are within.

    Returns them with that slack, `slack` at the most.
    """
    edges = len(instance.capacity)
    each = _MOST_OF_AN_EDGE * most // edges
    candidates = threads.map(
        lambda edge: edge_candidates(instance, edge, priced.prices, scope.delay_limit),
        range(edges),
    )

    def enumerated(reach: float) -> list[Enumeration]:
        return threads.map(
            lambda edge: enumerate_columns(
                instance,
                candidates[edge],
                float(priced.least[edge]) + reach,
                max_clusters=each,
                nodes=_NODES // (_SHORT * edges),
                stop=threads.stop,
            ),
            range(edges),
        )

    reach = min(slack, float(np.median(priced.least)))
    while True:
        found = enumerated(reach)
        columns = join([part.columns for part in found])
        if all(part.complete for part in found) and len(columns) <= most:
            return columns, reach * (1 - _ROUNDING)
        if threads.out_of_time or reach <= _LEAST_REACH * slack:
            return columns, 0.0
        reach *= 0.8
