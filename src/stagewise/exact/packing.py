"""The cheapest disjoint choice of one cluster for each edge: depth-first, with the master's bound."""

import time
from dataclasses import dataclass

import numpy as np

from stagewise.compiled import compiled
from stagewise.exact.columns import Columns, select
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

_SLICE = 4_000_000  # steps, or looks, between two glances at the clock
_MANY = 2**62


@dataclass(frozen=True, eq=False)
class Packing:
    """The best choice found: the rows of its columns, or None where none beats the limit."""

    rows: IntArray | None
    value: float
    complete: bool


def pack(
    instance: Instance,
    columns: Columns,
    reduced: FloatArray,
    base: float,
    limit: float,
    deadline: float | None,
    steps: int | None = None,
    *,
    looks: int | None = None,
    scope: IntArray | None = None,
    least_delay: float = 0.0,
) -> Packing:
    """The cheapest disjoint choice below `limit`, one cluster for each edge.

    `base` plus the reduced costs of a choice never exceeds its true cost; that is the bound. A step
    tries one cluster; for its bound it may look at many others, and `looks` limits these. With
    `scope` the columns belong to these edges alone, and only these are served. The delay counts with
    `least_delay` at the least. The rows of the answer are in the order of edges.
    """
    order = np.lexsort((reduced, columns.edge))
    sorted_columns, sorted_reduced = select(columns, order), reduced[order]
    served = np.arange(len(instance.capacity)) if scope is None else np.sort(scope)
    edges = len(served)
    starts = np.searchsorted(sorted_columns.edge, np.append(served, len(instance.capacity)))
    counts = np.diff(starts)
    if (counts == 0).any():
        return Packing(None, limit, True)
    sequence = np.argsort(counts, kind="stable")  # few clusters first: they decide most
    rest = np.zeros(
        (edges + 1, 2)
    )  # what the edges from here on cost at the least: reduced, energy
    least = np.column_stack(
        [np.minimum.reduceat(part, starts[:-1]) for part in (sorted_reduced, sorted_columns.energy)]
    )
    rest[:-1] = np.cumsum(least[sequence[::-1]], axis=0)[::-1]
    used = np.zeros(len(instance.lock), dtype=np.int8)
    cursor = np.full(edges, -1, dtype=np.int64)
    best = np.full(edges, -1, dtype=np.int64)
    sums = np.zeros((edges + 1, 3))
    sums[0, 2] = least_delay
    state = np.zeros(4, dtype=np.int64)  # depth, finished, looks, steps
    value = np.array([limit])
    while not state[1]:
        _search(
            sequence,
            starts,
            sorted_columns.members,
            sorted_columns.energy,
            sorted_columns.delay,
            sorted_reduced,
            base,
            rest,
            instance.delay_weight,
            instance.energy_weight,
            used,
            cursor,
            best,
            sums,
            state,
            value,
            min(_SLICE, _MANY if steps is None else steps - state[3]),
            min(_SLICE + state[2], _MANY if looks is None else looks),
        )
        if (
            (deadline is not None and time.perf_counter() > deadline)
            or (steps is not None and state[3] >= steps)
            or (looks is not None and state[2] >= looks)
        ):
            break
    rows = None if best[0] < 0 else order[best]
    return Packing(rows, float(value[0]), bool(state[1]))


@compiled
def _search(
    sequence,
    starts,
    members,
    energy,
    delay,
    reduced,
    base,
    rest,
    delay_weight,
    energy_weight,
    used,
    cursor,
    best,
    sums,
    state,
    value,
    steps,
    looks,
):
    """Go on with the depth-first search for `steps` steps or `looks`; `state` says where it is.

    Row d of `sums` holds the reduced cost, the energy and the delay of the first d edges' clusters.
    """
    edges = sequence.shape[0]
    depth = state[0]
    for _ in range(steps):
        if depth < 0:
            state[1] = 1
            return
        if state[2] >= looks:
            break
        state[3] += 1
        j = sequence[depth]
        if cursor[depth] < 0:
            cursor[depth] = starts[j]
        else:
            _use(members, used, cursor[depth], -1)
            cursor[depth] += 1
        row = cursor[depth]
        if (
            row >= starts[j + 1]
            or base + sums[depth, 0] + reduced[row] + rest[depth + 1, 0] >= value[0]
        ):
            cursor[depth] = -1
            depth -= 1
            continue
        disjoint = _is_disjoint(members, used, row)
        _use(members, used, row, 1)  # undone when the cursor moves on
        if not disjoint:
            continue
        sums[depth + 1, 0] = sums[depth, 0] + reduced[row]
        sums[depth + 1, 1] = sums[depth, 1] + energy[row]
        sums[depth + 1, 2] = max(sums[depth, 2], delay[row])
        cost = delay_weight * sums[depth + 1, 2] + energy_weight * sums[depth + 1, 1]
        if cost + energy_weight * rest[depth + 1, 1] >= value[0]:
            continue
        if depth + 1 == edges:
            value[0] = cost
            for d in range(edges):
                best[sequence[d]] = cursor[d]
            continue
        bound = base + sums[depth + 1, 0]
        for later in range(depth + 1, edges):
            bound += _least_disjoint(
                sequence[later], starts, members, reduced, used, value[0] - bound, state
            )
            if bound >= value[0]:
                break
        if bound >= value[0]:
            continue
        depth += 1
        cursor[depth] = -1
        state[0] = depth
    state[0] = depth


@compiled
def _use(members, used, row, change):
    """Count the clients of a cluster in use `change` more often."""
    for m in range(members.shape[1]):
        if members[row, m] < 0:
            break
        used[members[row, m]] += change


@compiled
def _is_disjoint(members, used, row):
    """Whether a cluster shares no client with those in use."""
    for m in range(members.shape[1]):
        if members[row, m] < 0:
            break
        if used[members[row, m]] > 0:
            return False
    return True


@compiled
def _least_disjoint(j, starts, members, reduced, used, limit, state):
    """The least reduced cost of a cluster of edge j that shares no client with those in use."""
    for row in range(starts[j], starts[j + 1]):
        state[2] += 1
        if reduced[row] >= limit:
            return limit
        if _is_disjoint(members, used, row):
            return reduced[row]
    return np.inf
