"""P0 (or P2) to proven optimality: incumbent, bound, and the enumeration that closes the gap."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stagewise.exact.clusters import build_market
from stagewise.exact.columns import NOBODY, Columns, enumerate_columns, join, select
from stagewise.exact.master import MasterSolution, solve_master
from stagewise.exact.packing import pack
from stagewise.problem.statement import Problem
from stagewise.search.instance import Instance, build_instance, unassigned
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.scenario import FloatArray, IntArray

GAP = 1e-3
_START_COLUMNS = 2_000  # clusters of each edge that the master starts from
_NEW_COLUMNS = 1_000  # clusters of each edge that a pricing round may add
_PROOF_COLUMNS = 4_000_000  # clusters of one edge that a proof may enumerate
_NODES = 2_000_000_000
_NODES_PER_SECOND = 4_000_000
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Certified:
    """The best assignment found, and what is proven of it."""

    assignment: IntArray
    value: float
    """Its cost; infinite where it breaks a limit."""
    lower_bound: float
    """No assignment within the limits costs less; infinite where there is none."""

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, relative to the cost."""
        if not np.isfinite(self.value):
            return 0.0 if np.isinf(self.lower_bound) else np.inf
        return max(0.0, 1.0 - self.lower_bound / self.value) if self.value > 0 else 0.0


Log = Callable[[str, float, float], None]


def solve_exactly(
    problem: Problem,
    *,
    seed: int = 0,
    seconds: float | None = None,
    gap: float = GAP,
    log: Log | None = None,
) -> Certified:
    """The optimum of `problem` within the relative `gap`, or what is proven after `seconds`.

    `log` is called with what has just been done, the cost of the best assignment and the bound.
    """
    proof = _Proof(problem, seed, seconds, gap, log)
    proof.find_incumbent()
    if proof.generate_columns():
        proof.close_gap()
    return proof.result()


class _Proof:
    def __init__(
        self, problem: Problem, seed: int, seconds: float | None, gap: float, log: Log | None
    ) -> None:
        self.problem = problem
        self.instance: Instance = build_instance(problem)
        self.seed = seed
        self.deadline = None if seconds is None else time.perf_counter() + seconds
        self.gap = gap
        self.log = log
        self.edges = len(self.instance.capacity)
        self.best: Found | None = None
        self.upper = np.inf
        self.lower = 0.0
        self.columns: Columns | None = None
        self.master: MasterSolution | None = None
        self.least: FloatArray | None = None
        """The least reduced cost of each edge at the master's prices, where it is proven."""

    def find_incumbent(self) -> None:
        """An assignment to begin with, by local search."""
        start = self.problem.pinned
        remaining = None if self.deadline is None else self.deadline - time.perf_counter()
        short = remaining is not None and remaining < 1
        effort = Effort(runs=1, moves_per_edge=10_000) if short else Effort()
        self.best = local_search(self.instance, start, seed=self.seed, effort=effort)
        if self.best.violation == 0:
            self.upper = self.problem.objective(self.best.assignment)
        self._say("local search")

    def generate_columns(self) -> bool:
        """Solve the master over all clusters; false where an edge has none, or the time is over."""
        instance = self.instance
        even = np.full(self.edges, instance.delay_weight / self.edges)
        nobody = np.zeros(len(instance.lock))
        pools = []
        cheapest_cost = np.zeros(self.edges)
        for edge in range(self.edges):
            market = build_market(instance, edge, nobody, float(even[edge]))
            cheapest = enumerate_columns(
                instance, market, np.inf, most=1, nodes=self._nodes(), best_only=True
            )
            if not cheapest.complete:
                return False
            if len(cheapest.columns) == 0:
                self.lower = np.inf  # no cluster at all: no assignment can be feasible
                return False
            least = cheapest.columns.reduced_costs(instance, np.zeros(self.edges), nobody, even)[0]
            cheapest_cost[edge] = least
            cap = 1.5 * least
            pool = enumerate_columns(instance, market, cap, most=_START_COLUMNS, nodes=20_000_000)
            pools += [cheapest.columns, pool.columns]
        self.lower = float(cheapest_cost.sum())
        self.columns = join(pools)
        self._say("cheapest clusters")
        while not self._closed() and not self._late():
            self.master = solve_master(instance, self.columns, self._unserved_cost())
            grown = self._price()
            self._say("master")
            if not grown:
                break
        return self.master is not None

    def _unserved_cost(self) -> float:
        largest = self.upper if np.isfinite(self.upper) else 10.0 * self.lower + 1.0
        return 10.0 * largest

    def _price(self) -> bool:
        """Look for clusters that the master's prices make attractive; the bound follows."""
        assert self.master is not None and self.columns is not None
        master, instance = self.master, self.instance
        self.least = None
        least = np.zeros(self.edges)
        added = []
        for edge in range(self.edges):
            second = float(master.delay_price[edge])
            market = build_market(instance, edge, master.client_price, second)
            cap = float(master.edge_dual[edge]) - _ROUNDING
            best = enumerate_columns(
                instance, market, cap, most=1, nodes=self._nodes(), best_only=True
            )
            if not best.complete:
                return False
            if len(best.columns) == 0:
                continue
            costs = best.columns.reduced_costs(
                instance, master.edge_dual, master.client_price, master.delay_price
            )
            least[edge] = costs[0]
            more = enumerate_columns(instance, market, cap, most=_NEW_COLUMNS, nodes=2_000_000)
            added += [best.columns, more.columns]
        self.least = least
        self.lower = max(self.lower, master.bound(least) - self.edges * _ROUNDING)
        if added:
            self.columns = join([self.columns, *added])
        return bool(added)

    def close_gap(self) -> None:
        """Enumerate every cluster that a better choice could use, and search them all."""
        assert self.master is not None and self.columns is not None
        self._try_packing(self.columns, steps=20_000_000)
        if self._closed() or self._late():
            return
        if self.least is None:
            return
        instance, master = self.instance, self.master
        slack = self.upper - master.bound(self.least)
        parts = []
        for edge in range(self.edges):
            second = float(master.delay_price[edge])
            market = build_market(instance, edge, master.client_price, second)
            cap = float(master.edge_dual[edge]) + slack + _ROUNDING
            found = enumerate_columns(
                instance, market, cap, most=_PROOF_COLUMNS, nodes=self._nodes()
            )
            if not found.complete:
                return
            parts.append(found.columns)
            if self._late():
                return
        every = join(parts)
        self._say(f"{len(every)} clusters")
        if self._try_packing(every):
            self.lower = max(self.lower, self.upper)
        self._say("search")

    def _try_packing(self, columns: Columns, steps: int | None = None) -> bool:
        """Improve the incumbent from `columns`; true where the search saw every choice below it."""
        assert self.master is not None
        master, instance = self.master, self.instance
        reduced = columns.reduced_costs(
            instance, master.edge_dual, master.client_price, master.delay_price
        )
        base = float(master.edge_dual.sum() - master.client_price.sum())
        limit = self.upper * (1 - 1e-12) if np.isfinite(self.upper) else np.inf
        packing = pack(instance, columns, reduced, base, limit, self.deadline, steps)
        if packing.rows is not None:
            assignment = self._assignment(select(columns, packing.rows))
            self.upper = self.problem.objective(assignment)
            self.best = Found(assignment, 0.0, self.upper)
        return packing.complete

    def _assignment(self, chosen: Columns) -> IntArray:
        assignment = unassigned(len(self.instance.lock))
        if self.problem.pinned is not None:
            assignment = self.problem.pinned.copy()
        for edge, members in zip(chosen.edge, chosen.members, strict=True):
            assignment[members[members != NOBODY]] = edge
        return np.asarray(assignment)

    def _closed(self) -> bool:
        return self.lower >= self.upper * (1 - self.gap)

    def _nodes(self) -> int:
        """How many steps an enumeration may take in the time that is left."""
        if self.deadline is None:
            return _NODES
        left = self.deadline - time.perf_counter()
        return max(1, min(_NODES, int(left * _NODES_PER_SECOND)))

    def _late(self) -> bool:
        return self.deadline is not None and time.perf_counter() > self.deadline

    def _say(self, what: str) -> None:
        if self.log is not None:
            self.log(what, self.upper, self.lower)

    def result(self) -> Certified:
        assert self.best is not None
        lower = min(self.lower, self.upper) if np.isfinite(self.upper) else self.lower
        return Certified(self.best.assignment, self.upper, lower)
