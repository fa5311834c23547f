"""Neighbourhoods: groups of edges that share many clients among them and few with the others."""

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import dijkstra

from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

# Where a group is cut in two, as shares of it: never quite in the middle, so that no two cuts agree.
_CUT_BETWEEN = (0.35, 0.65)


def neighbourhoods(instance: Instance, largest: int, rng: np.random.Generator) -> IntArray:
    """The number of each edge's neighbourhood, of at most `largest` edges; shape (edges,).

    The edges are halved, and the halves again, each time across the line that joins the two edges
    furthest apart. Another `rng` draws other borders.
    """
    distance = _distances(instance)
    number_of = np.zeros(len(instance.capacity), dtype=np.int64)
    waiting = [np.arange(len(instance.capacity))]
    number = 0
    while waiting:
        group = waiting.pop()
        if len(group) <= largest:
            number_of[group] = number
            number += 1
            continue
        along = np.argsort(_position(distance[group][:, group], rng), kind="stable")
        cut = int(np.clip(rng.uniform(*_CUT_BETWEEN) * len(group), 1, len(group) - 1))
        waiting += [np.sort(group[along[cut:]]), np.sort(group[along[:cut]])]
    return number_of


def cheapest_links(instance: Instance, price: FloatArray) -> IntArray:
    """The link with the least price of every client that has one, in the order of clients."""
    linked = np.flatnonzero(np.diff(instance.link_start))
    if len(linked) == 0:
        return linked
    least = np.minimum.reduceat(price, instance.link_start[linked])
    links = np.flatnonzero(price == np.repeat(least, np.diff(instance.link_start)[linked]))
    first = np.diff(instance.link_client[links], prepend=-1) > 0
    return links[first]


def link_price(instance: Instance) -> FloatArray:
    """What serving over each link costs by itself."""
    return (
        instance.delay_weight * instance.link_delay + instance.energy_weight * instance.link_energy
    )


def _distances(instance: Instance) -> csr_matrix:
    """A graph of the edges in which those that share many clients are close to each other.

    A client joins the edge of its cheapest link to its others, and not each to each: the graph grows
    with the links even where an edge covers everybody.
    """
    edges = len(instance.capacity)
    home = np.zeros(len(instance.lock), dtype=np.int64)
    cheapest = cheapest_links(instance, link_price(instance))
    home[instance.link_client[cheapest]] = instance.link_edge[cheapest]
    one, other = home[instance.link_client], instance.link_edge
    apart = one != other
    shared = coo_matrix(
        (np.ones(int(apart.sum())), (one[apart], other[apart])), shape=(edges, edges)
    )
    graph = csr_matrix(shared + shared.T)
    graph.data = 1.0 / graph.data
    return graph


def _position(distance: csr_matrix, rng: np.random.Generator) -> FloatArray:
    """Where each edge stands between the two that are furthest apart; without a way there, last."""
    some = int(rng.integers(distance.shape[0]))
    one = _furthest(dijkstra(distance, indices=some))
    from_one = dijkstra(distance, indices=one)
    from_other = dijkstra(distance, indices=_furthest(from_one))
    reached = np.isfinite(from_one)
    position = np.full(len(from_one), np.inf)
    position[reached] = from_one[reached] - from_other[reached]
    return position


def _furthest(distance: FloatArray) -> int:
    return int(np.argmax(np.where(np.isfinite(distance), distance, -1.0)))
