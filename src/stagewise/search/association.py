"""Alg. 2, GoCMinC2EA: associate a given set of clients with edges, greedily, then by changes.

The text leaves open how a greedy association that breaks a limit is changed; `Reading` has the ways it
can be read, which docs/model.md compares.
"""

from typing import NamedTuple

import numpy as np

from stagewise.compiled import NONE, compiled, inlined
from stagewise.errors import StagewiseError, shown
from stagewise.search.instance import NO_RISK, Instance
from stagewise.search.state import (
    VIOLATION,
    State,
    change_edge,
    clear,
    find_link,
    kld_after,
    limit_violation,
    new_state,
    refresh_totals,
    room_of,
    violation_after,
)
from stagewise.search.value import value, value_after
from stagewise.world.scenario import BoolArray, IntArray

# What follows the greedy association.
BACK_TRACKING, MARKED_PAIRS, RE_ASSOCIATION = 0, 1, 2

_FEASIBLE = 1e-12


class Reading(NamedTuple):
    """How Algs. 2 and 3 are read where their text is open."""

    retry: int = RE_ASSOCIATION
    """BACK_TRACKING: reverse order through the tree of all associations. MARKED_PAIRS: the last client
    that has another edge may not go there again, and the greedy runs once more. RE_ASSOCIATION:
    clients one by one in reverse order move to the edge that leaves least violation, then least
    cost."""
    penalty: float = 50.0
    """What a unit of violation weighs in the greedy's step ("feasible variations"), in units of what a
    client costs; 0 is cost alone."""
    steps: int = 50
    """How many steps of back-tracking, runs of the greedy or passes over the clients follow."""
    keeps: bool = True
    """Whether the clients that a change of Alg. 3 leaves in the set begin at the edges they have, so
    that the greedy associates the new one alone; otherwise every association begins from nothing."""
    starts: int = 6
    """From how many random sets Alg. 3 starts; the best result counts."""


READINGS = {
    "re-association": Reading(),
    "from-scratch": Reading(keeps=False),
    "marked-pairs": Reading(MARKED_PAIRS, penalty=0.0, steps=500, keeps=False, starts=1),
    "back-tracking": Reading(BACK_TRACKING, penalty=0.0, steps=200, keeps=False, starts=1),
}


def reading_of(text: str) -> Reading:
    """The reading called `text`: a name of `READINGS`, and what differs: `back-tracking,steps=2000`."""
    name, *changes = text.split(",")
    fields = {"penalty": float, "steps": int, "starts": int}
    if name in READINGS:
        try:
            pairs = [change.split("=") for change in changes]
            reading = READINGS[name]._replace(**{key: fields[key](given) for key, given in pairs})
        except (KeyError, ValueError):
            pass
        else:
            if 0 <= reading.penalty < np.inf and reading.steps >= 0 and reading.starts >= 1:
                return reading
    raise StagewiseError(
        f"reading = {shown(text)}: must be one of {', '.join(READINGS)}, with "
        "a finite penalty >= 0, steps >= 0 and starts >= 1 after it as in back-tracking,steps=2000"
    )


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
    marked: BoolArray
    """The links that may not be used."""
    best: IntArray
    """The best association found: an edge for each client, or -1."""
    before: IntArray
    """The edge at which each client begins, or -1 where the greedy is to find one."""


class Association(NamedTuple):
    """An instance with the reading by which sets of its clients are associated."""

    instance: Instance
    state: State
    reading: Reading
    work: Workspace


def new_association(instance: Instance, reading: Reading | None = None) -> Association:
    """Room to associate sets of the instance's clients."""
    waiting, order, choice, tried, best, before = np.full(
        (6, len(instance.lock)), NONE, dtype=np.int64
    )
    marked = np.zeros(len(instance.link_edge), dtype=np.bool_)
    work = Workspace(waiting, order, choice, tried, marked, best, before)
    return Association(instance, new_state(instance), reading or Reading(), work)


@compiled
def associate(association, selected, count):
    """Associate `selected[:count]` with edges (Alg. 2); `work.best` receives the association.

    Returns (violation, value) of the best association met, as far as the reading goes on. A client that
    finds every edge full makes the set infeasible: the violation is then infinite.
    """
    instance, state, reading, work = association
    for link in range(work.marked.shape[0]):
        work.marked[link] = False
    best = (np.inf, np.inf)
    for _ in range(reading.steps + 1):
        clear(instance, state)
        chosen = _associate_without_choice(instance, state, selected, count, work)
        if chosen == NONE:
            break
        placed = _associate_as_before(association, chosen)
        placed = _associate_greedily(
            association, placed, chosen
        )  # clients order[:placed] have an edge
        if placed == chosen:
            best = _keep_if_better(association, best)
        if best[0] == 0.0 and reading.retry != RE_ASSOCIATION:
            break
        if reading.retry == BACK_TRACKING:
            return _track_back(association, placed, chosen, best)
        if placed < chosen:  # no edge has room, or every one that has is marked
            break
        if reading.retry == RE_ASSOCIATION:
            return _re_associate(association, chosen, best)
        if not _mark_last(association, chosen):
            break
    return best


@compiled
def _keep_if_better(association, best):
    """(violation, value) of the present association, kept if it violates less; otherwise `best`."""
    instance, state, _reading, work = association
    refresh_totals(state)
    violation = state.totals[VIOLATION] if state.totals[VIOLATION] > _FEASIBLE else 0.0
    now = value(instance, state)
    if violation > best[0] or (violation == best[0] and now >= best[1]):
        return best
    for client in range(work.best.shape[0]):
        work.best[client] = state.edge_of[client]
    return violation, now


@compiled
def _associate_without_choice(instance, state, selected, count, work):
    """Lines 2-3: clients covered by one edge go there; returns how many wait, -1 if one overflows."""
    waiting = 0
    for s in range(count):
        client = selected[s]
        first, last = instance.link_start[client], instance.link_start[client + 1]
        if last - first > 1:
            work.waiting[waiting] = client
            waiting += 1
        elif last - first == 0:
            return NONE
        else:
            j = instance.link_edge[first]
            if state.member_count[j] >= room_of(state, j):
                return NONE
            change_edge(instance, state, j, NONE, first)
    return waiting


@compiled
def _associate_as_before(association, chosen):
    """Clients that have an edge from before take it; returns how many do."""
    instance, state, _reading, work = association
    placed = 0
    waiting = 0
    for w in range(chosen):
        client = work.waiting[w]
        j = work.before[client]
        link = find_link(instance, client, j) if j != NONE else NONE
        if link != NONE and state.member_count[j] < room_of(state, j):
            change_edge(instance, state, j, NONE, link)
            work.order[placed] = client
            work.choice[placed] = link
            placed += 1
        else:
            work.waiting[waiting] = client
            waiting += 1
    return placed


@compiled
def _associate_greedily(association, placed, total):
    """Lines 5-10: the client and edge with the smallest change of the objective, again and again.

    Returns how many clients have got an edge; those that found every edge full come last in the
    order, and back-tracking starts from there.
    """
    instance, state, reading, work = association
    waiting = total - placed
    while waiting > 0:
        best_change = np.inf
        best_place = NONE
        best_link = NONE
        for w in range(waiting):
            client = work.waiting[w]
            for link in range(instance.link_start[client], instance.link_start[client + 1]):
                j = instance.link_edge[link]
                if state.member_count[j] >= room_of(state, j) or work.marked[link]:
                    continue
                change = value_after(instance, state, j, NONE, link, NONE, NONE, NONE)
                if reading.penalty > 0:
                    more = violation_after(instance, state, j, NONE, link) - state.violation[j]
                    if instance.risk != NO_RISK:  # which says nothing while an edge has too few
                        more += _limit_violation_after(instance, state, j, link)
                        more -= _limit_violation_after(instance, state, j, NONE)
                    change += reading.penalty * instance.price_scale * more
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


@inlined
def _limit_violation_after(instance, state, j, link):
    """The violation of (9a) and (9b) at edge j, with everybody online, if a client entered."""
    data, kld = kld_after(instance, state, j, NONE, link)
    return limit_violation(instance, data, kld)


@compiled
def _track_back(association, depth, chosen, best):
    """Reverse order: the last client tries its other edges first, then the one before it."""
    instance, state, reading, work = association
    for _ in range(reading.steps):
        if best[0] == 0.0 or depth == 0:
            break
        depth -= 1
        if not _next_choice(instance, state, work, depth):
            continue
        depth += 1
        while depth < chosen:  # those after it start again from their first edge
            work.tried[depth] = 0
            if not _next_choice(instance, state, work, depth):
                break
            depth += 1
        if depth == chosen:
            best = _keep_if_better(association, best)
    return best


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


@compiled
def _mark_last(association, chosen):
    """Mark the last association whose client has another edge left; False where there is none."""
    instance, _state, _reading, work = association
    for k in range(chosen - 1, -1, -1):
        client = work.order[k]
        for link in range(instance.link_start[client], instance.link_start[client + 1]):
            if link != work.choice[k] and not work.marked[link]:
                work.marked[work.choice[k]] = True
                return True
    return False


@compiled
def _re_associate(association, chosen, best):
    """Clients in reverse order move to the edge that leaves least violation, then least cost."""
    instance, state, reading, work = association
    for _ in range(reading.steps):
        moved = False
        for k in range(chosen - 1, -1, -1):
            client = work.order[k]
            link = _better_link(instance, state, client)
            if link == NONE:
                continue
            change_edge(instance, state, state.edge_of[client], client, NONE)
            change_edge(instance, state, instance.link_edge[link], NONE, link)
            moved = True
        if not moved:
            break
    return _keep_if_better(association, best)


@inlined
def _better_link(instance, state, client):
    """The link of a client that would lower the violation most, then the value, or -1."""
    j = state.edge_of[client]
    without = violation_after(instance, state, j, client, NONE) - state.violation[j]
    best_change, best_link = 0.0, NONE
    now = value(instance, state)
    best_value = now - _FEASIBLE * abs(now)
    for link in range(instance.link_start[client], instance.link_start[client + 1]):
        k = instance.link_edge[link]
        if k == j or state.member_count[k] >= room_of(state, k):
            continue
        change = without + violation_after(instance, state, k, NONE, link) - state.violation[k]
        if change > best_change + _FEASIBLE:
            continue
        new_value = value_after(instance, state, k, NONE, link, j, client, NONE)
        if change < best_change - _FEASIBLE or new_value < best_value:
            best_change, best_value, best_link = change, new_value, link
    return best_link
