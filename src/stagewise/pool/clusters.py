"""Clusters of one edge at given prices, as columns."""

from typing import Any

import numpy as np

from stagewise.exact.columns import Columns, columns_at
from stagewise.pool.generation import Bench, generate_clusters
from stagewise.pool.prices import Prices
from stagewise.search.instance import Instance
from stagewise.search.random_bits import bits_from
from stagewise.world.scenario import IntArray

_STARTS = 8
_STARTS_FOR_ONE = 3


def cheap_clusters(instance: Instance, edge: int, prices: Prices, bench: Bench) -> Columns:
    """About as many of the cheapest clusters of `edge` as `bench` is made for."""
    found = _generate(instance, edge, prices, _STARTS, bench)
    wanted = len(bench.ranked)
    rows: Any = np.arange(found)
    if found > wanted:
        rows = np.argpartition(bench.cost[:found], wanted)[:wanted]
    return columns_at(instance, edge, bench.link, bench.members[rows], bench.size[rows])


def cheapest_cluster(
    instance: Instance, edge: int, prices: Prices, bench: Bench
) -> IntArray | None:
    """The members of the cheapest cluster of `edge` that a short search finds, pinned ones apart."""
    found = _generate(instance, edge, prices, _STARTS_FOR_ONE, bench)
    if found == 0:
        return None
    row = int(np.argmin(bench.cost[:found]))
    links = bench.link[bench.members[row, : bench.size[row]]]
    return np.asarray(instance.link_client[links])


def _generate(instance: Instance, edge: int, prices: Prices, starts: int, bench: Bench) -> int:
    second = float(prices.delay[edge])
    return int(
        generate_clusters(instance, edge, prices.client, second, starts, bits_from(edge), bench)
    )
