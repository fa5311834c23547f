"""Alg. 3, LILongClientD: improve a set of clients by Add, Remove and Exchange, one change at a time."""

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from stagewise.compiled import NONE, compiled, inlined
from stagewise.problem.risk_kernels import kld_of, label_term
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.search.association import Reading, associate, new_association
from stagewise.search.instance import FREE, NO_RISK, Instance, unassigned
from stagewise.search.local_search import Found
from stagewise.search.value import objective
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import FloatArray, IntArray

_BATCH = 128  # changes tried between two looks at the clock
_ROUNDING = 1e-9  # a bound is trusted up to this part of itself


def improve_client_set(
    instance: Instance,
    start: IntArray,
    *,
    reading: Reading | None = None,
    seconds: float | None = None,
) -> Found:
    """Alg. 3 from the client set `start`: until no Add, Remove or Exchange makes it better.

    The paper starts from a feasible set. A random one seldom is, so that sets are compared by
    (violation, value): while nothing is feasible the changes lead towards feasibility, and from the
    first feasible set on the comparison is the paper's.
    """
    deadline = None if seconds is None else time.perf_counter() + seconds
    everybody = np.flatnonzero(np.diff(instance.link_start) > 0)
    search = _Search(instance, reading, deadline)
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
    return search.found()


def best_client_set(
    instance: Instance,
    rng: np.random.Generator,
    data: float,
    *,
    reading: Reading,
    seconds: float | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """The best result of Alg. 3 from random sets of clients that hold `data` samples each."""
    began = time.perf_counter()
    best: Found | None = None
    for number in range(reading.starts):
        left = None if seconds is None else seconds - (time.perf_counter() - began)
        if best is not None and left is not None and left <= 0:
            break
        start = random_client_set(instance, rng, data)
        found = improve_client_set(instance, start, reading=reading, seconds=left)
        if found.better_than(best):
            best = found
        progress((number + 1) / reading.starts)
    assert best is not None
    return best


def associate_set(
    instance: Instance, selected: IntArray, *, reading: Reading | None = None
) -> Found:
    """Alg. 2 alone: the clients of `selected`, associated."""
    search = _Search(instance, reading, None)
    search.start_with(selected)
    return search.found()


class Bounds(NamedTuple):
    """What tells without an association that a set of clients is no better than the best."""

    least_energy: FloatArray
    """Of each client, over its links."""
    least_delay: FloatArray
    """Of each client, over its links, with the edge's uplink."""
    labels: IntArray
    """Room for the samples of each label."""


class Best(NamedTuple):
    """The best set so far."""

    figures: FloatArray
    """(violation, value)."""
    assignment: IntArray


class _Search:
    """The present set of clients with its association, and the room that trying changes needs."""

    def __init__(self, instance: Instance, reading: Reading | None, deadline: float | None) -> None:
        self.association = new_association(instance, reading)
        self.deadline = deadline
        self.bounds = _bounds(instance)
        self.trial = np.zeros(len(instance.lock) + 1, dtype=np.int64)
        self.selected = np.zeros(0, dtype=np.int64)
        self.best = Best(np.full(2, np.inf), unassigned(len(instance.lock)))

    def found(self) -> Found:
        violation, value = self.best.figures.tolist()
        return Found(self.best.assignment, violation, value)

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def start_with(self, selected: IntArray) -> None:
        """Associate `selected`; where its clients find no place, with ever fewer of the free ones."""
        lock = self.association.instance.lock
        pinned, free = selected[lock[selected] != FREE], selected[lock[selected] == FREE]
        while True:
            self.selected = np.concatenate([pinned, free])
            figures = associate(self.association, self.selected, len(self.selected))
            if np.isfinite(figures[0]) or len(free) == 0:
                break
            free = free[: len(free) // 2]
        self.best.figures[:] = figures
        if np.isfinite(figures[0]):
            self.best.assignment[:] = self.association.work.best

    def best_of(self, changes: Iterable[tuple[int, int]]) -> bool:
        """Make the best of `changes` (who leaves, who enters), if it is better than none."""
        base = self.selected
        if self.association.reading.keeps:
            self.association.work.before[:] = self.best.assignment
        best_change: tuple[int, int] | None = None
        for batch in _batches(changes):
            place = try_changes(self.association, self.bounds, base, batch, self.best, self.trial)
            if place != NONE:
                best_change = (int(batch[place, 0]), int(batch[place, 1]))
            if self.out_of_time():
                break
        if best_change is None:
            return False
        leaving, entering = best_change
        self.selected = base[base != leaving]
        if entering != NONE:
            self.selected = np.append(self.selected, entering)
        return True


def _bounds(instance: Instance) -> Bounds:
    clients = len(instance.lock)
    least_energy, least_delay = np.full((2, clients), np.inf)
    delay = instance.link_delay + instance.uplink_delay[instance.link_edge]
    np.minimum.at(least_energy, instance.link_client, instance.link_energy)
    np.minimum.at(least_delay, instance.link_client, delay)
    return Bounds(least_energy, least_delay, np.zeros(len(instance.target), dtype=np.int64))


def _batches(changes: Iterable[tuple[int, int]]) -> Iterator[IntArray]:
    iterator = iter(changes)
    while batch := list(itertools.islice(iterator, _BATCH)):
        yield np.array(batch, dtype=np.int64)


@compiled
def try_changes(association, bounds, base, changes, best, trial):
    """Associate `base` after each of `changes` (who leaves, who enters) and find the best.

    Returns the place of the best change, -1 where none improves on `best`, which receives it.
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
        if is_no_better(association.instance, bounds, trial, count, best.figures):
            continue
        violation, value = associate(association, trial, count)
        if violation < best.figures[0] - 1e-12 or (
            violation <= best.figures[0] and value < _below(best.figures[1])
        ):
            best.figures[0], best.figures[1], found = violation, value, c
            for client in range(best.assignment.shape[0]):
                best.assignment[client] = association.work.best[client]
    return found


@inlined
def _below(value):
    """What counts as less than `value`, rounding apart."""
    return value - 1e-12 * abs(value)


@compiled
def is_no_better(instance, bounds, selected, count, figures):
    """Whether no association of `selected[:count]` can be better than `figures`, by bounds alone.

    Where the best is feasible: each client costs its cheapest link at the least, and a feasible
    association uses every edge; all data together must suffice for all edges, and by convexity their
    KLD must be within the limit. Where it is not: data that are missing altogether are missing at edges.
    """
    start, label_of, label_count, data_of = instance.rows
    data = 0
    energy = 0.0
    delay = 0.0
    log_probability = 0.0
    never = 0.0
    for h in range(bounds.labels.shape[0]):
        bounds.labels[h] = 0
    for s in range(count):
        client = selected[s]
        data += data_of[client]
        energy += bounds.least_energy[client]
        delay = max(delay, bounds.least_delay[client])
        log_probability += instance.log_probability[client]
        if instance.probability[client] <= 0:
            never += 1.0
        for k in range(start[client], start[client + 1]):
            bounds.labels[label_of[k]] += label_count[k]
    is_plain = instance.risk == NO_RISK
    if figures[0] > 0:
        if not is_plain or instance.data_limit <= 0:
            return False
        missing = instance.edges_in_round - data / instance.data_limit
        return missing * (1.0 - _ROUNDING) > figures[0]
    log_sum = 0.0
    for h in range(bounds.labels.shape[0]):
        log_sum += label_term(bounds.labels[h], instance.log_target[h])
    if is_plain:
        if data < instance.edges_in_round * instance.data_limit:
            return True
        limit = instance.kld_limit + KLD_TOLERANCE + _ROUNDING
        if instance.keep_kld and data > 0 and kld_of(log_sum, data) > limit:
            return True
    for j in range(instance.uplink_energy.shape[0]):
        energy += instance.uplink_energy[j]
    # The largest KLD of an edge, and so their sum, is at least that of all data together.
    kld = max(0.0, kld_of(log_sum, data) - _ROUNDING) if data > 0 else 0.0
    bound = objective(instance, delay, energy, log_probability, float(count), kld, never)
    return bound - _ROUNDING * abs(bound) >= _below(figures[1])


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
