"""Edges that no cluster at hand serves: new clusters, from free clients if possible."""

import numpy as np

from stagewise.pool.clusters import cheapest_cluster
from stagewise.pool.generation import new_bench
from stagewise.pool.prices import Prices
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray

_CLUSTERS = 8
_TRIES = 12  # clusters made for each edge that was left out, before giving up
_DEAR = 4.0  # what taking a client from its edge costs, in units of what a client costs
_DEARER = 1.5  # and how much more each time


def serve_the_rest(
    instance: Instance, edge_of: IntArray, unserved: list[int], delay_price: FloatArray
) -> None:
    """Give every edge of `unserved` a cluster, in `edge_of`, as far as possible.

    A cluster may take clients from other edges, at a price that rises each time; an edge that has
    lost one is served anew in its turn.
    """
    bench = new_bench(instance, _CLUSTERS)
    movable = np.flatnonzero((edge_of != UNASSIGNED) & (instance.lock != AT_ITS_EDGE))
    worth = np.full(len(edge_of), _DEAR * instance.price_scale)
    prices = Prices(np.zeros(len(edge_of)), delay_price)
    prices.client[movable] = worth[movable]
    members_of: dict[int, IntArray] = {}
    queue = list(unserved)
    for _ in range(_TRIES * len(unserved)):
        if not queue:
            return
        edge = queue.pop(0)
        members = cheapest_cluster(instance, edge, prices, bench)
        if members is None:
            continue
        robbed = np.unique(edge_of[members])
        for other in robbed[robbed != UNASSIGNED].tolist():
            if other not in members_of:
                members_of[other] = movable[edge_of[movable] == other]
            edge_of[members_of[other]] = UNASSIGNED
            prices.client[members_of[other]] = 0.0
            queue.append(other)
        worth[members] *= _DEARER
        edge_of[members] = edge
        prices.client[members] = worth[members]
        members_of[edge] = members
