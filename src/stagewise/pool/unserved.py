"""Edges that no cluster at hand serves: new clusters, from free clients if possible."""

import numpy as np

from stagewise.exact.prices import Prices
from stagewise.pool.clusters import cheapest_cluster
from stagewise.pool.found_clusters import new_cluster_workspace
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray

_CLUSTERS = 8
_TRIES = 12  # clusters made for each edge that was left out, before giving up
_TRANSFER_PRICE = 4.0  # of taking a client from its edge, in units of what a client costs
_TRANSFER_GROWTH = 1.5  # how many times that when it was taken before


def serve_unserved(
    instance: Instance, edge_of: IntArray, unserved: list[int], delay_price: FloatArray
) -> None:
    """Give every edge of `unserved` a cluster, in `edge_of`, as far as possible.

    A cluster may take clients from other edges, at a price that rises each time; an edge that has
    lost one is served again in its turn.
    """
    work = new_cluster_workspace(instance, _CLUSTERS)
    movable = np.flatnonzero((edge_of != UNASSIGNED) & (instance.lock != AT_ITS_EDGE))
    transfer_price = np.full(len(edge_of), _TRANSFER_PRICE * instance.price_scale)
    prices = Prices(np.zeros(len(edge_of)), delay_price)
    prices.client[movable] = transfer_price[movable]
    members_of: dict[int, IntArray] = {}
    queue = list(unserved)
    for _ in range(_TRIES * len(unserved)):
        if not queue:
            return
        edge = queue.pop(0)
        members = cheapest_cluster(instance, edge, prices, work)
        if members is None:
            continue
        losing = np.unique(edge_of[members])
        for other in losing[losing != UNASSIGNED].tolist():
            if other not in members_of:
                members_of[other] = movable[edge_of[movable] == other]
            edge_of[members_of[other]] = UNASSIGNED
            prices.client[members_of[other]] = 0.0
            queue.append(other)
        transfer_price[members] *= _TRANSFER_GROWTH
        edge_of[members] = edge
        prices.client[members] = transfer_price[members]
        members_of[edge] = members
