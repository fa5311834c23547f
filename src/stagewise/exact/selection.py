"""The best selection among given clusters, by HiGHS's branch and bound.

Branching on single clusters leads nowhere: to exclude one says next to nothing. So a variable says
whether a client serves at an edge; once these are whole, so is the choice, since an edge's clusters
that are used in part would all have the same members.
"""

from dataclasses import dataclass

import highspy
import numpy as np
from scipy.sparse import csr_matrix, hstack, identity

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns
from stagewise.exact.cuts import NO_CUTS
from stagewise.exact.master import Master
from stagewise.exact.search_threads import SearchThreads
from stagewise.search.instance import Instance
from stagewise.world.scenario import IntArray

_SAFETY = 1e-6  # relative; HiGHS's tolerances must not make the bound too high


@dataclass(frozen=True, eq=False)
class Selection:
    """The best disjoint choice found, and what is proven of all of them."""

    rows: IntArray | None
    """The rows of its columns; None where there is none better than the one at hand."""
    bound: float
    """No disjoint choice of the columns costs less, as far as it got; infinite where there is none."""


def select_disjoint(
    instance: Instance,
    columns: Columns,
    least_delay: float,
    at_hand: IntArray,
    threads: SearchThreads,
    *,
    seconds: float,
    gap: float,
    cuts: IntArray = NO_CUTS.items,
) -> Selection:
    """The cheapest disjoint choice, one of `columns`, all distinct, for each edge that has any.

    `at_hand` are the rows of a choice to begin with, or none. The search ends within the relative
    `gap` or after `seconds`.
    """
    master = Master(instance, columns, 0.0, least_delay, cuts)
    highs = master.highs
    edges = len(np.unique(columns.edge))
    unserved = np.arange(1, 1 + edges, dtype=np.int32)
    highs.changeColsBounds(edges, unserved, np.zeros(edges), np.zeros(edges))
    serving = _serving(instance, columns)
    pairs, first = serving.shape[0], 1 + edges + len(columns)
    nothing = np.zeros(0, dtype=np.int32)
    starts = np.zeros(pairs, dtype=np.int32)
    zeros, ones = np.zeros(pairs), np.ones(pairs)
    highs.addCols(pairs, zeros, zeros, ones, 0, starts, nothing, np.zeros(0))
    rows = csr_matrix(hstack([csr_matrix((pairs, 1 + edges)), serving, -identity(pairs)]))
    highs.addRows(
        pairs,
        zeros,
        zeros,
        rows.nnz,
        rows.indptr[:-1].astype(np.int32),
        rows.indices.astype(np.int32),
        rows.data,
    )
    whole = np.arange(first, first + pairs, dtype=np.int32)
    highs.changeColsIntegrality(pairs, whole, np.ones(pairs, dtype=np.uint8))
    if len(at_hand):
        start = highspy.HighsSolution()
        use = np.zeros(len(columns))
        use[at_hand] = 1.0
        delay = max(least_delay, float(columns.delay[at_hand].max()))
        start.col_value = np.concatenate([[delay], np.zeros(edges), use, serving @ use]).tolist()
        highs.setSolution(start)
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("mip_abs_gap", 0.0)
    highs.setOptionValue("time_limit", seconds)
    highs.cbMipInterrupt += lambda event: event.interrupt(bool(threads.stop[0]))
    # In a thread of its own, so that Ctrl-C is heard.
    threads.map(lambda _: highs.run(), [0])
    if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Selection(None, np.inf)
    info = highs.getInfo()
    proven = master.scale * float(info.mip_dual_bound) * (1 - _SAFETY)
    bound = proven if np.isfinite(proven) else 0.0
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Selection(None, bound)
    use = np.array(highs.getSolution().col_value)[1 + edges : first]
    return Selection(np.flatnonzero(use > 0.5), bound)


def _serving(instance: Instance, columns: Columns) -> csr_matrix:
    """A row for each pair of a client and an edge: the clusters of the edge that have the client."""
    row, place = np.nonzero(columns.members != NONE)
    pair = columns.members[row, place].astype(np.int64) * len(instance.capacity)
    found, number = np.unique(pair + columns.edge[row], return_inverse=True)
    return csr_matrix((np.ones(len(row)), (number, row)), shape=(len(found), len(columns)))
