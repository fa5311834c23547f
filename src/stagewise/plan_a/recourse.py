"""The assignment of a pool plan: the cheapest after repair among plans within the risk limits."""

from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from stagewise.plan_a.effort import plan_effort, search_plan
from stagewise.plan_b.pool import pool
from stagewise.plans import Plan, make_plan
from stagewise.pool.learning import sampled_rounds
from stagewise.pool.library import Library
from stagewise.problem.evaluation import evaluate
from stagewise.problem.statement import Problem
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Found, local_search
from stagewise.search.workers import workers
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray

_SEARCHES = 16
_TRIALS = 4  # where none of these keeps the risk limits, further searches are spared
_CANDIDATES = 6  # the best of the searches
_ROUNDS = 16
# What a sampled round that stays infeasible counts, in units of its cost.
_INFEASIBLE = 3.0
_SEARCHING = 0.9  # of the time, about


def plan_by_recourse(
    problem: Problem,
    library: Library,
    seed: int,
    seconds: float | None,
    executor: Executor | None,
    progress: ProgressCallback = ignore_progress,
) -> IntArray:
    """Of several solutions of P1 the one whose rounds cost least once Plan B has repaired them.

    P1 charges a plan as if everybody were online; the redundancy it buys for bad rounds is paid for
    in good ones. So the candidates are tried, in `strict` mode, on the same sampled rounds. A large
    system, whose rounds average out within each of them, gets one candidate.
    """
    assert problem.risk is not None
    instance = build_instance(problem)
    edges = len(problem.scenario.edges)
    if edges > LARGEST_WHOLE:
        return search_plan(
            instance, seed=seed, runs=1, seconds=seconds, executor=executor, progress=progress
        ).assignment
    rounds = sampled_rounds(problem.scenario, integer_seed(seed, "recourse", 0), _ROUNDS)
    effort = plan_effort(edges, runs=1)
    with workers(executor) as pool_of_workers:

        def search_all(numbers: range) -> list[Found]:
            searches = [
                pool_of_workers.submit(
                    local_search,
                    instance,
                    seed=integer_seed(seed, "candidate", number),
                    effort=effort,
                    seconds=seconds,
                )
                for number in numbers
            ]
            found = []
            for number, search in zip(numbers, searches, strict=True):
                found.append(search.result())
                progress(_SEARCHING * (number + 1) / _SEARCHES)
            return found

        found_all = search_all(range(_TRIALS))
        if any(found.violation == 0 for found in found_all):
            found_all += search_all(range(_TRIALS, _SEARCHES))
    found_all.sort(key=lambda found: (found.violation, found.value))
    best = found_all[:_CANDIDATES]
    candidates = [found for found in best if found.violation == best[0].violation]
    costs = []
    for number, found in enumerate(candidates):
        progress(_SEARCHING + (1 - _SEARCHING) * number / len(candidates))
        made = make_plan(problem.risk, found.assignment, method="pool", seed=seed, plan_ms=0.0)
        plan = replace(made, library=library)
        costs.append(np.mean([_after_repair(plan, round_) for round_ in rounds]))
    return candidates[int(np.argmin(costs))].assignment


def _after_repair(plan: Plan, round_: Round) -> float:
    """What a round costs under `plan`, more if it stays infeasible."""
    figures = evaluate(round_, pool(plan, round_, "strict"))
    return (_INFEASIBLE if figures.failing.any() else 1.0) * figures.cost
