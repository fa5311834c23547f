"""Clusters of one edge at given prices, as columns."""

from collections.abc import Sequence

import numpy as np

from stagewise.exact.columns import Columns, columns_at
from stagewise.exact.prices import Prices
from stagewise.pool.generation import (
    ClusterWorkspace,
    generate_clusters,
    new_cluster_workspace,
)
from stagewise.search.instance import Instance
from stagewise.search.random_bits import bits_from
from stagewise.world.scenario import IntArray

_STARTS = 8
_STARTS_FOR_ONE = 3


def cheap_clusters(
    instance: Instance, edge: int, prices: Prices, work: ClusterWorkspace
) -> Columns:
    """About as many of the cheapest clusters of `edge` as `work` is made for."""
    delay_price, bits = float(prices.delay[edge]), bits_from(edge)
    found = generate_clusters(instance, edge, prices.client, delay_price, _STARTS, bits, work)
    max_clusters = len(work.ranked)
    rows = np.arange(found)
    if found > max_clusters:
        rows = np.argpartition(work.cost[:found], max_clusters)[:max_clusters]
    return columns_at(instance, edge, work.link, work.members[rows], work.size[rows])


def clusters_of_edges(
    instance: Instance, edges: Sequence[int], prices: Prices, max_clusters: int
) -> list[Columns]:
    """What is handed to a worker: the cheapest clusters of each of `edges`."""
    work = new_cluster_workspace(instance, max_clusters)
    return [cheap_clusters(instance, edge, prices, work) for edge in edges]


def cheapest_cluster(
    instance: Instance, edge: int, prices: Prices, work: ClusterWorkspace
) -> IntArray | None:
    """The members of the cheapest cluster of `edge` that a short search finds, pinned ones apart."""
    delay_price, bits = float(prices.delay[edge]), bits_from(edge)
    found = generate_clusters(
        instance, edge, prices.client, delay_price, _STARTS_FOR_ONE, bits, work
    )
    if found == 0:
        return None
    row = int(np.argmin(work.cost[:found]))
    links = work.link[work.members[row, : work.size[row]]]
    return np.asarray(instance.link_client[links])
