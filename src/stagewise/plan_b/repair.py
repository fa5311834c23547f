"""Repair: mend the plan for a round directly, by local search around who is left of it."""

import numpy as np

from stagewise.plans import Plan
from stagewise.problem.statement import Mode, p2
from stagewise.randomness import integer_seed
from stagewise.search.instance import MUST_SERVE, build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.search.state import new_state, start_from
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray

_STRICT = Effort(runs=1, moves_per_edge=4_000)
_FLEXIBLE = Effort(runs=2, moves_per_edge=8_000)


def repair(plan: Plan, round_: Round, index: int, mode: Mode) -> IntArray:
    """The round's assignment: the plan's online clients, with stand-ins where an edge needs them.

    In `strict` mode an edge whose remaining clients suffice is left as it is, since one client more
    only adds cost; the search works at the others. In `flexible` mode it works at all of them.
    """
    instance = build_instance(p2(round_, plan.edge_of, mode))
    present = np.where(round_.online, plan.edge_of, UNASSIGNED)
    state = new_state(instance)
    start_from(instance, state, present)
    focus = np.flatnonzero(state.violation > 0)
    if mode == "flexible":
        focus = np.arange(len(plan.scenario.edges))
    if len(focus) == 0:
        return present
    seed = integer_seed(plan.seed, "repair", index)
    effort = _STRICT if mode == "strict" else _FLEXIBLE
    found = local_search(instance, present, seed=seed, effort=effort, focus=focus, state=state)
    return found.assignment


def repair_by_lending(plan: Plan, round_: Round, index: int) -> IntArray:
    """Repair where a long-term client must still serve, but at whichever edge needs it."""
    instance = build_instance(p2(round_, plan.edge_of), pinned=MUST_SERVE)
    present = np.where(round_.online, plan.edge_of, UNASSIGNED)
    seed = integer_seed(plan.seed, "lend", index)
    return local_search(instance, present, seed=seed, effort=_FLEXIBLE).assignment
