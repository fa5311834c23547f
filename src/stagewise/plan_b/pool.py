"""Plan B from a pool of clusters: look up, price, search the few that are left."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from stagewise.exact.prices import Prices
from stagewise.loading import load
from stagewise.plans import Plan
from stagewise.pool.dive import dive
from stagewise.pool.learning import build_library
from stagewise.pool.library import Library
from stagewise.pool.neighbours import neighbours
from stagewise.pool.pick import choose, pick_from_library, pick_on_the_spot
from stagewise.pool.pricing import Choices, renumbered
from stagewise.pool.round_clusters import each_once, online_columns
from stagewise.pool.sizes import FEW_EDGES, SOME_EDGES
from stagewise.pool.surcharge import surcharged
from stagewise.pool.unserved import serve_unserved
from stagewise.pool.windows import choose_together, improve_in_windows
from stagewise.problem.statement import Mode, Problem, p0, p2
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE
from stagewise.search.fast_links import shortened
from stagewise.search.instance import Instance, build_instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.state import new_state, start_from
from stagewise.warm_up import load_search, smallest_scenario
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import FloatArray, IntArray, Scenario

# A few milliseconds: it makes infeasible rounds less so, and hardly ever feasible.
_HARDER = Effort(runs=2, moves_per_edge=2_000, fix_moves_per_edge=4_000)


def pool(plan: Plan, round_: Round, mode: Mode, seconds: float | None = None) -> IntArray:
    """The round's assignment from the plan's library.

    In `strict` mode an edge's clusters must hold its online long-term clients: they are generated for
    the round, around these. `seconds` bounds the search where the clusters at hand do not suffice.
    Whether a round that stays infeasible is so is left to `Proven`.
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
    return searched_further(problem, instance, found, plan.seed, seconds, surcharge)


def searched_further(
    problem: Problem,
    instance: Instance,
    found: Found,
    seed: int,
    seconds: float | None,
    surcharge: FloatArray | None = None,
) -> IntArray:
    """The assignment of `found`, or a better one where a search within `seconds` may find it.

    That is where it breaks limits, and where delay is most of the cost and all may serve anywhere.
    """
    index = problem.round.index
    if found.violation > 0:
        harder = _search_harder(instance, found, integer_seed(seed, "pool", index), seconds)
        found = harder if harder.better_than(found) else found
    elif problem.pinned is None and len(instance.capacity) <= SOME_EDGES:
        with_surcharge = partial(surcharged, surcharge=surcharge)
        own_seed = integer_seed(seed, "delay", index)
        found = shortened(problem, instance, found, own_seed, with_surcharge, seconds)
    return found.assignment


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


def load_pool(library: Library) -> None:
    """Load or compile what picking from `library` needs, and find out what it needs to know."""
    load(load_search, load_clusters)
    if len(library.prices.delay) > FEW_EDGES:
        load(load_many_edges)
        _ = library.near


def load_clusters() -> None:
    """Load or compile how clusters are made, priced and chosen, on the smallest scenarios there are."""
    smallest = smallest_scenario()
    # Enough data for both edges, for one of them, for none: where limits are broken more is tried.
    for data_min in (5, 10, 100):
        scenario = replace(smallest, limits=replace(smallest.limits, data_min=data_min))
        round_ = everybody_online(scenario)
        library = build_library(scenario)
        instance = build_instance(p0(round_))
        columns, _ = online_columns(library, round_)
        choose(instance, each_once(instance, columns), library.prices)
        nobody = np.full(len(scenario.clients), UNASSIGNED, dtype=np.int64)
        serve_unserved(instance, nobody, [0], library.prices.delay)


def load_many_edges() -> None:
    """Load or compile how edges choose that are too many for a complete search, on two that want one."""
    choices = Choices(
        start=np.array([0, 1, 2]),
        members=np.zeros((2, 1), dtype=np.int32),
        cost=np.ones(2),
        delay=np.ones(2),
        delay_weight=1.0,
        unserved_cost=10.0,
    )
    choice = dive(*renumbered(choices, Prices(np.zeros(1), np.full(2, 0.5))))
    choose_together(choices, np.zeros(1))
    improve_in_windows(choices, choice, np.zeros(1), neighbours(2, np.arange(2), choices.members))


def library_of(plan: Plan) -> Library:
    """The plan's library; a plan that came without one gets it from its scenario."""
    return plan.library if plan.library is not None else library_for(plan.scenario)


@lru_cache(maxsize=2)
def library_for(scenario: Scenario) -> Library:
    """A library made for `scenario`, without a plan."""
    return build_library(scenario)
