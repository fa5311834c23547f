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
from stagewise.problem.risk_kernels import (
    keeps_limits_by_table,
    logarithms,
    tabled_term,
)
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.search.random_bits import uniform
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

_FREE, _FOUND, _FRONTIER, _RANKED, _DATA = 0, 1, 2, 3, 4  # slots of ClusterWorkspace.counts
_PRICE, _DELAY = 0, 1  # slots of ClusterWorkspace.base
_ROWS_PER_CLUSTER = 4  # rows for each cluster asked for: the first ones found are not the cheapest


class ClusterWorkspace(NamedTuple):
    """Room to generate the clusters of one edge after the other."""

    link: IntArray
    """The links of the edge's free candidates; clusters hold places in this list."""
    client: IntArray
    data: IntArray
    price: FloatArray
    delay: FloatArray
    """Each candidate's delay at the price of a second."""
    is_member: BoolArray
    members: npt.NDArray[np.int32]
    size: IntArray
    left: npt.NDArray[np.int8]
    """How many members the last one took the place of; 0 where a start made the cluster."""
    cost: FloatArray
    key: npt.NDArray[np.uint64]
    slots: IntArray
    """A hash table: row + 1 of the cluster with a key."""
    frontier: IntArray
    """Rows not expanded yet, a heap with the cheapest first."""
    ranked: FloatArray
    """The costs of the cheapest so far, a heap with the most expensive first."""
    counts: IntArray
    """How many there are of several things, and the data of the pinned clients."""
    base: FloatArray
    """What the pinned clients cost, and their delay."""
    base_labels: IntArray
    labels: IntArray
    terms: FloatArray
    """y log(y / q) of each label sum in `labels`."""
    y_log_y: FloatArray
    """Indexed by y."""


def new_cluster_workspace(instance: Instance, max_clusters: int) -> ClusterWorkspace:
    """Room for the `max_clusters` cheapest clusters of any edge of `instance`."""
    candidates = int(np.diff(instance.candidate_start).max(initial=1))
    width = max(1, min(int(instance.capacity.max(initial=1)), candidates))
    rows = _ROWS_PER_CLUSTER * max_clusters
    labels = len(instance.target)
    return ClusterWorkspace(
        link=np.zeros(candidates, dtype=np.int64),
        client=np.zeros(candidates, dtype=np.int64),
        data=np.zeros(candidates, dtype=np.int64),
        price=np.zeros(candidates),
        delay=np.zeros(candidates),
        is_member=np.zeros(candidates, dtype=np.bool_),
        members=np.zeros((rows, width), dtype=np.int32),
        size=np.zeros(rows, dtype=np.int64),
        left=np.zeros(rows, dtype=np.int8),
        cost=np.zeros(rows),
        key=np.zeros(rows, dtype=np.uint64),
        slots=np.zeros(1 << int(np.ceil(np.log2(2 * rows + 2))), dtype=np.int64),
        frontier=np.zeros(rows, dtype=np.int64),
        ranked=np.zeros(max_clusters),
        counts=np.zeros(5, dtype=np.int64),
        base=np.zeros(2),
        base_labels=np.zeros(labels, dtype=np.int64),
        labels=np.zeros(labels, dtype=np.int64),
        terms=np.zeros(labels),
        y_log_y=logarithms(),
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
    data, price, delay = _totals(work, 0, 0, NONE, NONE)
    log_sum = _count_labels(instance, work, 0, 0, NONE, NONE)
    if pinned > instance.capacity[edge]:
        return 0
    if not instance.in_round[edge] or (pinned > 0 and _is_feasible(instance, work, data, log_sum)):
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
    free = 0
    for k in range(instance.candidate_start[edge], instance.candidate_start[edge + 1]):
        link = instance.candidate[k]
        client = instance.link_client[link]
        price = instance.energy_weight * instance.link_energy[link] + client_price[client]
        delay = delay_price * instance.link_delay[link]
        if instance.lock[client] == AT_ITS_EDGE:
            base_price += price
            base_delay = max(base_delay, delay)
            work.counts[_DATA] += data_of[client]
            for n in range(start[client], start[client + 1]):
                work.base_labels[label_of[n]] += label_count[n]
        else:
            place = free
            while place > 0 and work.price[place - 1] > price:  # keep them in order of price
                work.link[place] = work.link[place - 1]
                work.client[place] = work.client[place - 1]
                work.data[place] = work.data[place - 1]
                work.price[place] = work.price[place - 1]
                work.delay[place] = work.delay[place - 1]
                place -= 1
            work.link[place] = link
            work.client[place] = client
            work.data[place] = data_of[client]
            work.price[place] = price
            work.delay[place] = delay
            work.is_member[free] = False
            free += 1
    work.counts[_FREE] = free
    work.base[_PRICE] = base_price
    work.base[_DELAY] = base_delay


@inlined
def _totals(work, row, size, without, without_too):
    """Data, price and delay of the first `size` members of `row` but two."""
    data = work.counts[_DATA]
    price = work.base[_PRICE]
    delay = work.base[_DELAY]
    for m in range(size):
        if m not in (without, without_too):
            place = work.members[row, m]
            data += work.data[place]
            price += work.price[place]
            delay = max(delay, work.delay[place])
    return data, price, delay


@compiled
def _count_labels(instance, work, row, size, without, without_too):
    """Count the labels of the same; returns the sum of `terms`."""
    for h in range(work.labels.shape[0]):
        work.labels[h] = work.base_labels[h]
    start, label_of, label_count, _data = instance.rows
    for m in range(size):
        if m not in (without, without_too):
            client = work.client[work.members[row, m]]
            for n in range(start[client], start[client + 1]):
                work.labels[label_of[n]] += label_count[n]
    log_sum = 0.0
    for h in range(work.labels.shape[0]):
        work.terms[h] = tabled_term(work.labels[h], instance.log_target[h], work.y_log_y)
        log_sum += work.terms[h]
    return log_sum


@inlined
def _is_feasible(instance, work, data, log_sum):
    """Whether a set with these sums keeps (9a) and (9b)."""
    limits = instance.kld_limit, instance.data_limit
    return keeps_limits_by_table(log_sum, data, limits[0], limits[1], work.y_log_y)


@inlined
def _log_sum_with(instance, work, log_sum, client, sign):
    """The sum of terms when `client` joins those in `labels`, or with sign -1 leaves them."""
    start, label_of, label_count, _data = instance.rows
    for n in range(start[client], start[client + 1]):
        h = label_of[n]
        y = work.labels[h] + sign * label_count[n]
        log_sum += tabled_term(y, instance.log_target[h], work.y_log_y) - work.terms[h]
    return log_sum


@inlined
def _shortfall(instance, work, data, log_sum):
    """How far a set is from being a cluster."""
    if data <= 0:
        return 2.0 + instance.empty_violation
    # Eq. 7 by the table
    kld = (log_sum - tabled_term(data, 0.0, work.y_log_y)) / data
    missing = 1.0 - data / instance.data_limit if instance.data_limit > 0 else 0.0
    return max(0.0, kld - instance.kld_limit - KLD_TOLERANCE) + max(0.0, missing)


@compiled
def _construct(instance, work, room, noise, by_price, bits):
    """A cluster by adding whoever helps most, where `by_price` for the price; added if there is one.

    Some chance enters. By price a start may run out of room with cheap clients that help little.
    """
    free = work.counts[_FREE]
    row = work.counts[_FOUND]
    if row >= work.size.shape[0]:
        return
    size = 0
    data, price, delay = _totals(work, row, 0, NONE, NONE)
    log_sum = _count_labels(instance, work, row, 0, NONE, NONE)
    least = 1e-9 * instance.price_scale
    while size < room and not _is_feasible(instance, work, data, log_sum):
        lack = _shortfall(instance, work, data, log_sum)
        best = NONE
        best_rate = 0.0
        for place in range(free):
            if work.is_member[place]:
                continue
            with_it = _log_sum_with(instance, work, log_sum, work.client[place], 1)
            gain = lack - _shortfall(instance, work, data + work.data[place], with_it)
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
        data, price, delay = _totals(work, row, size, NONE, NONE)
        log_sum = _count_labels(instance, work, row, size, NONE, NONE)
    for m in range(size):
        work.is_member[work.members[row, m]] = False
    if not _is_feasible(instance, work, data, log_sum):
        return
    m = 0
    while m < size:  # leave out whoever has become superfluous
        data, price, delay = _totals(work, row, size, m, NONE)
        log_sum = _count_labels(instance, work, row, size, m, NONE)
        if _is_feasible(instance, work, data, log_sum):
            size -= 1
            for s in range(m, size):
                work.members[row, s] = work.members[row, s + 1]
            m = 0  # KLD is not monotone: somebody before may have become so by this
        else:
            m += 1
    data, price, delay = _totals(work, row, size, NONE, NONE)
    _add_cluster(instance, work, size, 0, price + delay)


@compiled
def _expand(instance, work, row):
    """Add the clusters that come of `row` when one or two members make room for another client.

    Who joined last is not exchanged for others: these were tried in its place when it joined.
    """
    size = work.size[row]
    for m in range(size):
        work.is_member[work.members[row, m]] = True
    for first in range(size - (work.left[row] > 0)):
        for second in range(first, size - (work.left[row] == 1)):
            _exchange(instance, work, row, first, NONE if second == first else second)
    for m in range(size):
        work.is_member[work.members[row, m]] = False


@compiled
def _exchange(instance, work, row, first, other):
    """Each candidate in the place of the members `first` and, unless it is -1, `other`."""
    size = work.size[row]
    data, price, delay = _totals(work, row, size, first, other)
    cutoff = _cutoff(work)
    log_sum = 0.0
    counted = False  # labels take most of the time, and often nobody comes into question
    for place in range(work.counts[_FREE]):
        if work.is_member[place]:
            continue
        cost = price + work.price[place]
        if cost + delay >= cutoff:
            break
        cost += max(delay, work.delay[place])
        grown = data + work.data[place]
        if grown < instance.data_limit or cost >= cutoff:
            continue
        if not counted:
            log_sum = _count_labels(instance, work, row, size, first, other)
            counted = True
            if _is_feasible(instance, work, data, log_sum):
                break  # whoever comes is superfluous
        grown_sum = _log_sum_with(instance, work, log_sum, work.client[place], 1)
        if _is_feasible(instance, work, grown, grown_sum):
            _try_exchange(instance, work, row, first, other, place, cost, grown, grown_sum)
            cutoff = _cutoff(work)


@inlined
def _try_exchange(instance, work, row, first, other, place, cost, data, log_sum):
    """Add `row` with a candidate in place of a member or two, if it is a minimal cluster.

    `labels` are those without the candidate, before and after.
    """
    new = work.counts[_FOUND]
    if new >= work.size.shape[0]:
        return
    kept = 0
    for m in range(work.size[row]):
        if m not in (first, other):
            work.members[new, kept] = work.members[row, m]
            kept += 1
    work.members[new, kept] = place
    _change_labels(instance, work, place, 1)
    minimal = _is_minimal(instance, work, new, kept, data, log_sum)
    _change_labels(instance, work, place, -1)
    if minimal:
        _add_cluster(instance, work, kept + 1, work.size[row] - kept, cost)


@inlined
def _change_labels(instance, work, place, sign):
    """Add the labels of a candidate, or take them away."""
    start, label_of, label_count, _data = instance.rows
    client = work.client[place]
    for n in range(start[client], start[client + 1]):
        h = label_of[n]
        work.labels[h] += sign * label_count[n]
        work.terms[h] = tabled_term(work.labels[h], instance.log_target[h], work.y_log_y)


@inlined
def _is_minimal(instance, work, row, count, data, log_sum):
    """Whether none of the first `count` members of the cluster in `row` is superfluous."""
    for m in range(count):
        place = work.members[row, m]
        left = data - work.data[place]
        if left < instance.data_limit:
            continue
        smaller = _log_sum_with(instance, work, log_sum, work.client[place], -1)
        if _is_feasible(instance, work, left, smaller):
            return False
    return True


@compiled
def _add_cluster(instance, work, size, left, cost):
    """Keep the cluster written in the next row, unless it is known."""
    row = work.counts[_FOUND]
    key = np.uint64(0)
    for m in range(size):
        key ^= instance.zobrist[work.client[work.members[row, m]]]
    mask = np.uint64(work.slots.shape[0] - 1)
    slot = key & mask
    while work.slots[np.int64(slot)] != 0:
        if work.key[work.slots[np.int64(slot)] - 1] == key:
            return
        slot = (slot + np.uint64(1)) & mask
    work.slots[np.int64(slot)] = row + 1
    work.key[row] = key
    work.size[row] = size
    work.left[row] = left
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
