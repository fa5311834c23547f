"""The state of a search and its incremental evaluation.

Every move is made of *edge changes*: at one edge a client may leave and another may enter. An add is a
change with nobody leaving, a remove one with nobody entering, an exchange one with both, and a move
or a swap between two edges is two changes. `edge_after` and `violation_after` say what a change would
give without making it; `change_edge` makes it and recomputes that edge from its members, so that
nothing drifts.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled, inlined, writable
from stagewise.problem.risk_kernels import (
    RiskCutoff,
    RiskModel,
    RiskScratch,
    edge_risk,
    kld_of,
    label_term,
    risk_scratch,
    risk_violation,
)
from stagewise.search.instance import NO_RISK, Instance
from stagewise.world.costs import UNASSIGNED
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import FloatArray, IntArray

# Slots of State.totals.
ENERGY, VIOLATION, LOG_PROBABILITY, SERVING, KLD, NEVER = 0, 1, 2, 3, 4, 5

_CACHE_SIZE = 1 << 16
_SLOWEST = 3  # a move touches two edges at the most, so the three slowest decide every new maximum


class State(NamedTuple):
    """An assignment with the sums that make its evaluation incremental."""

    edge_of: IntArray
    """The edge of each client, or -1."""
    link_of: IntArray
    slot: IntArray
    """Where a client stands among its edge's members."""
    member_start: IntArray
    members: IntArray
    member_count: IntArray
    label_sum: IntArray
    """Shape (edges, labels)."""
    data: IntArray
    log_sum: FloatArray
    """Sum over labels of y log(y / q)."""
    delay: FloatArray
    energy: FloatArray
    kld: FloatArray
    violation: FloatArray
    key: npt.NDArray[np.uint64]
    totals: FloatArray
    slowest: IntArray
    """The three slowest edges, slowest first, or -1."""
    cache_key: npt.NDArray[np.uint64]
    cache_violation: FloatArray
    scratch: IntArray
    """Room for the members of one edge."""
    risk_scratch: RiskScratch


def new_state(instance: Instance) -> State:
    """A state in which no client serves."""
    clients, edges = len(instance.lock), len(instance.capacity)
    room = np.minimum(instance.capacity, np.diff(instance.candidate_start))
    member_start = np.zeros(edges + 1, dtype=np.int64)
    np.cumsum(room, out=member_start[1:])
    cached = _CACHE_SIZE if instance.risk != NO_RISK else 1
    state = State(
        edge_of=np.full(clients, UNASSIGNED, dtype=np.int64),
        link_of=np.full(clients, NONE, dtype=np.int64),
        slot=np.zeros(clients, dtype=np.int64),
        member_start=member_start,
        members=np.zeros(max(1, int(member_start[-1])), dtype=np.int64),
        member_count=np.zeros(edges, dtype=np.int64),
        label_sum=np.zeros((edges, len(instance.target)), dtype=np.int64),
        data=np.zeros(edges, dtype=np.int64),
        log_sum=np.zeros(edges),
        delay=np.zeros(edges),
        energy=np.zeros(edges),
        kld=np.zeros(edges),
        violation=np.zeros(edges),
        key=np.zeros(edges, dtype=np.uint64),
        totals=np.zeros(6),
        slowest=np.full(_SLOWEST, NONE, dtype=np.int64),
        cache_key=np.zeros(cached, dtype=np.uint64),
        cache_violation=np.zeros(cached),
        scratch=np.zeros(int(room.max(initial=0)) + 1, dtype=np.int64),
        risk_scratch=risk_scratch(len(instance.target), int(room.max(initial=0)) + 1),
    )
    _start(instance, state, state.edge_of.copy())
    return state


def start_from(instance: Instance, state: State, assignment: IntArray) -> None:
    """Set `state` to `assignment`; a client whose link or place is not there is left out."""
    _start(instance, state, writable(assignment))


@compiled
def _start(instance, state, assignment):
    clear(instance, state)
    for client in range(assignment.shape[0]):
        if assignment[client] != UNASSIGNED:
            link = find_link(instance, client, assignment[client])
            j = assignment[client]
            if link >= 0 and state.member_count[j] < room_of(state, j):
                change_edge(instance, state, j, NONE, link)
    refresh_totals(state)


@compiled
def clear(instance, state):
    """Let no client serve."""
    for client in range(state.edge_of.shape[0]):
        state.edge_of[client] = UNASSIGNED
        state.link_of[client] = NONE
    for j in range(state.member_count.shape[0]):
        state.member_count[j] = 0
        for h in range(state.label_sum.shape[1]):
            state.label_sum[j, h] = 0
        state.data[j] = 0
        state.log_sum[j] = 0.0
        state.delay[j] = 0.0
        state.energy[j] = 0.0
        state.kld[j] = empty_violation(instance, j)
        state.violation[j] = empty_violation(instance, j)
        state.key[j] = np.uint64(0)
    for rank in range(state.slowest.shape[0]):
        state.slowest[rank] = NONE
    state.totals[LOG_PROBABILITY] = 0.0
    state.totals[SERVING] = 0.0
    state.totals[NEVER] = 0.0
    refresh_totals(state)


@inlined
def empty_violation(instance, j):
    """The violation, and the KLD, of edge j without clients."""
    return instance.empty_violation if instance.in_round[j] else 0.0


@compiled
def refresh_totals(state):
    """Recompute the sums over edges, so that adding differences never drifts."""
    energy = 0.0
    violation = 0.0
    kld = 0.0
    for j in range(state.energy.shape[0]):
        energy += state.energy[j]
        violation += state.violation[j]
        kld += state.kld[j]
    state.totals[ENERGY] = energy
    state.totals[VIOLATION] = violation
    state.totals[KLD] = kld


@inlined
def room_of(state, j):
    """How many clients edge j can hold: its capacity, or all it covers if that is fewer."""
    return state.member_start[j + 1] - state.member_start[j]


@inlined
def find_link(instance, client, j):
    """The usable link between a client and edge j, or -1."""
    for link in range(instance.link_start[client], instance.link_start[client + 1]):
        if instance.link_edge[link] == j:
            return link
    return NONE


@inlined
def edge_after(instance, state, j, leaving, link):
    """(delay, energy) of edge j if client `leaving` left and the client of `link` entered."""
    count = state.member_count[j]
    delay = 0.0
    energy = 0.0
    if count > 0:
        delay = state.delay[j] - instance.uplink_delay[j]
        energy = state.energy[j] - instance.uplink_energy[j]
    if leaving != NONE:
        count -= 1
        old = state.link_of[leaving]
        energy -= instance.link_energy[old]
        if instance.link_delay[old] + instance.uplink_delay[j] >= state.delay[j]:
            delay = 0.0
            start = state.member_start[j]
            for s in range(start, start + state.member_count[j]):
                client = state.members[s]
                if client != leaving:
                    delay = max(delay, instance.link_delay[state.link_of[client]])
    if link != NONE:
        count += 1
        energy += instance.link_energy[link]
        delay = max(delay, instance.link_delay[link])
    if count == 0:
        return 0.0, 0.0
    return delay + instance.uplink_delay[j], energy + instance.uplink_energy[j]


@inlined
def kld_after(instance, state, j, leaving, link):
    """(data, KLD) of edge j after a change; an edge without clients has the largest KLD there is."""
    start, label_of, label_count, data_of = instance.rows
    total = state.data[j]
    log_sum = state.log_sum[j]
    if leaving != NONE:
        total -= data_of[leaving]
    entering = NONE if link == NONE else instance.link_client[link]
    if entering != NONE:
        total += data_of[entering]
    if total <= 0:
        return total, empty_violation(instance, j)
    if leaving != NONE:
        for k in range(start[leaving], start[leaving + 1]):
            h = label_of[k]
            y = state.label_sum[j, h]
            log_sum -= label_term(y, instance.log_target[h])
            log_sum += label_term(y - label_count[k], instance.log_target[h])
    if entering != NONE:
        for k in range(start[entering], start[entering + 1]):
            h = label_of[k]
            y = state.label_sum[j, h]
            if leaving != NONE:
                for other in range(start[leaving], start[leaving + 1]):
                    if label_of[other] == h:
                        y -= label_count[other]
            log_sum -= label_term(y, instance.log_target[h])
            log_sum += label_term(y + label_count[k], instance.log_target[h])
    return total, kld_of(log_sum, total)


@inlined
def limit_violation(instance, data, kld):
    """By how much data and KLD miss (9a) and (9b); each in its own unit, 0 where they hold."""
    missing = 0.0
    if data < instance.data_limit:
        missing += (instance.data_limit - data) / instance.data_limit
    if instance.keep_kld and kld > instance.kld_limit + KLD_TOLERANCE:
        missing += kld - instance.kld_limit
    return missing


@inlined
def violation_after(instance, state, j, leaving, link):
    """The violation of edge j after a change: of its limits, or of its risk limits in P1."""
    return violation_up_to(instance, state, j, leaving, link, np.inf)


@inlined
def violation_up_to(instance, state, j, leaving, link, limit):
    """`violation_after`, or where that is more than `limit` some number between the two."""
    count = state.member_count[j]
    if leaving != NONE:
        count -= 1
    if link != NONE:
        count += 1
    if count == 0:
        return empty_violation(instance, j)
    if instance.risk == NO_RISK:
        data, kld = kld_after(instance, state, j, leaving, link)
        return limit_violation(instance, data, kld)
    return _risk_violation_up_to(instance, state, j, leaving, link, limit)


@compiled
def _risk_violation_up_to(instance, state, j, leaving, link, limit):
    """What sets seen lately violate is remembered, a lower bound of it with a minus sign."""
    limit = max(limit, 0.0)
    entering = NONE if link == NONE else instance.link_client[link]
    key = state.key[j]
    if leaving != NONE:
        key ^= instance.zobrist[leaving]
    if entering != NONE:
        key ^= instance.zobrist[entering]
    place = np.int64(key & np.uint64(state.cache_key.shape[0] - 1))
    if state.cache_key[place] == key:
        known = state.cache_violation[place]
        if known >= 0.0:
            return known
        if -known > limit:
            return -known
    n = 0
    start = state.member_start[j]
    for s in range(start, start + state.member_count[j]):
        if state.members[s] != leaving:
            state.scratch[n] = state.members[s]
            n += 1
    if entering != NONE:
        state.scratch[n] = entering
        n += 1
    model = RiskModel(
        instance.risk,
        instance.rows,
        instance.target,
        instance.log_target,
        instance.probability,
        instance.samples,
        instance.sample_count,
        instance.kld_limit,
        instance.data_limit,
    )
    cutoff = RiskCutoff(instance.kld_risk_limit, instance.data_risk_limit, limit)
    kld_risk, data_risk = edge_risk(model, state.scratch, n, cutoff, state.risk_scratch)
    violation = risk_violation(
        kld_risk, data_risk, instance.kld_risk_limit, instance.data_risk_limit
    )
    state.cache_key[place] = key
    state.cache_violation[place] = violation if violation <= limit else -violation
    return violation


@compiled
def change_edge(instance, state, j, leaving, link):
    """Make a change at edge j, and bring its figures and the totals up to date."""
    start, label_of, label_count, data_of = instance.rows
    first = state.member_start[j]
    if leaving != NONE:
        last = state.members[first + state.member_count[j] - 1]
        state.members[first + state.slot[leaving]] = last
        state.slot[last] = state.slot[leaving]
        state.member_count[j] -= 1
        state.edge_of[leaving] = UNASSIGNED
        state.link_of[leaving] = NONE
        state.key[j] ^= instance.zobrist[leaving]
        state.data[j] -= data_of[leaving]
        for k in range(start[leaving], start[leaving + 1]):
            state.label_sum[j, label_of[k]] -= label_count[k]
        state.totals[LOG_PROBABILITY] -= instance.log_probability[leaving]
        state.totals[SERVING] -= 1.0
        if instance.probability[leaving] <= 0:
            state.totals[NEVER] -= 1.0
    if link != NONE:
        entering = instance.link_client[link]
        state.slot[entering] = state.member_count[j]
        state.members[first + state.member_count[j]] = entering
        state.member_count[j] += 1
        state.edge_of[entering] = j
        state.link_of[entering] = link
        state.key[j] ^= instance.zobrist[entering]
        state.data[j] += data_of[entering]
        for k in range(start[entering], start[entering + 1]):
            state.label_sum[j, label_of[k]] += label_count[k]
        state.totals[LOG_PROBABILITY] += instance.log_probability[entering]
        state.totals[SERVING] += 1.0
        if instance.probability[entering] <= 0:
            state.totals[NEVER] += 1.0
    _recompute_edge(instance, state, j)


@compiled
def _recompute_edge(instance, state, j):
    delay = 0.0
    energy = 0.0
    first = state.member_start[j]
    for s in range(first, first + state.member_count[j]):
        link = state.link_of[state.members[s]]
        delay = max(delay, instance.link_delay[link])
        energy += instance.link_energy[link]
    log_sum = 0.0
    for h in range(state.label_sum.shape[1]):
        log_sum += label_term(state.label_sum[j, h], instance.log_target[h])
    if state.member_count[j] > 0:
        delay += instance.uplink_delay[j]
        energy += instance.uplink_energy[j]
        kld = kld_of(log_sum, state.data[j])
    else:
        kld = empty_violation(instance, j)
    state.log_sum[j] = log_sum
    before = state.delay[j]
    state.delay[j] = delay
    state.totals[ENERGY] += energy - state.energy[j]
    state.energy[j] = energy
    state.totals[KLD] += kld - state.kld[j]
    state.kld[j] = kld
    violation = violation_after(instance, state, j, NONE, NONE)
    state.totals[VIOLATION] += violation - state.violation[j]
    state.violation[j] = violation
    _keep_slowest(state, j, before)


@compiled
def _keep_slowest(state, j, before):
    """Find the three slowest edges again, where the change at edge j can have altered them."""
    slowest, delay = state.slowest, state.delay
    last = slowest.shape[0] - 1
    listed = False
    for rank in range(last + 1):
        listed |= slowest[rank] == j
    if listed and delay[j] < before and (j == slowest[last] or delay[j] < delay[slowest[last]]):
        # Another edge may be slower now.
        for rank in range(last + 1):
            slowest[rank] = NONE
        for e in range(delay.shape[0]):
            _enter_slowest(slowest, delay, e)
        return
    if listed:
        rank = 0
        while slowest[rank] != j:
            rank += 1
        for above in range(rank, last):
            slowest[above] = slowest[above + 1]
        slowest[last] = NONE
    _enter_slowest(slowest, delay, j)


@compiled
def _enter_slowest(slowest, delay, j):
    """Put edge j where it belongs among the slowest, if it does."""
    rank = slowest.shape[0]
    while rank > 0 and (slowest[rank - 1] == NONE or delay[j] > delay[slowest[rank - 1]]):
        rank -= 1
        if rank + 1 < slowest.shape[0]:
            slowest[rank + 1] = slowest[rank]
    if rank < slowest.shape[0]:
        slowest[rank] = j
