"""The cheapest disjoint choice of one cluster for each edge: depth-first, with the master's bound."""

import time
from dataclasses import dataclass

import numpy as np

from stagewise.compiled import compiled
from stagewise.exact.columns import Columns, select
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

_SLICE = 4_000_000  # steps between two looks at the clock


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
) -> Packing:
    """The cheapest disjoint choice below `limit`, one cluster for each edge.

    `base` plus the reduced costs of a choice never exceeds its true cost; that is the bound.
    """
    edges = len(instance.capacity)
    order = np.lexsort((reduced, columns.edge))
    sorted_columns, sorted_reduced = select(columns, order), reduced[order]
    counts = np.bincount(sorted_columns.edge, minlength=edges)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if (counts == 0).any():
        return Packing(None, limit, True)
    sequence = np.argsort(counts, kind="stable")  # few clusters first: they decide most
    used = np.zeros(len(instance.lock), dtype=np.int8)
    cursor = np.full(edges, -1, dtype=np.int64)
    best = np.full(edges, -1, dtype=np.int64)
    sums = np.zeros((edges + 1, 3))
    state = np.zeros(2, dtype=np.int64)  # depth, finished
    value = np.array([limit])
    taken = 0
    slice_ = _SLICE if steps is None else min(_SLICE, steps)
    while not state[1]:
        _search(
            sequence,
            starts,
            sorted_columns.members,
            sorted_columns.energy,
            sorted_columns.delay,
            sorted_reduced,
            base,
            instance.delay_weight,
            instance.energy_weight,
            used,
            cursor,
            best,
            sums,
            state,
            value,
            slice_,
        )
        taken += slice_
        if (deadline is not None and time.perf_counter() > deadline) or (
            steps is not None and taken >= steps
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
    delay_weight,
    energy_weight,
    used,
    cursor,
    best,
    sums,
    state,
    value,
    steps,
):
    """Go on with the depth-first search for `steps` clusters looked at; `state` says where it is.

    Row d of `sums` holds the reduced cost, the energy and the delay of the first d edges' clusters.
    """
    edges = sequence.shape[0]
    depth = state[0]
    for _ in range(steps):
        if depth < 0:
            state[1] = 1
            return
        j = sequence[depth]
        if cursor[depth] < 0:
            cursor[depth] = starts[j]
        else:
            _use(members, used, cursor[depth], -1)
            cursor[depth] += 1
        row = cursor[depth]
        rest = 0.0
        for later in range(depth + 1, edges):
            rest += reduced[starts[sequence[later]]]
        if row >= starts[j + 1] or base + sums[depth, 0] + reduced[row] + rest >= value[0]:
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
        if depth + 1 == edges:
            if cost < value[0]:
                value[0] = cost
                for d in range(edges):
                    best[sequence[d]] = cursor[d]
            continue
        bound = base + sums[depth + 1, 0]
        for later in range(depth + 1, edges):
            bound += _least_disjoint(
                sequence[later], starts, members, reduced, used, value[0] - bound
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
def _least_disjoint(j, starts, members, reduced, used, limit):
    """The least reduced cost of a cluster of edge j that shares no client with those in use."""
    for row in range(starts[j], starts[j + 1]):
        if reduced[row] >= limit:
            return limit
        if _is_disjoint(members, used, row):
            return reduced[row]
    return np.inf
