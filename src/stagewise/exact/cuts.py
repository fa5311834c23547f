"""Cuts: what disjoint clusters keep and a fractional solution of the master may break.

Of three clients, at most one of the chosen clusters has two or more. An edge may take the place of
a client, since only one of its clusters is chosen. (Subset-row inequalities: Jepsen, Petersen,
Spoorendonk and Pisinger, Operations Research 56(2), 2008.) A cluster that has two of the three pays
the cut's price.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from stagewise.compiled import NONE, compiled
from stagewise.world.scenario import FloatArray, IntArray

_LARGEST = 4_000  # items of a fractional solution; beyond, pairs of them take too much room
_VIOLATION = 0.002
_OF_AN_ITEM = 4  # new cuts at the most: more of the same say little


class Cuts(NamedTuple):
    """Triples of items: client i is item i, edge j is item `clients` + j."""

    items: IntArray
    """Shape (cuts, 3), ascending in each row."""
    price: FloatArray

    def extended(self, count: int) -> FloatArray:
        """The prices of `count` cuts of which these are the first; 0 for the others."""
        return np.pad(self.price, (0, count - len(self.price)))


NO_CUTS = Cuts(np.zeros((0, 3), dtype=np.int64), np.zeros(0))


def incidence(
    edge: npt.NDArray[np.int32], members: npt.NDArray[np.int32], clients: int, edges: int
) -> csr_matrix:
    """Which items each cluster has, shape (clusters, clients + edges)."""
    row, place = np.nonzero(members != NONE)
    rows = np.concatenate([row, np.arange(len(edge))])
    items = np.concatenate([members[row, place], clients + edge])
    shape = (len(edge), clients + edges)
    return csr_matrix((np.ones(len(rows)), (rows, items)), shape=shape)


def crossings(held: csr_matrix, items: IntArray) -> csr_matrix:
    """Which clusters, by their `incidence`, have two items or more of a cut; shape (clusters, cuts)."""
    cut = np.repeat(np.arange(len(items)), items.shape[1])
    shape = (held.shape[1], len(items))
    counts = held @ csr_matrix((np.ones(items.size), (items.ravel(), cut)), shape=shape)
    counts.data = (counts.data >= 2).astype(np.float64)
    counts.eliminate_zeros()
    return csr_matrix(counts)


def violated(held: csr_matrix, use: FloatArray, limit: int) -> IntArray:
    """The cuts that a solution breaks most, at most `limit`: of clusters with `held`, in parts `use`."""
    active, columns = np.unique(held.indices, return_inverse=True)
    if len(active) == 0 or len(active) > _LARGEST:
        return NO_CUTS.items
    dense = csr_matrix((held.data, columns, held.indptr), shape=(held.shape[0], len(active)))
    pairs = (dense.T @ dense.multiply(use[:, None])).tocsr()
    pairs.setdiag(0.0)
    pairs.eliminate_zeros()
    by_item = dense.T.tocsr()
    room = np.zeros((200_000, 3), dtype=np.int64)
    excess = np.zeros(len(room))
    found = _find(
        pairs.toarray(),
        pairs.indptr,
        pairs.indices,
        by_item.indptr,
        by_item.indices,
        dense.toarray() > 0,
        use,
        room,
        excess,
    )
    order = np.argsort(-excess[:found], kind="stable")
    times = np.zeros(len(active), dtype=np.int64)
    chosen = []
    for row in room[order]:
        if (times[row] < _OF_AN_ITEM).all():
            times[row] += 1
            chosen.append(active[row])
            if len(chosen) == limit:
                break
    return np.array(chosen, dtype=np.int64).reshape(-1, 3)


@compiled
def _find(pairs, start, other, column_start, column, held, use, room, excess):
    """Write the triples that the solution breaks by `_VIOLATION` or more; returns their number.

    Two of a triple's three pairs must be held together by somebody. `pairs` is how much clusters
    that have both items are used, `other` has each item's partners.
    """
    found = 0
    for b in range(start.shape[0] - 1):
        for p in range(start[b], start[b + 1]):
            a = other[p]
            for q in range(p + 1, start[b + 1]):
                c = other[q]
                if pairs[a, c] > 0 and not (b < a and b < c):
                    continue  # found from its first item
                total = pairs[a, b] + pairs[b, c] + pairs[a, c]
                if total <= 1.0 + _VIOLATION:
                    continue
                for n in range(column_start[b], column_start[b + 1]):
                    row = column[n]
                    if held[row, a] and held[row, c]:
                        total -= 2.0 * use[row]
                if total <= 1.0 + _VIOLATION or found == room.shape[0]:
                    continue
                room[found, 0] = min(a, b, c)
                room[found, 2] = max(a, b, c)
                room[found, 1] = a + b + c - room[found, 0] - room[found, 2]
                excess[found] = total - 1.0
                found += 1
    return found
