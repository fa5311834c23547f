"""How hard annealing works on P1."""

from concurrent.futures import Executor
from dataclasses import replace

from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.search.decomposed import LARGEST_WHOLE, search_by_neighbourhoods
from stagewise.search.instance import Instance
from stagewise.search.local_search import Effort, Found, local_search

# Risk says nothing about where to go while an edge has too few clients: only a hot search leaves the
# empty start. What follows improves on it, across the borders of the pass before.
_HOT = Effort(
    runs=1,
    moves_per_edge=4_000,
    start_temperature=0.4,
    end_temperature=0.1,
    penalty=20.0,
    hardening=10.0,
    fix_runs=0,
)
_COLD = replace(
    _HOT, moves_per_edge=24_000, start_temperature=0.15, end_temperature=0.015, hardening=50.0
)
_COLDER = replace(_COLD, start_temperature=0.1, end_temperature=0.01)


def plan_effort(edges: int, runs: int) -> Effort:
    """Larger systems get fewer moves for each edge.

    Cooler than in a round: a hot search of P1 spends its time on risks it will not keep.
    """
    return Effort(
        runs=runs,
        moves_per_edge=max(8_000, 160_000 // edges),
        start_temperature=0.4,
        penalty=20.0,
    )


def search_plan(
    instance: Instance,
    *,
    seed: int,
    runs: int,
    seconds: float | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """The best solution found of P1: searched as a whole, a large system by neighbourhoods."""
    edges = len(instance.capacity)
    if edges <= LARGEST_WHOLE:
        effort = plan_effort(edges, runs)
        return local_search(instance, seed=seed, effort=effort, seconds=seconds, progress=progress)
    return search_by_neighbourhoods(
        instance,
        seed=seed,
        passes=(_HOT, _COLD, _COLDER),
        fixing=_HOT,
        seconds=seconds,
        executor=executor,
        progress=progress,
    )
