"""Good assignments from the master's solution: dive first, then improve a few edges at a time."""

import numpy as np
from scipy.sparse import csr_matrix

from stagewise.compiled import NONE
from stagewise.exact.clusters import edge_candidates
from stagewise.exact.columns import Columns, enumerate_columns, join, select, shared_clients
from stagewise.exact.generation import Generation
from stagewise.exact.master import Master, MasterSolution
from stagewise.exact.packing import Budget, pack
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import Scope
from stagewise.exact.search_threads import SearchThreads
from stagewise.search.instance import Instance
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

_SURE = 0.9  # a cluster used this much is taken
_SHARE = 0.15  # of the edges, the surest, are settled in each step
_NODES = 300_000
_PACKING_LOOKS = 20_000_000


def dive(
    instance: Instance, scope: Scope, generation: Generation, threads: SearchThreads
) -> Columns:
    """Clusters for as many edges as possible: settle the surest, solve the master again, and so on."""
    solution = generation.solution
    assert solution is not None
    columns = select(generation.columns, np.arange(len(solution.use)))
    unserved_cost = 10.0 * float(generation.best.least.max())
    taken = np.zeros(len(instance.lock) + 1, dtype=np.bool_)
    settled: list[Columns] = []
    use = solution.use
    while len(columns) and (not settled or not threads.out_of_time):
        rows = _surest(columns, use, taken)
        settled.append(select(columns, rows))
        open_ = ~np.isin(columns.edge, columns.edge[rows])
        left = np.unique(columns.edge[open_])
        columns = select(columns, open_ & ~taken[columns.members].any(axis=1))
        unserved = np.setdiff1d(left, columns.edge)
        if len(unserved):
            new = [_generated(instance, int(edge), scope, solution, taken) for edge in unserved]
            columns = join([columns, *new])
        if len(columns) == 0:
            break
        master_of_rest = Master(instance, columns, unserved_cost, scope.least_delay)
        again = master_of_rest.solve(threads.seconds_left)
        if again is None:
            break
        use = again.use
    return join(settled)


def _surest(columns: Columns, use: FloatArray, taken: BoolArray) -> IntArray:
    """Rows of disjoint clusters of different edges, the most used first; their clients get taken."""
    order = np.argsort(-use, kind="stable")
    target = max(1, int(_SHARE * len(np.unique(columns.edge))))
    rows: list[int] = []
    settled: set[int] = set()
    for row in order.tolist():
        if use[row] < _SURE and len(rows) >= target:
            break
        members = columns.members[row]
        members = members[members != NONE]
        if int(columns.edge[row]) in settled or taken[members].any():
            continue
        taken[members] = True
        settled.add(int(columns.edge[row]))
        rows.append(row)
        if use[row] <= 0:
            break
    return np.array(rows, dtype=np.int64)


def _generated(
    instance: Instance, edge: int, scope: Scope, solution: MasterSolution, taken: BoolArray
) -> Columns:
    """The cheapest cluster of clients that are not taken, at the master's prices."""
    free = np.where(taken[:-1], np.inf, solution.prices.client)
    prices = Prices(free, solution.prices.delay, solution.prices.cuts)
    candidates = edge_candidates(instance, edge, prices, scope.delay_limit)
    return enumerate_columns(
        instance, candidates, np.inf, max_clusters=1, nodes=_NODES, best_only=True
    ).columns


def overlaps(instance: Instance) -> csr_matrix:
    """How many clients two edges could both have; shape (edges, edges)."""
    return shared_clients(instance.link_edge, instance.link_client, len(instance.capacity))


def around(overlap: csr_matrix, edges: IntArray) -> IntArray:
    """`edges` and all others that could take a client of theirs."""
    return np.unique(np.concatenate([edges, overlap[edges].indices])).astype(np.int64)


def neighbours(overlap: csr_matrix, edge: int, count: int, rng: np.random.Generator) -> IntArray:
    """`edge` and others, `count` at most; those that share most clients with it most likely."""
    row = overlap.getrow(edge)
    others, weight = row.indices[row.indices != edge], row.data[row.indices != edge]
    chosen = np.argsort(-weight * rng.random(len(weight)))[: count - 1]
    return np.sort(np.append(others[chosen], edge)).astype(np.int64)


def improve(
    instance: Instance,
    scope: IntArray,
    columns: Columns,
    incumbent: Columns,
    limit: float,
    threads: SearchThreads,
) -> Columns | None:
    """A better choice for the edges of `scope`, the others as in `incumbent`; None without any.

    Row j of `incumbent` is the cluster of edge j, and `limit` what they cost together.
    """
    inside = np.zeros(len(instance.capacity), dtype=np.bool_)
    inside[scope] = True
    others = select(incumbent, np.flatnonzero(~inside))
    taken = np.zeros(len(instance.lock) + 1, dtype=np.bool_)
    taken[others.members] = True
    taken[NONE] = False
    choices = select(columns, np.flatnonzero(inside[columns.edge]))
    choices = select(choices, np.flatnonzero(~taken[choices.members].any(axis=1)))
    choices = join([choices, select(incumbent, scope)])
    least_delay = float(others.delay.max(initial=0.0))
    spent = instance.energy_weight * float(others.energy.sum())
    master = Master(instance, choices, limit, least_delay).solve(threads.seconds_left)
    if master is None or master.value + spent >= limit * (1 - 1e-9):
        return None
    reduced = choices.reduced_costs(instance, master.edge_dual, master.prices)
    base = float(master.edge_dual.sum()) - master.prices.paid
    spare = instance.delay_weight - float(master.prices.delay.sum())
    near = np.flatnonzero(reduced <= limit - spent - master.value)
    choices, reduced = select(choices, near), reduced[near]
    packing = pack(
        instance,
        choices,
        reduced,
        base + spare * least_delay,
        (limit - spent) * (1 - 1e-9),
        Budget(threads.deadline, looks=_PACKING_LOOKS),
        scope=scope,
        least_delay=least_delay,
    )
    if packing.rows is None:
        return None
    better = join([others, select(choices, packing.rows)])
    return select(better, np.argsort(better.edge, kind="stable"))
