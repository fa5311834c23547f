"""Cheap clusters of one edge, generated: greedy starts, then exchanges from the cheapest ones on.

Cheap clusters lie close together: exchange a member or two of a cheap one for another client, and the
result is often a cluster, too. So the cheapest cluster not yet *expanded* is expanded, its neighbours
are added, and so on until the cheapest ones asked for stand. This misses clusters with many
members that an enumeration would find; those are seldom fully online, and in a library of a given
length they displace better ones.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled, inlined
from stagewise.problem.risk_kernels import keeps_limits, kld_of, label_term
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.search.random_bits import uniform
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

_FREE, _FOUND, _FRONTIER, _RANKED = 0, 1, 2, 3  # slots of ClusterWorkspace.counts
_PRICE, _DELAY, _DATA = 0, 1, 2  # slots of ClusterWorkspace.base
_ROWS_PER_CLUSTER = 4  # rows for each cluster asked for: the first ones found are not the cheapest


class ClusterWorkspace(NamedTuple):
    """Room to generate the clusters of one edge after the other."""

    link: IntArray
    """The links of the edge's free candidates; clusters hold places in this list."""
    price: FloatArray
    delay: FloatArray
    """Each candidate's delay at the price of a second."""
    is_member: BoolArray
    members: npt.NDArray[np.int32]
    size: IntArray
    cost: FloatArray
    key: npt.NDArray[np.uint64]
    slots: IntArray
    """A hash table: row + 1 of the cluster with a key."""
    frontier: IntArray
    """Rows not expanded yet, a heap with the cheapest first."""
    ranked: FloatArray
    """The costs of the cheapest so far, a heap with the most expensive first."""
    counts: IntArray
    base: FloatArray
    base_labels: IntArray
    labels: IntArray
    terms: FloatArray
    """y log(y / q) of each label sum in `labels`."""


def new_cluster_workspace(instance: Instance, max_clusters: int) -> ClusterWorkspace:
    """Room for the `max_clusters` cheapest clusters of any edge of `instance`."""
    candidates = int(np.diff(instance.candidate_start).max(initial=1))
    width = max(1, min(int(instance.capacity.max(initial=1)), candidates))
    rows = _ROWS_PER_CLUSTER * max_clusters
    labels = len(instance.target)
    return ClusterWorkspace(
        link=np.zeros(candidates, dtype=np.int64),
        price=np.zeros(candidates),
        delay=np.zeros(candidates),
        is_member=np.zeros(candidates, dtype=np.bool_),
        members=np.zeros((rows, width), dtype=np.int32),
        size=np.zeros(rows, dtype=np.int64),
        cost=np.zeros(rows),
        key=np.zeros(rows, dtype=np.uint64),
        slots=np.zeros(1 << int(np.ceil(np.log2(2 * rows + 2))), dtype=np.int64),
        frontier=np.zeros(rows, dtype=np.int64),
        ranked=np.zeros(max_clusters),
        counts=np.zeros(4, dtype=np.int64),
        base=np.zeros(3),
        base_labels=np.zeros(labels, dtype=np.int64),
        labels=np.zeros(labels, dtype=np.int64),
        terms=np.zeros(labels),
    )


@compiled
def generate_clusters(instance, edge, client_price, delay_price, starts, bits, work):
    """Fill `work` with cheap clusters of `edge`; returns their number.

    Client i costs its energy and client_price[i], a second of the edge's delay `delay_price`.
    `starts` is the number of greedy starts.
    """
    _load_candidates(instance, edge, client_price, delay_price, work)
    candidates = instance.candidate_start[edge + 1] - instance.candidate_start[edge]
    pinned = candidates - work.counts[_FREE]
    data, log_sum, price, delay = _sums(instance, work, 0, 0, NONE, NONE)
    if pinned > instance.capacity[edge]:
        return 0
    if not instance.in_round[edge] or (pinned > 0 and _is_feasible(instance, data, log_sum)):
        work.size[0] = 0  # the pinned clients are enough, or nobody is needed
        work.cost[0] = price + delay
        return 1
    room = min(instance.capacity[edge] - pinned, work.members.shape[1])
    for start in range(starts):
        _construct(instance, work, room, 0.0 if start == 0 else 1.0, start % 2 == 0, bits)
    while work.counts[_FRONTIER] > 0 and work.counts[_FOUND] < work.size.shape[0]:
        row = _pop_frontier(work)
        if work.cost[row] > _cutoff(work):
            break
        _expand(instance, work, row)
    return work.counts[_FOUND]


@compiled
def _load_candidates(instance, edge, client_price, delay_price, work):
    """The candidates of `edge` and what the pinned ones among them bring."""
    start, label_of, label_count, data_of = instance.rows
    for s in range(work.slots.shape[0]):
        work.slots[s] = 0
    for c in range(work.counts.shape[0]):
        work.counts[c] = 0
    for h in range(work.base_labels.shape[0]):
        work.base_labels[h] = 0
    base_price = instance.energy_weight * instance.uplink_energy[edge]
    base_price += delay_price * instance.uplink_delay[edge]
    base_delay = 0.0
    base_data = 0.0
    free = 0
    for k in range(instance.candidate_start[edge], instance.candidate_start[edge + 1]):
        link = instance.candidate[k]
        client = instance.link_client[link]
        price = instance.energy_weight * instance.link_energy[link] + client_price[client]
        delay = delay_price * instance.link_delay[link]
        if instance.lock[client] == AT_ITS_EDGE:
            base_price += price
            base_delay = max(base_delay, delay)
            base_data += data_of[client]
            for n in range(start[client], start[client + 1]):
                work.base_labels[label_of[n]] += label_count[n]
        else:
            place = free
            while place > 0 and work.price[place - 1] > price:  # keep them in order of price
                work.link[place] = work.link[place - 1]
                work.price[place] = work.price[place - 1]
                work.delay[place] = work.delay[place - 1]
                place -= 1
            work.link[place] = link
            work.price[place] = price
            work.delay[place] = delay
            work.is_member[free] = False
            free += 1
    work.counts[_FREE] = free
    work.base[_PRICE] = base_price
    work.base[_DELAY] = base_delay
    work.base[_DATA] = base_data


@compiled
def _sums(instance, work, row, size, without, without_too):
    """Sums over the first `size` members of `row` but two; leaves `labels` and `terms` behind."""
    start, label_of, label_count, data_of = instance.rows
    for h in range(work.labels.shape[0]):
        work.labels[h] = work.base_labels[h]
    data = work.base[_DATA]
    price = work.base[_PRICE]
    delay = work.base[_DELAY]
    for m in range(size):
        if m in (without, without_too):
            continue
        place = work.members[row, m]
        client = instance.link_client[work.link[place]]
        for n in range(start[client], start[client + 1]):
            work.labels[label_of[n]] += label_count[n]
        data += data_of[client]
        price += work.price[place]
        delay = max(delay, work.delay[place])
    log_sum = 0.0
    for h in range(work.labels.shape[0]):
        work.terms[h] = label_term(work.labels[h], instance.log_target[h])
        log_sum += work.terms[h]
    return data, log_sum, price, delay


@inlined
def _is_feasible(instance, data, log_sum):
    """Whether a set with these sums keeps (9a) and (9b)."""
    return keeps_limits(log_sum, data, instance.kld_limit, instance.data_limit)


@inlined
def _log_sum_with(instance, work, log_sum, place):
    """The sum of terms when the candidate at `place` joins those in `labels`."""
    start, label_of, label_count, _data = instance.rows
    client = instance.link_client[work.link[place]]
    for n in range(start[client], start[client + 1]):
        h = label_of[n]
        log_sum += (
            label_term(work.labels[h] + label_count[n], instance.log_target[h]) - work.terms[h]
        )
    return log_sum


@inlined
def _shortfall(instance, data, log_sum):
    """How far a set is from being a cluster."""
    if data <= 0:
        return 2.0 + instance.empty_violation
    kld = kld_of(log_sum, data) - instance.kld_limit - KLD_TOLERANCE
    missing = 1.0 - data / instance.data_limit if instance.data_limit > 0 else 0.0
    return max(0.0, kld) + max(0.0, missing)


@compiled
def _construct(instance, work, room, noise, by_price, bits):
    """A cluster by adding whoever helps most, where `by_price` for the price; added if there is one.

    Some chance enters. By price a start may run out of room with cheap clients that help little.
    """
    data_of = instance.rows.data
    free = work.counts[_FREE]
    row = work.counts[_FOUND]
    if row >= work.size.shape[0]:
        return
    size = 0
    data, log_sum, price, delay = _sums(instance, work, row, 0, NONE, NONE)
    least = 1e-9 * instance.price_scale
    while size < room and not _is_feasible(instance, data, log_sum):
        lack = _shortfall(instance, data, log_sum)
        best = NONE
        best_rate = 0.0
        for place in range(free):
            if work.is_member[place]:
                continue
            client = instance.link_client[work.link[place]]
            with_it = _log_sum_with(instance, work, log_sum, place)
            gain = lack - _shortfall(instance, data + data_of[client], with_it)
            if gain <= 0:
                continue
            extra = work.price[place] + max(0.0, work.delay[place] - delay)
            rate = gain * np.exp(noise * (uniform(bits) - 0.5))
            if by_price:
                rate /= least + extra
            if rate > best_rate:
                best_rate = rate
                best = place
        if best == NONE:
            break
        work.members[row, size] = best
        work.is_member[best] = True
        size += 1
        data, log_sum, price, delay = _sums(instance, work, row, size, NONE, NONE)
    for m in range(size):
        work.is_member[work.members[row, m]] = False
    if not _is_feasible(instance, data, log_sum):
        return
    m = 0
    while m < size:  # leave out whoever has become superfluous
        data, log_sum, price, delay = _sums(instance, work, row, size, m, NONE)
        if _is_feasible(instance, data, log_sum):
            size -= 1
            for s in range(m, size):
                work.members[row, s] = work.members[row, s + 1]
            m = 0  # KLD is not monotone: somebody before may have become so by this
        else:
            m += 1
    data, log_sum, price, delay = _sums(instance, work, row, size, NONE, NONE)
    _add_cluster(instance, work, size, price + delay)


@compiled
def _expand(instance, work, row):
    """Add the clusters that come of `row` when one or two members make room for another client."""
    size = work.size[row]
    for m in range(size):
        work.is_member[work.members[row, m]] = True
    for first in range(size):
        for second in range(first, size):
            _exchange(instance, work, row, first, NONE if second == first else second)
    for m in range(size):
        work.is_member[work.members[row, m]] = False


@compiled
def _exchange(instance, work, row, first, other):
    """Each candidate in the place of the members `first` and, unless it is -1, `other`."""
    data_of = instance.rows.data
    size = work.size[row]
    data, log_sum, price, delay = _sums(instance, work, row, size, first, other)
    for place in range(work.counts[_FREE]):
        if work.is_member[place]:
            continue
        if price + work.price[place] + delay >= _cutoff(work):
            break
        cost = price + work.price[place] + max(delay, work.delay[place])
        grown = data + data_of[instance.link_client[work.link[place]]]
        if grown < instance.data_limit or cost >= _cutoff(work):
            continue
        if not _is_feasible(instance, grown, _log_sum_with(instance, work, log_sum, place)):
            continue
        _try_exchange(instance, work, row, first, other, place, cost)
        _sums(instance, work, row, size, first, other)


@inlined
def _try_exchange(instance, work, row, first, other, place, cost):
    """Add `row` with a candidate in place of a member or two, if it is a minimal cluster."""
    new = work.counts[_FOUND]
    if new >= work.size.shape[0]:
        return
    kept = 0
    for m in range(work.size[row]):
        if m != first and m != other:
            work.members[new, kept] = work.members[row, m]
            kept += 1
    work.members[new, kept] = place
    if _is_minimal(instance, work, new, kept + 1):
        _add_cluster(instance, work, kept + 1, cost)


@inlined
def _is_minimal(instance, work, row, size):
    """Whether the set in `row` is a cluster and no member of it is superfluous."""
    start, label_of, label_count, data_of = instance.rows
    data, log_sum, _price, _delay = _sums(instance, work, row, size, NONE, NONE)
    if not _is_feasible(instance, data, log_sum):
        return False
    for m in range(size):
        client = instance.link_client[work.link[work.members[row, m]]]
        left = data - data_of[client]
        if left < instance.data_limit:
            continue
        smaller = log_sum
        for n in range(start[client], start[client + 1]):
            h = label_of[n]
            smaller += label_term(work.labels[h] - label_count[n], instance.log_target[h])
            smaller -= work.terms[h]
        if _is_feasible(instance, left, smaller):
            return False
    return True


@compiled
def _add_cluster(instance, work, size, cost):
    """Keep the cluster written in the next row, unless it is known."""
    row = work.counts[_FOUND]
    key = np.uint64(0)
    for m in range(size):
        key ^= instance.zobrist[instance.link_client[work.link[work.members[row, m]]]]
    mask = np.uint64(work.slots.shape[0] - 1)
    slot = key & mask
    while work.slots[np.int64(slot)] != 0:
        if work.key[work.slots[np.int64(slot)] - 1] == key:
            return
        slot = (slot + np.uint64(1)) & mask
    work.slots[np.int64(slot)] = row + 1
    work.key[row] = key
    work.size[row] = size
    work.cost[row] = cost
    work.counts[_FOUND] += 1
    _push_frontier(work, row)
    _rank(work, cost)


@inlined
def _cutoff(work):
    """What a cluster must cost less than to be among the cheapest."""
    return work.ranked[0] if work.counts[_RANKED] == work.ranked.shape[0] else np.inf


@compiled
def _rank(work, cost):
    """Enter a cost among the cheapest."""
    ranked = work.ranked
    count = work.counts[_RANKED]
    if count < ranked.shape[0]:
        place = count
        work.counts[_RANKED] += 1
        while place > 0 and ranked[(place - 1) // 2] < cost:
            ranked[place] = ranked[(place - 1) // 2]
            place = (place - 1) // 2
        ranked[place] = cost
        return
    if cost >= ranked[0]:
        return
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and ranked[child + 1] > ranked[child]:
            child += 1
        if ranked[child] <= cost:
            break
        ranked[place] = ranked[child]
        place = child
    ranked[place] = cost


@compiled
def _push_frontier(work, row):
    frontier, cost = work.frontier, work.cost
    place = work.counts[_FRONTIER]
    work.counts[_FRONTIER] += 1
    while place > 0 and cost[frontier[(place - 1) // 2]] > cost[row]:
        frontier[place] = frontier[(place - 1) // 2]
        place = (place - 1) // 2
    frontier[place] = row


@compiled
def _pop_frontier(work):
    """The cheapest row not expanded yet."""
    frontier, cost = work.frontier, work.cost
    top = frontier[0]
    work.counts[_FRONTIER] -= 1
    count = work.counts[_FRONTIER]
    last = frontier[count]
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and cost[frontier[child + 1]] < cost[frontier[child]]:
            child += 1
        if cost[frontier[child]] >= cost[last]:
            break
        frontier[place] = frontier[child]
        place = child
    frontier[place] = last
    return top
