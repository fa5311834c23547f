"""The cheapest disjoint choice of one cluster for each edge: depth-first, with the master's bound."""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled
from stagewise.exact.columns import Columns, select
from stagewise.search.instance import Instance
from stagewise.world.scenario import FloatArray, IntArray

_SLICE = 4_000_000  # steps, or looks, between two readings of the clock
_MANY = 2**62


@dataclass(frozen=True, eq=False)
class Packing:
    """The best choice found: the rows of its columns, or None where none beats the limit."""

    rows: IntArray | None
    value: float
    complete: bool


class Budget(NamedTuple):
    """When to stop a search that is not complete; None is no limit."""

    deadline: float | None = None
    """As `time.perf_counter` counts."""
    steps: int | None = None
    """A step tries one cluster."""
    looks: int | None = None
    """For its bound a step may look at many other clusters."""


class Packable(NamedTuple):
    """The clusters to choose from, edge by edge and cheapest first."""

    sequence: IntArray
    """The edges in the order in which they choose."""
    start: IntArray
    members: npt.NDArray[np.int32]
    energy: FloatArray
    delay: FloatArray
    reduced: FloatArray
    rest: FloatArray
    """Row d: what the edges from the d-th on cost at the least, as reduced costs and as energy."""
    base: float
    """With the reduced costs of a choice never more than it costs."""
    delay_weight: float
    energy_weight: float


class SearchState(NamedTuple):
    """Where the depth-first search is."""

    used: npt.NDArray[np.int8]
    """How many of the chosen clusters have each client."""
    cursor: IntArray
    """The cluster of the d-th edge, or -1."""
    sums: FloatArray
    """Row d: the reduced cost, the energy and the delay of the first d edges' clusters."""
    counters: IntArray
    """The slots below."""
    best: IntArray
    value: FloatArray
    """One number: the cost of the best choice, or the limit."""


_DEPTH, _FINISHED, _LOOKS, _STEPS = 0, 1, 2, 3


def pack(
    instance: Instance,
    columns: Columns,
    reduced: FloatArray,
    base: float,
    limit: float,
    budget: Budget,
    *,
    scope: IntArray | None = None,
    least_delay: float = 0.0,
) -> Packing:
    """The cheapest disjoint choice below `limit`, one cluster for each edge.

    `base` plus the reduced costs of a choice never exceeds its true cost; that is the bound. With
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
    rest = np.zeros((edges + 1, 2))
    least = np.column_stack(
        [np.minimum.reduceat(part, starts[:-1]) for part in (sorted_reduced, sorted_columns.energy)]
    )
    rest[:-1] = np.cumsum(least[sequence[::-1]], axis=0)[::-1]
    choices = Packable(
        sequence,
        starts,
        sorted_columns.members,
        sorted_columns.energy,
        sorted_columns.delay,
        sorted_reduced,
        rest,
        float(base),
        instance.delay_weight,
        instance.energy_weight,
    )
    state = _new_state(edges, len(instance.lock), limit)
    state.sums[0, 2] = least_delay
    counters = state.counters
    deadline, steps, looks = budget
    while not counters[_FINISHED]:
        search(
            choices,
            state,
            min(_SLICE, _MANY if steps is None else steps - counters[_STEPS]),
            min(_SLICE + counters[_LOOKS], _MANY if looks is None else looks),
        )
        if (
            (deadline is not None and time.perf_counter() > deadline)
            or (steps is not None and counters[_STEPS] >= steps)
            or (looks is not None and counters[_LOOKS] >= looks)
        ):
            break
    rows = None if state.best[0] == NONE else order[state.best]
    return Packing(rows, float(state.value[0]), bool(counters[_FINISHED]))


def _new_state(edges: int, clients: int, limit: float) -> SearchState:
    """The beginning of a search for choices below `limit`."""
    return SearchState(
        used=np.zeros(clients, dtype=np.int8),
        cursor=np.full(edges, NONE, dtype=np.int64),
        sums=np.zeros((edges + 1, 3)),
        counters=np.zeros(4, dtype=np.int64),
        best=np.full(edges, NONE, dtype=np.int64),
        value=np.full(1, limit, dtype=np.float64),
    )


@compiled
def search(choices, state, steps, looks):
    """Go on with the depth-first search for `steps` steps, or until `looks` in all."""
    sequence, starts, members = choices.sequence, choices.start, choices.members
    reduced, rest, base = choices.reduced, choices.rest, choices.base
    used, cursor, sums = state.used, state.cursor, state.sums
    counters, value = state.counters, state.value
    edges = sequence.shape[0]
    depth = counters[_DEPTH]
    for _ in range(steps):
        if depth < 0:
            counters[_FINISHED] = 1
            return
        if counters[_LOOKS] >= looks:
            break
        counters[_STEPS] += 1
        j = sequence[depth]
        if cursor[depth] == NONE:
            cursor[depth] = starts[j]
        else:
            _use(members, used, cursor[depth], -1)
            cursor[depth] += 1
        row = cursor[depth]
        if (
            row >= starts[j + 1]
            or base + sums[depth, 0] + reduced[row] + rest[depth + 1, 0] >= value[0]
        ):
            cursor[depth] = NONE
            depth -= 1
            continue
        disjoint = _is_disjoint(members, used, row)
        _use(members, used, row, 1)  # undone when the cursor moves on
        if not disjoint:
            continue
        sums[depth + 1, 0] = sums[depth, 0] + reduced[row]
        sums[depth + 1, 1] = sums[depth, 1] + choices.energy[row]
        sums[depth + 1, 2] = max(sums[depth, 2], choices.delay[row])
        cost = (
            choices.delay_weight * sums[depth + 1, 2] + choices.energy_weight * sums[depth + 1, 1]
        )
        if cost + choices.energy_weight * rest[depth + 1, 1] >= value[0]:
            continue
        if depth + 1 == edges:
            value[0] = cost
            for d in range(edges):
                state.best[sequence[d]] = cursor[d]
            continue
        bound = base + sums[depth + 1, 0]
        for later in range(depth + 1, edges):
            bound += _least_disjoint(choices, state, sequence[later], value[0] - bound)
            if bound >= value[0]:
                break
        if bound >= value[0]:
            continue
        depth += 1
        cursor[depth] = NONE
        counters[_DEPTH] = depth
    counters[_DEPTH] = depth


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
def _least_disjoint(choices, state, j, limit):
    """The least reduced cost of a cluster of edge j that shares no client with those in use."""
    for row in range(choices.start[j], choices.start[j + 1]):
        state.counters[_LOOKS] += 1
        if choices.reduced[row] >= limit:
            return limit
        if _is_disjoint(choices.members, state.used, row):
            return choices.reduced[row]
    return np.inf
