"""Plan B from a pool of clusters: look up, price, search the few that are left."""

import time
from functools import cache, lru_cache

import numpy as np

from stagewise.exact.solver import solve_exactly
from stagewise.plans import Plan
from stagewise.pool.learning import build_library
from stagewise.pool.library import Library
from stagewise.pool.pick import pick_from_library, pick_on_the_spot
from stagewise.pool.surcharge import surcharged
from stagewise.problem.statement import Mode, Problem, p0, p2
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE
from stagewise.search.instance import Instance, build_instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.state import new_state, start_from
from stagewise.warm_up import smallest_scenario
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import IntArray, Scenario

_HARDER = Effort(runs=2, moves_per_edge=8_000)
_PROVABLE_EDGES = 12
_PROOF_SECONDS = 2.0


def pool(plan: Plan, round_: Round, mode: Mode, seconds: float | None = None) -> IntArray:
    """The round's assignment from the plan's library; infeasible only after a try at a proof.

    In `strict` mode an edge's clusters must hold its online long-term clients: they are generated for
    the round, around these. `seconds` bounds the proof that a round is infeasible.
    """
    began = time.perf_counter()
    found = pick_round(plan, round_, mode, seconds)
    if found.violation > 0 and len(plan.scenario.edges) <= _PROVABLE_EDGES:
        left = _PROOF_SECONDS
        if seconds is not None:
            left = min(left, seconds - (time.perf_counter() - began))
        if left > 0:
            found = _with_proof(p2(round_, plan.edge_of, mode), found, left)
    return found.assignment


def pick_round(plan: Plan, round_: Round, mode: Mode, seconds: float | None = None) -> Found:
    """The round's assignment from the plan's library.

    `seconds` bounds the search where the clusters at hand do not suffice.
    """
    problem = p2(round_, plan.edge_of, mode)
    library = library_of(plan)
    instance = build_instance(problem)
    surcharge = None
    if round_.surcharge is not None:
        surcharge = instance.price_scale * round_.surcharge
        instance = surcharged(instance, surcharge)
    if problem.pinned is None:
        found = pick_from_library(instance, library, round_, surcharge)
    else:
        found = pick_on_the_spot(instance, library, round_, problem.pinned)
    if found.violation > 0:
        seed = integer_seed(plan.seed, "pool", round_.index)
        harder = _search_harder(instance, found, seed, seconds)
        found = harder if harder.better_than(found) else found
    return found


def _search_harder(instance: Instance, found: Found, seed: int, seconds: float | None) -> Found:
    """Local search from `found`; in a large system only at the edges that are in violation."""
    focus = None
    if len(instance.capacity) > LARGEST_WHOLE:
        state = new_state(instance)
        start_from(instance, state, found.assignment)
        focus = np.flatnonzero(state.violation > 0)
    return local_search(
        instance,
        found.assignment,
        seed=seed,
        effort=_HARDER,
        seconds=seconds,
        repeat=False,
        focus=focus,
    )


def _with_proof(problem: Problem, found: Found, seconds: float) -> Found:
    """What `exact` finds in a short time: an infeasible answer must not be for want of searching."""
    proven = solve_exactly(problem, seconds=seconds)
    return Found(proven.assignment, 0.0, proven.value) if np.isfinite(proven.value) else found


@cache
def load_pool() -> None:
    """Load or compile what picking needs, on the smallest scenario there is."""
    scenario = smallest_scenario()
    round_ = everybody_online(scenario)
    pick_from_library(build_instance(p0(round_)), build_library(scenario), round_)


def library_of(plan: Plan) -> Library:
    """The plan's library; a plan that came without one gets it from its scenario."""
    return plan.library if plan.library is not None else _library(plan.scenario)


@lru_cache(maxsize=2)
def _library(scenario: Scenario) -> Library:
    return build_library(scenario)
