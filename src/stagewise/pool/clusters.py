"""Clusters of some edges at given prices, as columns."""

from collections.abc import Sequence

import numpy as np

from stagewise.exact.columns import Columns
from stagewise.exact.prices import Prices
from stagewise.pool.found_clusters import ClusterWorkspace, ColumnArrays, new_cluster_workspace
from stagewise.pool.generation import generate_clusters, generate_of_edges
from stagewise.search.instance import Instance
from stagewise.world.scenario import IntArray

STARTS = 8
"""Greedy ones, from which exchanges lead on, where many clusters are wanted."""
_STARTS_FOR_ONE = 3


def clusters_of_edges(
    instance: Instance,
    edges: Sequence[int],
    prices: Prices,
    max_clusters: int,
    starts: int = STARTS,
) -> Columns:
    """The cheapest clusters of each of `edges`, about so many, edge by edge, from so many `starts`.

    All of it runs without Python's lock: it is what is handed to a worker.
    """
    work = new_cluster_workspace(instance, max_clusters)
    rows, width = len(edges) * max_clusters, work.members.shape[1]
    columns = ColumnArrays(
        edge=np.empty(rows, dtype=np.int32),
        members=np.empty((rows, width), dtype=np.int32),
        energy=np.empty(rows),
        delay=np.empty(rows),
    )
    wanted = np.array(edges, dtype=np.int64)
    count = generate_of_edges(instance, wanted, prices.client, prices.delay, starts, work, columns)
    return Columns(
        edge=columns.edge[:count],
        members=columns.members[:count],
        energy=columns.energy[:count],
        delay=columns.delay[:count],
    )


def cheapest_cluster(
    instance: Instance, edge: int, prices: Prices, work: ClusterWorkspace
) -> IntArray | None:
    """The members of the cheapest cluster of `edge` that a short search finds, pinned ones apart."""
    delay_price = float(prices.delay[edge])
    found = generate_clusters(instance, edge, prices.client, delay_price, _STARTS_FOR_ONE, work)
    if found == 0:
        return None
    row = int(np.argmin(work.cost[:found]))
    return np.asarray(work.client[work.members[row, : work.size[row]]])
