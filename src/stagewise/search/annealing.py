"""Simulated annealing over adds, removes, exchanges, moves and swaps, on the incremental state."""

import numpy as np

from stagewise.compiled import NONE, compiled, inlined
from stagewise.search.instance import AT_ITS_EDGE, FREE
from stagewise.search.random_bits import below, uniform
from stagewise.search.state import (
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


@inlined
def propose(instance, state, focus, bits):
    """A random move at an edge of `focus`: (j, leaving, link, k, leaving_k, link_k), or j = -1."""
    no_move = (NONE, NONE, NONE, NONE, NONE, NONE)
    j = focus[below(bits, focus.shape[0])]
    first, count = state.member_start[j], state.member_count[j]
    member = state.members[first + below(bits, count)] if count > 0 else NONE
    leavable = member != NONE and instance.lock[member] == FREE
    draw = uniform(bits)
    if draw < 0.1:  # Remove
        return (j, member, NONE, NONE, NONE, NONE) if leavable else no_move
    candidates = instance.candidate_start[j + 1] - instance.candidate_start[j]
    if candidates == 0:
        return no_move
    # Cheap candidates stand first: squaring prefers them without excluding any.
    place = np.int64(uniform(bits) ** 2 * candidates)
    link = instance.candidate[instance.candidate_start[j] + place]
    client = instance.link_client[link]
    k = state.edge_of[client]
    if k == j or instance.lock[client] == AT_ITS_EDGE:
        return no_move
    has_room = count < room_of(state, j)
    if k == NONE:
        if draw < 0.35 and has_room:  # Add
            return (j, NONE, link, NONE, NONE, NONE)
        return (j, member, link, NONE, NONE, NONE) if leavable else no_move  # Exchange
    if draw < 0.5 and has_room:  # Move
        return (j, NONE, link, k, client, NONE)
    if member == NONE or instance.lock[member] == AT_ITS_EDGE:
        return no_move
    back = find_link(instance, member, k)
    return (j, member, link, k, client, back) if back != NONE else no_move  # Swap


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
    recorded. Returns (violation, value) of the best, and how many moves were accepted.
    """
    current = value(instance, state)
    best_violation = state.totals[VIOLATION] if state.totals[VIOLATION] >= _FEASIBLE else 0.0
    best_value = current
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
        if j == NONE:
            continue
        allowance = -temperature * np.log(1.0 - uniform(bits))
        candidate = value_after(instance, state, j, leaving, link, k, leaving_k, link_k)
        violation = state.violation[j] + (state.violation[k] if k != NONE else 0.0)
        # Violation can fall by what these edges have at the most: often the cost alone decides.
        if candidate - current - penalty * violation > allowance:
            continue
        limit = violation + (allowance - (candidate - current)) / penalty
        violation = violation_up_to(instance, state, j, leaving, link, limit)
        if violation > limit:
            continue
        if k != NONE:
            limit -= violation
            if violation_up_to(instance, state, k, leaving_k, link_k, limit) > limit:
                continue
        apply_move(instance, state, j, leaving, link, k, leaving_k, link_k)
        accepted += 1
        changed = _record(journal, changed, leaving)
        changed = _record(journal, changed, NONE if link == NONE else instance.link_client[link])
        if accepted % _REFRESH == 0:
            refresh_totals(state)
        current = value(instance, state)
        total = state.totals[VIOLATION]
        if total < _FEASIBLE:
            total = 0.0
        if total < best_violation - _FEASIBLE or (
            total <= best_violation + _FEASIBLE and current < best_value
        ):
            best_violation = total
            best_value = current
            # Only what changed is copied: with many clients a full copy would take most of the time.
            if changed > journal.shape[0]:
                copy_into(best, state.edge_of)
            else:
                for entry in range(changed):
                    best[journal[entry]] = state.edge_of[journal[entry]]
            changed = 0
    return best_violation, best_value, accepted


@compiled
def _record(journal, changed, client):
    """Write a client into the journal; a count above its length says that it overflowed."""
    if client == NONE:
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
    if k != NONE:
        # Both leave before anyone enters, so that a client is never at two edges.
        change_edge(instance, state, k, leaving_k, NONE)
        change_edge(instance, state, j, leaving, link)
        if link_k != NONE:
            change_edge(instance, state, k, NONE, link_k)
    else:
        change_edge(instance, state, j, leaving, link)
