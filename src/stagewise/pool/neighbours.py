"""Which edges want the same clients."""

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE
from stagewise.exact.columns import shared_clients
from stagewise.pool.sizes import CLUSTERS_AT_ONCE

NEIGHBOURS = 14
"""Of each edge at the most, those first that share most clients with it."""


def neighbours(
    edges: int, edge: npt.NDArray[np.int64], members: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """For every edge those that want most of its clients, shape (edges, NEIGHBOURS); -1 beyond.

    `edge` and `members` are clusters: whose they are, and who is in them, -1 beyond the last.
    """
    served = _served_by(edge, members)
    shared = shared_clients(served[:, 0], served[:, 1], edges)
    found = np.full((edges, NEIGHBOURS), NONE, dtype=np.int64)
    for j in range(edges):
        others = shared.indices[shared.indptr[j] : shared.indptr[j + 1]]
        counts = shared.data[shared.indptr[j] : shared.indptr[j + 1]]
        counts, others = counts[others != j], others[others != j]
        nearest = others[np.lexsort((others, -counts))][:NEIGHBOURS]
        found[j, : len(nearest)] = nearest
    return found


def _served_by(
    edge: npt.NDArray[np.int64], members: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """The pairs of an edge and a client in one of its clusters, shape (pairs, 2), each at least once.

    Some clusters at a time: in most of them an edge's clients are the same.
    """
    clients = int(members.max(initial=0)) + 1
    pairs = [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(members), CLUSTERS_AT_ONCE):
        rows = slice(first, first + CLUSTERS_AT_ONCE)
        row, place = np.nonzero(members[rows] >= 0)
        pairs.append(np.unique(edge[rows][row] * clients + members[rows][row, place]))
    return np.stack(np.divmod(np.concatenate(pairs), clients), axis=1)
