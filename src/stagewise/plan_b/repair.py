"""Repair: change the plan for a round directly, by local search around who is left of it."""

from typing import Any

import numpy as np

from stagewise.plans import Plan
from stagewise.problem.statement import Mode, p2, still_there
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE, search_by_neighbourhoods
from stagewise.search.instance import MUST_SERVE, Instance, build_instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.state import State, new_state, start_from
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray

_STRICT = Effort(runs=1, moves_per_edge=4_000)
_FLEXIBLE = Effort(runs=2, moves_per_edge=8_000)

# Where neighbourhoods are searched: colder, for the plan is a good start and there is no time to find
# the way back to it.
_LARGE = Effort(
    runs=1,
    moves_per_edge=5_000,
    start_temperature=0.06,
    end_temperature=0.01,
    penalty=20.0,
    hardening=30.0,
    fix_runs=0,
)
_FIXING = Effort(runs=2, moves_per_edge=20_000, fix_runs=0)


def repair(plan: Plan, round_: Round, mode: Mode, seconds: float | None = None) -> IntArray:
    """The round's assignment: the plan's online clients, with stand-ins where an edge needs them.

    In `strict` mode an edge whose remaining clients suffice is left as it is, since one client more
    only adds cost; the search works at the others. In `flexible` mode it works at all of them.
    `seconds`, where given, is how long it goes on.
    """
    instance = build_instance(p2(round_, plan.edge_of, mode))
    present = still_there(round_, plan.edge_of)
    state = new_state(instance)
    start_from(instance, state, present)
    focus = np.flatnonzero(state.violation > 0)
    if mode == "flexible":
        focus = np.flatnonzero(round_.edges_up)
    if len(focus) == 0:
        return present
    effort = _STRICT if mode == "strict" else _FLEXIBLE
    seed = integer_seed(plan.seed, "repair", round_.index)
    return _search(
        instance, present, seed, effort, seconds=seconds, focus=focus, state=state
    ).assignment


def repair_by_lending(plan: Plan, round_: Round) -> IntArray:
    """Repair where a long-term client must still serve, but at whichever edge needs it."""
    instance = build_instance(p2(round_, plan.edge_of), pinned=MUST_SERVE)
    seed = integer_seed(plan.seed, "lend", round_.index)
    return _search(instance, still_there(round_, plan.edge_of), seed, _FLEXIBLE).assignment


def _search(
    instance: Instance,
    present: IntArray,
    seed: int,
    effort: Effort,
    *,
    seconds: float | None = None,
    focus: IntArray | None = None,
    state: State | None = None,
) -> Found:
    """From who is left of the plan, as a whole or, in a large system, by neighbourhoods."""
    options: dict[str, Any] = {"seed": seed, "seconds": seconds, "focus": focus}
    if len(instance.capacity) > LARGEST_WHOLE:
        return search_by_neighbourhoods(
            instance, present, passes=[_LARGE], fixing=_FIXING, **options
        )
    return local_search(instance, present, effort=effort, state=state, **options)
