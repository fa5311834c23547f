"""Search of large systems: neighbourhood by neighbourhood, side by side, with borders that move."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future

import numpy as np

from stagewise.randomness import generator, integer_seed
from stagewise.search.blocks import Block, cut_into_blocks
from stagewise.search.instance import Instance, unassigned
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.neighbourhoods import neighbourhoods
from stagewise.search.state import VIOLATION, new_state, start_from
from stagewise.search.value import value
from stagewise.search.workers import workers
from stagewise.world.scenario import IntArray

LARGEST_WHOLE = 50
"""Systems with more edges are better searched by neighbourhoods."""

LARGEST_BLOCK = 48
"""Edges of a block: few enough for a processor's cache, enough for most to lie off its border."""

_FEASIBLE = 1e-12  # a total violation this small is rounding


def search_by_neighbourhoods(
    instance: Instance,
    start: IntArray | None = None,
    *,
    seed: int = 0,
    passes: Sequence[Effort],
    mending: Effort | None = None,
    seconds: float | None = None,
    focus: IntArray | None = None,
    executor: Executor | None = None,
    largest_block: int = LARGEST_BLOCK,
) -> Found:
    """The best assignment found from `start` (default: nobody serves) in as many passes as efforts.

    Every pass cuts the system into blocks along other borders, searches each by itself from the best
    assignment so far, and puts the parts together. A block knows the delay and the continuity of what
    serves outside it. After a pass `mending` is the effort of another at the edges in violation alone.
    `focus` names the edges to work at. With `seconds` the passes go on, the last one again and again,
    until the time is over, one at the least.

    The blocks are handed to `executor` (default: a thread for each processor); what is handed over
    can be pickled and needs nothing else. The result does not depend on the number of workers.
    """
    began = time.perf_counter()
    start = unassigned(len(instance.lock)) if start is None else start
    everywhere = np.arange(len(instance.capacity)) if focus is None else focus
    with workers(executor) as crew:
        search = _Search(instance, start, crew, largest_block)
        number = 0
        while _goes_on(number, len(passes), seconds, began):
            effort = passes[min(number, len(passes) - 1)]
            search.go_through(everywhere, effort, integer_seed(seed, "pass", number))
            if mending is not None and search.best.violation > 0:
                broken = np.intersect1d(everywhere, search.edges_in_violation())
                search.go_through(broken, mending, integer_seed(seed, "mending", number))
            number += 1
    return search.best


def search_block(
    instance: Instance, start: IntArray, seed: int, effort: Effort, focus: IntArray
) -> IntArray:
    """What is handed to a worker: the best assignment of one block."""
    return local_search(instance, start, seed=seed, effort=effort, focus=focus).assignment


class _Search:
    """The best assignment so far, and how a pass may better it."""

    def __init__(
        self, instance: Instance, start: IntArray, crew: Executor, largest_block: int
    ) -> None:
        self.instance = instance
        self.crew = crew
        self.largest_block = largest_block
        self.state = new_state(instance)
        self.best = self._evaluated(start)

    def edges_in_violation(self) -> IntArray:
        start_from(self.instance, self.state, self.best.assignment)
        return np.flatnonzero(self.state.violation > 0)

    def go_through(self, focus: IntArray, effort: Effort, seed: int) -> None:
        """One pass at the edges of `focus`, kept if it is better."""
        block_of = neighbourhoods(self.instance, self.largest_block, generator(seed, "borders"))
        merged = self.best.assignment.copy()
        for block, future in self._hand_over(block_of, focus, effort, seed):
            block.put_into(merged, future.result())
        found = self._evaluated(merged)
        if found.better_than(self.best):
            self.best = found

    def _hand_over(
        self, block_of: IntArray, focus: IntArray, effort: Effort, seed: int
    ) -> list[tuple[Block, Future[IntArray]]]:
        """Every block with an edge in focus, under way."""
        start_from(self.instance, self.state, self.best.assignment)
        in_focus = np.zeros(len(block_of), dtype=np.bool_)
        in_focus[focus] = True
        handed = []
        for number, block in enumerate(cut_into_blocks(self.instance, self.state, block_of)):
            own_focus = np.flatnonzero(in_focus[block.edges])
            if len(own_focus):
                start = block.part_of(self.best.assignment)
                own_seed = integer_seed(seed, "block", number)
                task = (block.instance, start, own_seed, effort, own_focus)
                handed.append((block, self.crew.submit(search_block, *task)))
        return handed

    def _evaluated(self, assignment: IntArray) -> Found:
        """An assignment with its violation and value, from the whole instance."""
        start_from(self.instance, self.state, assignment)
        violation = float(self.state.totals[VIOLATION])
        if violation < _FEASIBLE:
            violation = 0.0
        return Found(assignment, violation, value(self.instance, self.state))


def _goes_on(number: int, passes: int, seconds: float | None, began: float) -> bool:
    if seconds is None or number == 0:
        return number < passes
    return time.perf_counter() - began < seconds
