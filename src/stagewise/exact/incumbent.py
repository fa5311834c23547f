"""The best assignment so far, and the searches that look for a better one."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from stagewise.exact.columns import Columns, columns_of, edge_of
from stagewise.exact.rounding import around, improve, neighbours, overlaps
from stagewise.exact.search_threads import SearchThreads
from stagewise.problem.statement import Problem
from stagewise.randomness import generator, integer_seed
from stagewise.search.fast_links import fast_links
from stagewise.search.instance import Instance, build_instance, unassigned
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.scenario import IntArray

_SHARE = 0.05  # of the time for the first local search
_MOVES_PER_SECOND = 1_000_000
_MOVES_PER_CLIENT = 500  # for each edge; a handful of clients does not need more
_FAST_MOVES, _FAST_MOVES_OF_AN_EDGE = 2_000_000, 5_000  # among fast links
_FEWEST_EDGES, _MOST_EDGES = 3, 16  # of a neighbourhood
_TOLERANCE = 1e-12


class Incumbent:
    """The best assignment of `problem` so far."""

    def __init__(
        self, problem: Problem, instance: Instance, seed: int, threads: SearchThreads
    ) -> None:
        self._problem, self._instance = problem, instance
        self._seed, self._threads = seed, threads
        self._edges = len(instance.capacity)
        self._best = Found(unassigned(len(instance.lock)), np.inf, np.inf)
        self._columns: Columns | None = None  # of the best one, once they were asked for
        self.value = np.inf
        """What it costs; infinite while it breaks a limit."""

    @property
    def assignment(self) -> IntArray:
        """The edge of each client, or -1."""
        return self._best.assignment

    @property
    def feasible(self) -> bool:
        return bool(np.isfinite(self.value))

    @property
    def columns(self) -> Columns:
        """The clusters of its edges."""
        if self._columns is None:
            self._columns = columns_of(self._instance, self.assignment)
        return self._columns

    @property
    def delay_s(self) -> float:
        return self._problem.evaluate(self.assignment).delay_s

    @cached_property
    def _overlap(self) -> csr_matrix:
        return overlaps(self._instance)

    def search(self, effort: Effort) -> None:
        """Local search for an assignment to begin with, as far as the time allows it."""
        moves = min(effort.moves_per_edge, _MOVES_PER_CLIENT * len(self._instance.lock))
        left = self._threads.seconds_left
        if np.isfinite(left):
            affordable = int(_SHARE * left * _MOVES_PER_SECOND / (effort.runs * self._edges))
            moves = min(moves, max(affordable, 500))
        effort = replace(effort, moves_per_edge=moves)
        pinned = self._problem.pinned
        self.accept(local_search(self._instance, pinned, seed=self._seed, effort=effort))

    def search_fast_links(self, delay_limit: float, number: int) -> bool:
        """Local search among the links that are fast enough; whether it found something better.

        Searches of different `number` draw different random numbers.
        """
        fast = fast_links(self._problem, delay_limit)
        moves = min(_FAST_MOVES_OF_AN_EDGE, _FAST_MOVES // self._edges)
        return self.accept(
            local_search(
                build_instance(self._problem, usable=fast),
                self._problem.pinned,
                seed=integer_seed(self._seed, "fast links", number),
                effort=Effort(runs=1, moves_per_edge=moves),
            )
        )

    def improve(self, columns: Columns, number: int, closed: Callable[[], bool]) -> None:
        """Choose again for a few edges at a time, until no neighbourhood gives anything better.

        It ends where `closed` says that nothing better is wanted.
        """
        if not self.feasible:
            return
        rng = generator(self._seed, "neighbourhoods", number)
        present, failures = self.columns, 0
        while failures < 2 * self._edges and not closed() and not self._threads.out_of_time:
            center = int(rng.integers(self._edges))
            edges = neighbours(
                self._overlap, center, int(rng.integers(_FEWEST_EDGES, _MOST_EDGES + 1)), rng
            )
            better = improve(self._instance, edges, columns, present, self.value, self._threads)
            failures += 1
            if better is not None and self.accept_columns(better):
                present, failures = better, 0

    def accept_columns(self, chosen: Columns) -> bool:
        """Keep a choice of clusters if it is the best so far; local search fixes edges without one."""
        instance = self._instance
        assignment = edge_of(instance, chosen, self._problem.pinned)
        unserved = np.setdiff1d(np.flatnonzero(instance.in_round), chosen.edge)
        if len(unserved) == 0:
            return self.accept(Found(assignment, 0.0, self._problem.objective(assignment)))
        effort = Effort(runs=1, start_temperature=0.1)
        focus = around(self._overlap, unserved)
        return self.accept(
            local_search(instance, assignment, seed=self._seed, effort=effort, focus=focus)
        )

    def accept(self, found: Found) -> bool:
        """Keep an assignment if it is better than the best so far."""
        if found.violation < _TOLERANCE:  # rounding
            found = Found(found.assignment, 0.0, self._problem.objective(found.assignment))
        if not found.better_than(self._best):
            return False
        self._best, self._columns = found, None
        if found.violation == 0:
            self.value = found.value
        return True
