"""Leaving surplus clients out of a feasible round."""

import numpy as np

from stagewise.compiled import NONE
from stagewise.problem.statement import Problem
from stagewise.search.instance import build_instance
from stagewise.search.state import change_edge, new_state, start_from, violation_after
from stagewise.search.value import value, value_after
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import IntArray

_ROUNDING = 1e-12  # a violation this much larger is the same


def leave_out_surplus(problem: Problem, assignment: IntArray) -> IntArray:
    """Remove, one by one, the client whose leaving saves most and breaks nothing more."""
    instance = build_instance(problem)
    state = new_state(instance)
    start_from(instance, state, assignment)
    while True:
        best_value, best_client = value(instance, state), NONE
        for client in np.flatnonzero(state.edge_of != UNASSIGNED).tolist():
            edge = int(state.edge_of[client])
            more = violation_after(instance, state, edge, client, NONE) - state.violation[edge]
            if more > _ROUNDING:
                continue
            after = value_after(instance, state, edge, client, NONE, NONE, NONE, NONE)
            if after < best_value:
                best_value, best_client = after, client
        if best_client == NONE:
            return np.asarray(state.edge_of)
        change_edge(instance, state, int(state.edge_of[best_client]), best_client, NONE)
