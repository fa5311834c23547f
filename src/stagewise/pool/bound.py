"""A lower bound on what a round costs, from prices that prove it, at any size.

Whatever clients, seconds and cuts are worth, the cheapest cluster of every edge at these prices, less
what the prices take in at the most, is a bound (Lagrangian relaxation). A library has nearly all
clusters that matter, so that good prices come from it alone; one search over all clusters of each edge
then makes the bound valid, and finds those that the library lacks. With a moderate number of edges the
prices are those of column generation with cuts.
"""

import numpy as np

from stagewise.exact.columns import Columns, join, select
from stagewise.exact.generation import generate
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import Priced, Scope, Search, cheapest_known, even_prices, price_edges
from stagewise.exact.search_threads import SearchThreads
from stagewise.pool.library import Library
from stagewise.pool.priced_columns import in_order, likely, price
from stagewise.pool.round_clusters import costs_are_far, online_columns, with_round_clusters
from stagewise.problem.statement import p0
from stagewise.search.instance import Instance, build_instance
from stagewise.world.rounds import Round

_LARGEST_MASTER = 60  # edges; more have prices by subgradient steps
_FIRST_STEPS, _STEPS = 150, 60
_PASSES = 6
_LIKELY = 200  # clusters of each edge that prices are sought on first
_RISE = 1e-4  # of the bound: another pass that brings less is the last
_SEARCH = Search(nodes=200_000, clusters=20, cluster_nodes=20_000)  # at each edge


def bound_round(
    round_: Round, library: Library, seconds: float | None = None, threads: int | None = None
) -> Priced:
    """Prices with a good bound on what an assignment within the limits costs in `round_`.

    The bound is infinite where an edge has no cluster at all. After `seconds` the best so far is
    returned; searches that were cut short make it lower, never invalid.
    """
    instance = build_instance(p0(round_))
    columns, _counts = online_columns(library, round_)
    prices = library.prices
    if costs_are_far(round_, library.costs):
        columns, prices = with_round_clusters(instance, columns, even_prices(instance))
        columns = in_order(columns)
    with SearchThreads(seconds, threads) as search_threads:
        priced = price(instance, columns, prices, _FIRST_STEPS, np.inf, everyone=False)
        columns = select(columns, likely(columns, priced, _LIKELY))
        if len(instance.capacity) <= _LARGEST_MASTER:
            return _by_master(instance, columns, priced.prices, search_threads)
        return _by_steps(instance, columns, priced.prices, search_threads)


def _by_master(
    instance: Instance, columns: Columns, prices: Prices, threads: SearchThreads
) -> Priced:
    first = _priced(instance, columns, prices, threads)
    if not np.isfinite(first.bound):
        return first
    generation = generate(
        instance,
        Scope(),
        join([columns, *first.found]),
        threads,
        prices=prices,
        cut=True,
        progress=lambda bound: False,
    )
    return first if generation is None or generation.bound < first.bound else generation.best


def _by_steps(
    instance: Instance, columns: Columns, prices: Prices, threads: SearchThreads
) -> Priced:
    """Prices by subgradient steps on the clusters at hand, clusters by searches at these prices."""
    best = _priced(instance, columns, prices, threads)
    found = best.found
    for _ in range(_PASSES):
        if not np.isfinite(best.bound) or threads.out_of_time:
            break
        columns = in_order(join([columns, *found]))
        prices = price(instance, columns, best.prices, _STEPS, np.inf, everyone=False).prices
        again = _priced(instance, columns, prices, threads)
        risen = again.bound > best.bound * (1 + _RISE)
        found = again.found
        best = again if again.bound > best.bound else best
        if not risen:
            break
    return best


def _priced(instance: Instance, columns: Columns, prices: Prices, threads: SearchThreads) -> Priced:
    known = cheapest_known(instance, columns, prices)
    return price_edges(instance, Scope(), prices, known, _SEARCH, threads)
