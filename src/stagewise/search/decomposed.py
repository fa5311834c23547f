"""Search of large systems: neighbourhood by neighbourhood, side by side, with borders that move."""

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future

import numpy as np

from stagewise.cores import available_cores
from stagewise.progress import ProgressCallback, ignore_progress
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
    fixing: Effort | None = None,
    seconds: float | None = None,
    focus: IntArray | None = None,
    executor: Executor | None = None,
    largest_block: int = LARGEST_BLOCK,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """The best assignment found from `start` (default: nobody serves) in as many passes as efforts.

    Every pass cuts the system into blocks along other borders, searches each by itself from the best
    assignment so far, and puts the parts together. A block knows the delay and the continuity of what
    serves outside it. After a pass `fixing` is the effort of another at the edges in violation alone.
    `focus` names the edges to work at. With `seconds` each pass is shortened to its share of that
    time, and they go on, the last one again and again, until it is over.

    The blocks are submitted to `executor` (default: a thread for each processor); what is submitted
    can be pickled and needs nothing else. The result does not depend on the number of workers.
    """
    began = time.perf_counter()
    start = unassigned(len(instance.lock)) if start is None else start
    everywhere = np.flatnonzero(instance.in_round) if focus is None else focus
    with workers(executor) as pool:
        search = _Search(instance, start, pool, largest_block)
        number = 0
        while _goes_on(number, len(passes), seconds, began):
            effort = passes[min(number, len(passes) - 1)]
            left = _left(seconds, began)
            share = None if left is None else left / max(1, len(passes) - number)
            search.run_pass(everywhere, effort, integer_seed(seed, "pass", number), share)
            left = _left(seconds, began)
            if fixing is not None and search.best.violation > 0 and (left is None or left > 0):
                broken = np.intersect1d(everywhere, search.edges_in_violation())
                search.run_pass(broken, fixing, integer_seed(seed, "mending", number), left)
            number += 1
            progress(min(1.0, number / len(passes)))
    return search.best


def search_block(
    instance: Instance,
    start: IntArray,
    seed: int,
    effort: Effort,
    focus: IntArray,
    seconds: float | None = None,
) -> IntArray:
    """What is submitted to a worker: the best assignment of one block."""
    found = local_search(
        instance, start, seed=seed, effort=effort, seconds=seconds, repeat=False, focus=focus
    )
    return found.assignment


class _Search:
    """The best assignment so far, and how a pass may better it."""

    def __init__(
        self, instance: Instance, start: IntArray, executor: Executor, largest_block: int
    ) -> None:
        self.instance = instance
        self.executor = executor
        self.largest_block = largest_block
        self.state = new_state(instance)
        self.best = self._evaluated(start)

    def edges_in_violation(self) -> IntArray:
        start_from(self.instance, self.state, self.best.assignment)
        return np.flatnonzero(self.state.violation > 0)

    def run_pass(
        self, focus: IntArray, effort: Effort, seed: int, seconds: float | None = None
    ) -> None:
        """One pass at the edges of `focus`, kept if it is better; `seconds` for all of it."""
        block_of = neighbourhoods(self.instance, self.largest_block, generator(seed, "borders"))
        merged = self.best.assignment.copy()
        for block, future in self._submit_blocks(block_of, focus, effort, seed, seconds):
            block.put_into(merged, future.result())
        found = self._evaluated(merged)
        if found.better_than(self.best):
            self.best = found

    def _submit_blocks(
        self,
        block_of: IntArray,
        focus: IntArray,
        effort: Effort,
        seed: int,
        seconds: float | None,
    ) -> list[tuple[Block, Future[IntArray]]]:
        """Every block with an edge in focus, under way."""
        start_from(self.instance, self.state, self.best.assignment)
        in_focus = np.zeros(len(block_of), dtype=np.bool_)
        in_focus[focus] = True
        submitted = []
        if seconds is not None:
            blocks = int(block_of.max(initial=0)) + 1
            seconds = seconds * min(1.0, available_cores() / blocks)
        for number, block in enumerate(cut_into_blocks(self.instance, self.state, block_of)):
            own_focus = np.flatnonzero(in_focus[block.edges])
            if len(own_focus):
                start = block.part_of(self.best.assignment)
                own_seed = integer_seed(seed, "block", number)
                task = (block.instance, start, own_seed, effort, own_focus, seconds)
                submitted.append((block, self.executor.submit(search_block, *task)))
        return submitted

    def _evaluated(self, assignment: IntArray) -> Found:
        """An assignment with its violation and value, from the whole instance."""
        start_from(self.instance, self.state, assignment)
        violation = float(self.state.totals[VIOLATION])
        if violation < _FEASIBLE:
            violation = 0.0
        return Found(assignment, violation, value(self.instance, self.state))


def _left(seconds: float | None, began: float) -> float | None:
    return None if seconds is None else max(0.0, seconds - (time.perf_counter() - began))


def _goes_on(number: int, passes: int, seconds: float | None, began: float) -> bool:
    if seconds is None or number == 0:
        return number < passes
    return time.perf_counter() - began < seconds
