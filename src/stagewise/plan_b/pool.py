"""Plan B from a pool of clusters: look up, price, search the few that are left."""

from functools import cache, lru_cache

import numpy as np

from stagewise.plan_b.repair import repair
from stagewise.plans import Plan
from stagewise.pool.library import Library, build_library, even_prices
from stagewise.pool.pick import pick_from_library, pick_on_the_spot
from stagewise.problem.statement import Mode, p0, p2
from stagewise.search.instance import build_instance
from stagewise.warm_up import smallest_scenario
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario


def pool(plan: Plan, round_: Round, index: int, mode: Mode) -> IntArray:
    """The round's assignment; where the clusters at hand admit no choice, by `repair`.

    `flexible` picks from the library. In `strict` mode an edge's clusters must hold its online
    long-term clients: they are generated for the round, from these clients on.
    """
    problem = p2(round_, plan.edge_of, mode)
    instance = build_instance(problem)
    if mode == "flexible":
        found = pick_from_library(instance, library_of(plan), round_)
    else:
        found = pick_on_the_spot(instance, even_prices(plan.scenario))
        if found is not None and problem.pinned is not None:
            found = np.where(problem.pinned != UNASSIGNED, problem.pinned, found)
    return repair(plan, round_, index, mode) if found is None else found


@cache
def load_pool() -> None:
    """Load or compile what picking needs, on the smallest scenario there is."""
    scenario = smallest_scenario()
    round_ = Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))
    pick_from_library(build_instance(p0(round_)), build_library(scenario, 10), round_)


def library_of(plan: Plan) -> Library:
    """The plan's library; a plan that came without one gets it from its scenario."""
    return plan.library if plan.library is not None else _library(plan.scenario)


@lru_cache(maxsize=2)
def _library(scenario: Scenario) -> Library:
    return build_library(scenario)
