"""Local search: annealing runs from a given or an empty start, the best of them kept."""

import time
from dataclasses import dataclass

import numpy as np

from stagewise.compiled import writable
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.randomness import integer_seed
from stagewise.search.annealing import anneal
from stagewise.search.instance import Instance, unassigned
from stagewise.search.random_bits import bits_from
from stagewise.search.state import State, new_state, start_from
from stagewise.world.scenario import IntArray

_TRIAL = 200  # moves for an edge of the run that tells how fast a search is


@dataclass(frozen=True)
class Effort:
    """How hard to search. Temperatures and penalty are in units of what one client costs."""

    runs: int = 4
    moves_per_edge: int = 40_000
    start_temperature: float = 1.0
    end_temperature: float = 0.03
    penalty: float = 50.0
    hardening: float = 1.0
    """How many times the penalty a violation costs at the end of a run."""
    fix_runs: int = 2
    """Further runs, at the edges alone that the runs before have left in violation."""
    fix_moves_per_edge: int = 20_000


@dataclass(frozen=True, eq=False)
class Found:
    """The best assignment of a search; less violation always comes before less value."""

    assignment: IntArray
    violation: float
    value: float

    def better_than(self, other: "Found | None") -> bool:
        return other is None or (self.violation, self.value) < (other.violation, other.value)


def local_search(
    instance: Instance,
    start: IntArray | None = None,
    *,
    seed: int = 0,
    effort: Effort | None = None,
    seconds: float | None = None,
    repeat: bool = True,
    focus: IntArray | None = None,
    state: State | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """The best assignment that annealing runs find from `start` (default: nobody serves).

    Clients that are pinned keep the place they have in `start`. `focus` names the edges to work at.
    There are `effort.runs` runs. With `seconds` they are shortened to what fits in that time, by
    the speed of a short one before them, and go on until it is over if `repeat` is true. The result
    depends on the seed alone unless `seconds` is given.
    """
    effort = effort or Effort()
    began = time.perf_counter()
    start = unassigned(len(instance.lock)) if start is None else start
    state = new_state(instance) if state is None else state
    if focus is None:
        focus = np.flatnonzero(instance.in_round)
    focus = writable(focus)
    shortest = effort.moves_per_edge if seconds is None else min(_TRIAL, effort.moves_per_edge)
    best = _run(instance, state, start, focus, shortest, effort, integer_seed(seed, "run", 0))
    done, run = shortest, 1

    def affordable(moves: int) -> int:
        """As many moves for an edge as there is time for, at the speed so far."""
        if seconds is None:
            return moves
        spent = time.perf_counter() - began
        return min(moves, int(done * (seconds - spent) / spent))

    # A trial run is none of those asked for.
    runs = effort.runs if seconds is None else effort.runs + 1
    while run < runs or (seconds is not None and repeat):
        moves = affordable(effort.moves_per_edge)
        if moves < shortest:
            break
        found = _run(instance, state, start, focus, moves, effort, integer_seed(seed, "run", run))
        if found.better_than(best):
            best = found
        done, run = done + moves, run + 1
        spent = time.perf_counter() - began
        progress(run / runs if seconds is None else min(1.0, spent / seconds))
    for number in range(effort.fix_runs):
        if best.violation == 0:
            break
        start_from(instance, state, best.assignment)
        broken = np.intersect1d(focus, np.flatnonzero(state.violation > 0))
        if len(broken) == 0:
            break
        moves = affordable(effort.fix_moves_per_edge)
        if moves <= 0:
            break
        run_seed = integer_seed(seed, "mending", number)
        found = _run(instance, state, best.assignment, broken, moves, effort, run_seed)
        if found.better_than(best):
            best = found
    return best


def _run(
    instance: Instance,
    state: State,
    start: IntArray,
    focus: IntArray,
    moves_per_edge: int,
    effort: Effort,
    seed: int,
) -> Found:
    """One annealing run from `start`."""
    scale = instance.price_scale if instance.price_scale > 0 else 1.0
    start_from(instance, state, start)
    result = unassigned(len(instance.lock))
    violation, value, _ = anneal(
        instance,
        state,
        focus,
        moves_per_edge * len(focus),
        effort.start_temperature * scale,
        effort.end_temperature * scale,
        effort.penalty * scale,
        effort.hardening,
        bits_from(seed),
        result,
        np.empty(len(instance.lock), dtype=np.int64),
    )
    return Found(result, violation, value)
