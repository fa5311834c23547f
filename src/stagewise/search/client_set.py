"""Alg. 3, LILongClientD: improve a set of clients by Add, Remove and Exchange, one change at a time."""

import itertools
import time
from collections.abc import Iterable, Iterator

import numpy as np

from stagewise.compiled import NONE, compiled
from stagewise.search.association import Workspace, associate, new_workspace
from stagewise.search.instance import FREE, Instance, unassigned
from stagewise.search.local_search import Found
from stagewise.search.state import State, new_state
from stagewise.world.scenario import IntArray

BACKTRACK_NODES = 200
_BATCH = 128  # changes tried between two looks at the clock


def improve_client_set(
    instance: Instance,
    start: IntArray,
    *,
    nodes: int = BACKTRACK_NODES,
    seconds: float | None = None,
) -> Found:
    """Alg. 3 from the client set `start`: until no Add, Remove or Exchange makes it better.

    The paper starts from a feasible set. A random one seldom is, so that sets are compared by
    (violation, value): while nothing is feasible the changes lead towards feasibility, and from the
    first feasible set on the comparison is the paper's.
    """
    deadline = None if seconds is None else time.perf_counter() + seconds
    everybody = np.flatnonzero(np.diff(instance.link_start) > 0)
    search = _Search(instance, nodes, deadline)
    search.start_with(start)
    improved = True
    while improved and not search.out_of_time():
        improved = False
        # Each operation scans all its changes of one and the same set, and makes the best of them.
        outside = np.setdiff1d(everybody, search.selected)
        improved |= search.best_of((NONE, client) for client in outside)  # Operation 1, Add
        removable = search.selected[instance.lock[search.selected] == FREE]
        improved |= search.best_of((client, NONE) for client in removable)  # Operation 2, Remove
        outside = np.setdiff1d(everybody, search.selected)
        removable = search.selected[instance.lock[search.selected] == FREE]
        improved |= search.best_of(itertools.product(removable, outside))  # Operation 3, Exchange
    return Found(search.assignment, search.violation, search.value)


def associate_set(instance: Instance, selected: IntArray, *, nodes: int = BACKTRACK_NODES) -> Found:
    """Alg. 2 alone: the clients of `selected`, associated."""
    search = _Search(instance, nodes, None)
    search.start_with(selected)
    return Found(search.assignment, search.violation, search.value)


class _Search:
    """The present set of clients with its association, and the room that trying changes needs."""

    def __init__(self, instance: Instance, nodes: int, deadline: float | None) -> None:
        self.instance = instance
        self.nodes = nodes
        self.deadline = deadline
        self.state: State = new_state(instance)
        self.work: Workspace = new_workspace(instance)
        self.trial = np.zeros(len(instance.lock) + 1, dtype=np.int64)
        self.selected = np.zeros(0, dtype=np.int64)
        self.assignment = unassigned(len(instance.lock))
        self.violation = np.inf
        self.value = np.inf

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def start_with(self, selected: IntArray) -> None:
        """Associate `selected`; where its clients find no place, with ever fewer of the free ones."""
        pinned = selected[self.instance.lock[selected] != FREE]
        free = selected[self.instance.lock[selected] == FREE]
        while True:
            self.selected = np.concatenate([pinned, free])
            self.violation, self.value = associate(
                self.instance, self.state, self.selected, len(self.selected), self.nodes, self.work
            )
            if np.isfinite(self.violation) or len(free) == 0:
                break
            free = free[: len(free) // 2]
        if np.isfinite(self.violation):
            self.assignment = self.work.best.copy()

    def best_of(self, changes: Iterable[tuple[int, int]]) -> bool:
        """Make the best of `changes` (who leaves, who enters), if it is better than none."""
        base = self.selected
        best = (self.violation, self.value)
        best_change: tuple[int, int] | None = None
        assignment = self.assignment.copy()
        for batch in _batches(changes):
            violation, value, place = try_changes(
                self.instance,
                self.state,
                base,
                batch,
                best[0],
                best[1],
                self.nodes,
                self.work,
                self.trial,
                assignment,
            )
            if place != NONE:
                best = (violation, value)
                best_change = (int(batch[place, 0]), int(batch[place, 1]))
            if self.out_of_time():
                break
        if best_change is None:
            return False
        leaving, entering = best_change
        self.selected = base[base != leaving]
        if entering != NONE:
            self.selected = np.append(self.selected, entering)
        self.violation, self.value = best
        self.assignment = assignment
        return True


def _batches(changes: Iterable[tuple[int, int]]) -> Iterator[IntArray]:
    iterator = iter(changes)
    while batch := list(itertools.islice(iterator, _BATCH)):
        yield np.array(batch, dtype=np.int64)


@compiled
def try_changes(
    instance, state, base, changes, violation, best_value, nodes, work, trial, assignment
):
    """Associate `base` after each of `changes` (who leaves, who enters) and find the best.

    Returns (violation, value, place of the best change), the place -1 where none improves on the
    values given; `assignment` receives the best association.
    """
    found = NONE
    for c in range(changes.shape[0]):
        leaving, entering = changes[c, 0], changes[c, 1]
        count = 0
        for s in range(base.shape[0]):
            if base[s] != leaving:
                trial[count] = base[s]
                count += 1
        if entering != NONE:
            trial[count] = entering
            count += 1
        new_violation, new_value = associate(instance, state, trial, count, nodes, work)
        tolerance = 1e-12 * abs(best_value)
        if new_violation < violation - 1e-12 or (
            new_violation <= violation and new_value < best_value - tolerance
        ):
            violation, best_value, found = new_violation, new_value, c
            for client in range(assignment.shape[0]):
                assignment[client] = work.best[client]
    return violation, best_value, found


def random_client_set(
    instance: Instance, rng: np.random.Generator, data: float, pinned: IntArray | None = None
) -> IntArray:
    """Clients in random order until together they hold `data` samples, each with room at an edge.

    `pinned` come first and are always in.
    """
    start = np.zeros(0, dtype=np.int64) if pinned is None else pinned
    left = instance.capacity.copy()
    sizes = instance.rows.data
    chosen: list[int] = []
    total = 0.0
    candidates = np.flatnonzero(np.diff(instance.link_start) > 0)
    order = np.concatenate([start, rng.permutation(np.setdiff1d(candidates, start))])
    for place, client in enumerate(order.tolist()):
        if total >= data and place >= len(start):
            break
        links = slice(instance.link_start[client], instance.link_start[client + 1])
        edges = instance.link_edge[links]
        roomy = edges[left[edges] > 0]
        if len(roomy) == 0:
            continue
        left[roomy[np.argmax(left[roomy])]] -= 1
        chosen.append(client)
        total += float(sizes[client])
    return np.array(chosen, dtype=np.int64)
