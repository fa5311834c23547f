"""The linear master: one cluster for each edge, each client once, at the least cost.

minimise    weight_t T + weight_e sum_C energy_C x_C
subject to  sum over the clusters of edge j of x_C  = 1      (dual: what an edge pays)
            sum over the clusters with client i of x_C <= 1  (dual: a client's price)
            sum over the clusters of edge j of delay_C x_C <= T  (dual: a second's price)
            sum over the clusters that have two items of a cut of x_C <= 1  (dual: the cut's price)
            T is not below the least delay of the scope

HiGHS keeps its basis from one solution to the next, so that new clusters and cuts take few steps.
"""

from dataclasses import dataclass

import highspy
import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, join, select
from stagewise.exact.cuts import NO_CUTS, Cuts, crossings, violated
from stagewise.exact.prices import Prices
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

_USED = 1e-9


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """The master's optimum over the columns at hand, and its prices."""

    value: float
    edge_dual: FloatArray
    prices: Prices
    use: FloatArray
    """How much of each column is used."""
    unserved: float
    """How many edges, in fractions, no cluster serves."""
    delay: float
    """T."""


class Master:
    """The master over `columns`, for the edges that these have clusters of.

    An edge may stay unserved at `unserved_cost`; the delay is not below `least_delay`. Columns that
    come later must be of the same edges.
    """

    def __init__(
        self,
        instance: Instance,
        columns: Columns,
        unserved_cost: float,
        least_delay: float = 0.0,
        cuts: IntArray = NO_CUTS.items,
    ) -> None:
        self.instance = instance
        self.columns = columns
        usual = instance.energy_weight * columns.energy + instance.delay_weight * columns.delay
        self.scale = float(np.median(usual)) or 1.0
        """What HiGHS counts as 1: its tolerances are absolute."""
        self.cuts = cuts
        self._present = np.unique(columns.edge)
        edges, clients = len(self._present), len(instance.lock)
        self._edge_row = np.full(len(instance.capacity), NONE)
        self._edge_row[self._present] = np.arange(edges)
        # Rows: the edges, their delays, the clients, the cuts. Columns: T, unserved, the clusters.
        self.highs = highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("random_seed", 0)
        infinite = np.full(edges + clients + len(cuts), -np.inf)
        lower = np.concatenate([np.ones(edges), infinite])
        upper = np.concatenate([np.ones(edges), np.zeros(edges), np.ones(clients + len(cuts))])
        nothing = np.zeros(0, dtype=np.int32)
        starts = np.zeros(len(lower), dtype=np.int32)
        highs.addRows(len(lower), lower, upper, 0, starts, nothing, np.zeros(0))
        shape = (1 + edges, len(lower))
        delays = np.zeros(edges, dtype=np.int64), np.arange(edges, 2 * edges), np.full(edges, -1.0)
        served = np.arange(1, edges + 1), np.arange(edges), np.ones(edges)
        row, column, value = map(np.concatenate, zip(delays, served, strict=True))
        first = csr_matrix((value, (row, column)), shape=shape)
        self._add(
            np.append(instance.delay_weight, np.full(edges, unserved_cost)),
            np.append(least_delay, np.zeros(edges)),
            first,
        )
        self._add_clusters(columns)

    def _add(self, cost: FloatArray, lower: FloatArray, rows: csr_matrix) -> None:
        """Add columns with these entries, a row of `rows` for each."""
        start, index = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        upper, cost = np.full(len(cost), np.inf), cost / self.scale
        self.highs.addCols(len(cost), cost, lower, upper, rows.nnz, start, index, rows.data)

    def _add_clusters(self, columns: Columns) -> None:
        edges, count = len(self._present), len(columns)
        row = self._edge_row[columns.edge]
        each = np.arange(count)
        served = csr_matrix((np.ones(count), (each, row)), shape=(count, edges))
        delays = csr_matrix((columns.delay, (each, row)), shape=(count, edges))
        held = columns.held(self.instance)
        clients = held[:, : len(self.instance.lock)]
        rows = csr_matrix(hstack([served, delays, clients, crossings(held, self.cuts)]))
        self._add(self.instance.energy_weight * columns.energy, np.zeros(count), rows)

    def add_columns(self, parts: list[Columns]) -> None:
        """More clusters to choose from."""
        new = join(parts)
        self._add_clusters(new)
        self.columns = join([self.columns, new])

    def add_violated_cuts(self, solution: MasterSolution, limit: int) -> int:
        """Add the cuts that `solution` breaks most; returns how many."""
        used = np.flatnonzero(solution.use > _USED)
        held = select(self.columns, used).held(self.instance)
        cuts = violated(held, solution.use[used], limit)
        if len(cuts) == 0:
            return 0
        crossed = crossings(self.columns.held(self.instance), cuts)
        first = csr_matrix((1 + len(self._present), len(cuts)))
        rows = csr_matrix(vstack([first, crossed]).T)
        self.highs.addRows(
            len(cuts),
            np.full(len(cuts), -np.inf),
            np.ones(len(cuts)),
            rows.nnz,
            rows.indptr[:-1].astype(np.int32),
            rows.indices.astype(np.int32),
            rows.data,
        )
        self.cuts = np.concatenate([self.cuts, cuts])
        return len(cuts)

    def set_unserved_cost(self, cost: float) -> None:
        """What an edge that stays unserved counts from now on."""
        for column in range(1, len(self._present) + 1):
            self.highs.changeColCost(column, cost / self.scale)

    def solve(self, seconds: float = np.inf) -> MasterSolution | None:
        """The optimum and its prices; None where HiGHS was not done after `seconds`."""
        highs, instance, edges = self.highs, self.instance, len(self._present)
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = highs.getSolution()
        values, duals = np.array(solution.col_value), self.scale * np.array(solution.row_dual)
        edge_dual, delay_price = np.zeros((2, len(instance.capacity)))
        edge_dual[self._present] = duals[:edges]
        marginals = np.maximum(-duals, 0.0)
        delay_price[self._present] = marginals[edges : 2 * edges]
        # The bound needs prices of a second that sum to the weight of delay at the most.
        total = delay_price.sum()
        if total > instance.delay_weight:
            delay_price = delay_price * (instance.delay_weight / total)
        last = 2 * edges + len(instance.lock)
        return MasterSolution(
            value=self.scale * float(highs.getInfo().objective_function_value),
            edge_dual=edge_dual,
            prices=Prices(
                marginals[2 * edges : last], delay_price, Cuts(self.cuts, marginals[last:])
            ),
            use=values[1 + edges :],
            unserved=float(values[1 : 1 + edges].sum()),
            delay=float(values[0]),
        )
