"""Alg. 2, GoCMinC2EA: associate a given set of clients with edges, greedily, then by back-tracking."""

from typing import NamedTuple

import numpy as np

from stagewise.compiled import NONE, compiled
from stagewise.search.instance import Instance
from stagewise.search.state import VIOLATION, change_edge, clear, refresh_totals, room_of
from stagewise.search.value import value, value_after
from stagewise.world.scenario import IntArray

_FEASIBLE = 1e-12


class Workspace(NamedTuple):
    """Room for one association; nothing in it outlives a call."""

    waiting: IntArray
    """The clients still to be associated."""
    order: IntArray
    """The clients with a choice of edges, in the order in which the greedy took them."""
    choice: IntArray
    """The link each of them has now."""
    tried: IntArray
    """How many links each of them has tried since the one before it changed."""
    best: IntArray
    """The best association found: an edge for each client, or -1."""


def new_workspace(instance: Instance) -> Workspace:
    clients = len(instance.lock)
    waiting, order, choice, tried, best = np.zeros((5, clients), dtype=np.int64)
    return Workspace(waiting, order, choice, tried, best)


@compiled
def associate(instance, state, selected, count, nodes, work):
    """Associate `selected[:count]` with edges (Alg. 2); `work.best` receives the association.

    Back-tracking takes at most `nodes` steps after the greedy association. Returns
    (violation, value) of the first feasible association, or of the least violating one met. A client
    that finds every edge full makes the set infeasible: the violation is then infinite.
    """
    clear(instance, state)
    if not _associate_without_choice(instance, state, selected, count, work):
        return np.inf, np.inf
    chosen = work.tried[0]
    depth = _associate_greedily(instance, state, work)  # clients order[:depth] have an edge
    violation, best_value = np.inf, np.inf
    if depth == chosen:
        refresh_totals(state)
        violation, best_value = _settled(state), value(instance, state)
        _keep(state, work)
    for _ in range(nodes):
        if violation == 0.0 or depth == 0:
            break
        # Reverse order: the last client tries its other edges first, then the one before it.
        depth -= 1
        if not _next_choice(instance, state, work, depth):
            continue
        depth += 1
        while depth < chosen:  # those after it start again from their first edge
            work.tried[depth] = 0
            if not _next_choice(instance, state, work, depth):
                break
            depth += 1
        if depth < chosen:
            continue
        refresh_totals(state)
        now = _settled(state)
        if now < violation:
            violation, best_value = now, value(instance, state)
            _keep(state, work)
    return violation, best_value


@compiled
def _settled(state):
    """The present violation, with rounding taken off."""
    return state.totals[VIOLATION] if state.totals[VIOLATION] > _FEASIBLE else 0.0


@compiled
def _keep(state, work):
    for client in range(work.best.shape[0]):
        work.best[client] = state.edge_of[client]


@compiled
def _associate_without_choice(instance, state, selected, count, work):
    """Lines 2-3: clients covered by one edge go there. False where an edge would overflow."""
    waiting = 0
    for s in range(count):
        client = selected[s]
        first, last = instance.link_start[client], instance.link_start[client + 1]
        if last - first > 1:
            work.waiting[waiting] = client
            waiting += 1
        elif last - first == 0:
            return False
        else:
            j = instance.link_edge[first]
            if state.member_count[j] >= room_of(state, j):
                return False
            change_edge(instance, state, j, NONE, first)
    work.tried[0] = waiting
    return True


@compiled
def _associate_greedily(instance, state, work):
    """Lines 5-10: the client and edge with the smallest change of the objective, again and again.

    Returns how many clients have got an edge; those that found every edge full come last in the
    order, and back-tracking starts from there.
    """
    waiting = work.tried[0]
    total = waiting
    placed = 0
    while waiting > 0:
        best_change = np.inf
        best_place = NONE
        best_link = NONE
        for w in range(waiting):
            client = work.waiting[w]
            for link in range(instance.link_start[client], instance.link_start[client + 1]):
                j = instance.link_edge[link]
                if state.member_count[j] < room_of(state, j):
                    change = value_after(instance, state, j, NONE, link, NONE, NONE, NONE)
                    if change < best_change:
                        best_change, best_place, best_link = change, w, link
        if best_place == NONE:
            break
        client = work.waiting[best_place]
        change_edge(instance, state, instance.link_edge[best_link], NONE, best_link)
        work.order[placed] = client
        work.choice[placed] = best_link
        placed += 1
        waiting -= 1
        work.waiting[best_place] = work.waiting[waiting]
    for w in range(waiting):
        work.order[placed + w] = work.waiting[w]
        work.choice[placed + w] = instance.link_start[work.waiting[w]]
    for k in range(total):
        work.tried[k] = 1
    return placed


@compiled
def _next_choice(instance, state, work, k):
    """Give the k-th client its next edge with room; False, and no edge, when all have been tried.

    The order is cyclic from the greedy's own choice, so every edge comes up once.
    """
    client = work.order[k]
    first, last = instance.link_start[client], instance.link_start[client + 1]
    if state.edge_of[client] != NONE:
        change_edge(instance, state, state.edge_of[client], client, NONE)
    while work.tried[k] < last - first:
        link = first + (work.choice[k] - first + work.tried[k]) % (last - first)
        work.tried[k] += 1
        j = instance.link_edge[link]
        if state.member_count[j] < room_of(state, j):
            change_edge(instance, state, j, NONE, link)
            return True
    return False
