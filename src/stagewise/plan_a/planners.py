"""Plan A by name: `paper` is Algs. 2 and 3; `local-search` anneals the same P1; `pool` is ours."""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from stagewise.errors import StagewiseError, shown
from stagewise.loading import load
from stagewise.plan_a.effort import search_plan
from stagewise.plan_a.recourse import plan_by_recourse
from stagewise.plan_b.pool import load_clusters
from stagewise.plans import Plan, make_plan
from stagewise.pool.learning import build_library
from stagewise.pool.library import Library
from stagewise.problem.risk import RiskName, risk_measure
from stagewise.problem.statement import Problem, p1
from stagewise.progress import ProgressCallback, ignore_progress, part_of
from stagewise.randomness import generator
from stagewise.search.association import Reading, reading_of
from stagewise.search.client_set import best_client_set
from stagewise.search.instance import build_instance
from stagewise.warm_up import load_association, load_search
from stagewise.world.checks import finite, instance_of, seed_number
from stagewise.world.scenario import IntArray, Scenario


class Planned(NamedTuple):
    """What a planner comes up with."""

    edge_of: IntArray
    library: Library | None = None


Planner = Callable[[Problem, int, float | None, Executor | None, ProgressCallback], Planned]

# The random sets that Alg. 3 starts from hold this many times the data that all edges need.
_START_COVERAGE = 4.0
# What each is compiled from, besides what evaluates its plan.
_PARTS = {"pool": (load_search, load_clusters), "paper": (load_search, load_association)}
_LIBRARY = 0.5  # of the time that a plan with one takes, about
_READING = Reading(penalty=20.0, starts=12)


def plan(
    scenario: Scenario,
    *,
    method: str = "pool",
    risk: RiskName = "exact",
    seed: int = 0,
    seconds: float | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Plan:
    """Plan A: choose the long-term clients of every edge by solving P1.

    A scenario without a plan inside its limits still gets the best one found, with `feasible` false
    and its violations.

    Parameters
    ----------
    scenario : Scenario
        The system.
    method : {"pool", "local-search", "paper"}
        `paper` is Algs. 2 and 3; `paper:back-tracking` in another reading (docs/model.md). `pool`
        chooses its assignment by what rounds cost after repair, and brings a library of clusters.
    risk : {"exact", "sampled", "markov"}
        The measure that stands for (11a) and (11b).
    seed : int
        Of every random draw.
    seconds : float, optional
        A limit on each search.
    executor : Executor, optional
        Where the parts of a large scenario are searched; by default on all processors. The plan is
        the same on any number of them.
    progress : function, optional
        Called now and then with the share of the work that is done.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.plan(scenario, method="local-search").edge_of.shape
    (30,)
    """
    instance_of("scenario", scenario, Scenario)
    planner = _planner(method)
    seed_number(seed)
    if seconds is not None:
        finite("seconds", seconds, 0, open_below=True)
    load(*_PARTS.get(method.partition(":")[0], (load_search,)))
    began = time.perf_counter()
    measure = risk_measure(scenario, risk, seed)
    edge_of, library = planner(p1(scenario, measure), seed, seconds, executor, progress)
    plan_ms = 1000 * (time.perf_counter() - began)
    made = make_plan(measure, edge_of, method=method, seed=seed, plan_ms=plan_ms)
    return replace(made, library=library)


def _planner(method: object) -> Planner:
    name, colon, reading = str(method).partition(":")
    if name == "paper" and colon:
        return partial(_plan_by_paper, reading=reading_of(reading))
    if name not in PLANNERS or colon:
        raise StagewiseError(f"method = {shown(method)}: must be one of {', '.join(PLANNERS)}")
    return PLANNERS[name]


def _plan_by_paper(
    problem: Problem,
    seed: int,
    seconds: float | None,
    executor: Executor | None,
    progress: ProgressCallback,
    reading: Reading = _READING,
) -> Planned:
    """GoCMinC2EA inside LILongClientD, from random sets of clients; one step at a time."""
    limits = problem.scenario.limits
    data = _START_COVERAGE * len(problem.scenario.edges) * (limits.data_min + limits.data_margin)
    rng = generator(seed, "long-term clients")
    found = best_client_set(
        build_instance(problem), rng, data, reading=reading, seconds=seconds, progress=progress
    )
    return Planned(found.assignment)


def _plan_by_local_search(
    problem: Problem,
    seed: int,
    seconds: float | None,
    executor: Executor | None,
    progress: ProgressCallback,
) -> Planned:
    """Annealing on the incremental kernel."""
    instance = build_instance(problem)
    found = search_plan(
        instance, seed=seed, runs=4, seconds=seconds, executor=executor, progress=progress
    )
    return Planned(found.assignment)


def _plan_by_pool(
    problem: Problem,
    seed: int,
    seconds: float | None,
    executor: Executor | None,
    progress: ProgressCallback,
) -> Planned:
    """A library of clusters, and an assignment chosen by what its rounds cost after repair."""
    library = build_library(
        problem.scenario, seed, executor=executor, progress=part_of(progress, 0.0, _LIBRARY)
    )
    progress(_LIBRARY)
    choosing = part_of(progress, _LIBRARY, 1.0)
    chosen = plan_by_recourse(problem, library, seed, seconds, executor, choosing)
    return Planned(chosen, library)


PLANNERS: dict[str, Planner] = {
    "paper": _plan_by_paper,
    "local-search": _plan_by_local_search,
    "pool": _plan_by_pool,
}
