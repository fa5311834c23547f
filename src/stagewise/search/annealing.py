"""Simulated annealing over adds, removes, exchanges, moves and swaps, on the incremental state."""

import numpy as np

from stagewise.compiled import compiled
from stagewise.search.instance import AT_ITS_EDGE, FREE
from stagewise.search.random_bits import below, uniform
from stagewise.search.state import (
    NOBODY,
    VIOLATION,
    change_edge,
    find_link,
    refresh_totals,
    room_of,
    violation_up_to,
)
from stagewise.search.value import value, value_after

_REFRESH = 1024  # accepted moves between two recomputations of the totals
_FEASIBLE = 1e-12  # a total violation this small is rounding


@compiled
def propose(instance, state, focus, bits):
    """A random move at an edge of `focus`: (j, leaving, link, k, leaving_k, link_k), or j = -1."""
    none = (NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY)
    j = focus[below(bits, focus.shape[0])]
    first, count = state.member_start[j], state.count[j]
    member = state.members[first + below(bits, count)] if count > 0 else NOBODY
    leavable = member != NOBODY and instance.lock[member] == FREE
    draw = uniform(bits)
    if draw < 0.1:  # Remove
        return (j, member, NOBODY, NOBODY, NOBODY, NOBODY) if leavable else none
    candidates = instance.candidate_start[j + 1] - instance.candidate_start[j]
    if candidates == 0:
        return none
    # Cheap candidates stand first: squaring prefers them without excluding any.
    place = np.int64(uniform(bits) ** 2 * candidates)
    link = instance.candidate[instance.candidate_start[j] + place]
    client = instance.link_client[link]
    k = state.edge_of[client]
    if k == j or instance.lock[client] == AT_ITS_EDGE:
        return none
    has_room = count < room_of(state, j)
    if k == NOBODY:
        if draw < 0.35 and has_room:  # Add
            return (j, NOBODY, link, NOBODY, NOBODY, NOBODY)
        return (j, member, link, NOBODY, NOBODY, NOBODY) if leavable else none  # Exchange
    if draw < 0.5 and has_room:  # Move
        return (j, NOBODY, link, k, client, NOBODY)
    if member == NOBODY or instance.lock[member] == AT_ITS_EDGE:
        return none
    back = find_link(instance, member, k)
    return (j, member, link, k, client, back) if back != NOBODY else none  # Swap


@compiled
def anneal(
    instance,
    state,
    focus,
    moves,
    start_temperature,
    end_temperature,
    penalty,
    hardening,
    bits,
    best,
    journal,
):
    """Try `moves` random moves from `state`; `best` receives the best assignment met.

    A worse value is accepted with the usual probability at a temperature that falls geometrically;
    each unit of violation costs `penalty`, and at the end `hardening` times as much. Less violation
    always comes before less value. `journal` is room for the clients that changed since the best was
    noted. Returns (violation, value) of the best, and how many moves were accepted.
    """
    here = value(instance, state)
    best_violation = state.totals[VIOLATION] if state.totals[VIOLATION] >= _FEASIBLE else 0.0
    best_value = here
    copy_into(best, state.edge_of)
    changed = 0
    temperature = start_temperature
    cooling = (end_temperature / start_temperature) ** (1.0 / max(1, moves))
    harder = hardening ** (1.0 / max(1, moves))
    accepted = 0
    for _ in range(moves):
        temperature *= cooling
        penalty *= harder
        j, leaving, link, k, leaving_k, link_k = propose(instance, state, focus, bits)
        if j == NOBODY:
            continue
        allowance = -temperature * np.log(1.0 - uniform(bits))
        there = value_after(instance, state, j, leaving, link, k, leaving_k, link_k)
        violation = state.violation[j] + (state.violation[k] if k != NOBODY else 0.0)
        # Violation can fall by what these edges have at the most: often the cost alone decides.
        if there - here - penalty * violation > allowance:
            continue
        most = violation + (allowance - (there - here)) / penalty
        violation = violation_up_to(instance, state, j, leaving, link, most)
        if violation > most:
            continue
        if k != NOBODY:
            most -= violation
            if violation_up_to(instance, state, k, leaving_k, link_k, most) > most:
                continue
        apply_move(instance, state, j, leaving, link, k, leaving_k, link_k)
        accepted += 1
        changed = _note(journal, changed, leaving)
        changed = _note(journal, changed, NOBODY if link == NOBODY else instance.link_client[link])
        if accepted % _REFRESH == 0:
            refresh_totals(state)
        here = value(instance, state)
        total = state.totals[VIOLATION]
        if total < _FEASIBLE:
            total = 0.0
        if total < best_violation - _FEASIBLE or (
            total <= best_violation + _FEASIBLE and here < best_value
        ):
            best_violation = total
            best_value = here
            # Only what changed is copied: with many clients a full copy would take most of the time.
            if changed > journal.shape[0]:
                copy_into(best, state.edge_of)
            else:
                for entry in range(changed):
                    best[journal[entry]] = state.edge_of[journal[entry]]
            changed = 0
    return best_violation, best_value, accepted


@compiled
def _note(journal, changed, client):
    """Write a client into the journal; a count above its length says that it overflowed."""
    if client == NOBODY:
        return changed
    if changed < journal.shape[0]:
        journal[changed] = client
    return min(changed + 1, journal.shape[0] + 1)


@compiled
def copy_into(target, source):
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled
def apply_move(instance, state, j, leaving, link, k, leaving_k, link_k):
    """Make a move: the changes at its one or two edges."""
    if k != NOBODY:
        # Both leave before anyone enters, so that a client is never at two edges.
        change_edge(instance, state, k, leaving_k, NOBODY)
        change_edge(instance, state, j, leaving, link)
        if link_k != NOBODY:
            change_edge(instance, state, k, NOBODY, link_k)
    else:
        change_edge(instance, state, j, leaving, link)
