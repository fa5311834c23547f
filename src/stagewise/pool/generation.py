"""Cheap clusters of one edge, generated: greedy starts, then exchanges from the cheapest ones on.

Cheap clusters lie close together: exchange a member or two of a cheap one for another client, and the
result is often a cluster, too. So the cheapest cluster not yet *opened* is opened, its neighbours are
noted, and so on until the wanted number of cheapest ones stands. This misses clusters with many members
that an enumeration would find; those are seldom fully online, and in a library of a given length they
displace better ones.
"""

from typing import Any, NamedTuple

import numpy as np

from stagewise.compiled import compiled
from stagewise.problem.risk_kernels import KLD_TOLERANCE
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.search.random_bits import uniform

NOBODY = -1
_FREE, _FOUND, _WAITING, _RANKED = 0, 1, 2, 3  # slots of Bench.counts
_PRICE, _DELAY, _DATA = 0, 1, 2  # slots of Bench.base
_ROWS_PER_CLUSTER = 4  # rows for each wanted cluster: the first ones found are not the cheapest


class Bench(NamedTuple):
    """Room to generate the clusters of one edge after the other."""

    link: Any
    """The links of the edge's free candidates; clusters hold places in this list."""
    price: Any
    delay: Any
    """Each candidate's delay at the price of a second."""
    inside: Any
    members: Any
    size: Any
    cost: Any
    key: Any
    slots: Any
    """A hash table: row + 1 of the cluster with a key."""
    waiting: Any
    """Rows not opened yet, a heap with the cheapest first."""
    ranked: Any
    """The costs of the wanted cheapest, a heap with the dearest first."""
    counts: Any
    base: Any
    base_labels: Any
    labels: Any
    terms: Any
    """y log(y / q) of each label sum in `labels`."""


def new_bench(instance: Instance, wanted: int) -> Bench:
    """Room for the `wanted` cheapest clusters of any edge of `instance`."""
    candidates = int(np.diff(instance.candidate_start).max(initial=1))
    width = max(1, min(int(instance.capacity.max(initial=1)), candidates))
    rows = _ROWS_PER_CLUSTER * wanted
    labels = len(instance.target)
    return Bench(
        link=np.zeros(candidates, dtype=np.int64),
        price=np.zeros(candidates),
        delay=np.zeros(candidates),
        inside=np.zeros(candidates, dtype=np.bool_),
        members=np.zeros((rows, width), dtype=np.int32),
        size=np.zeros(rows, dtype=np.int64),
        cost=np.zeros(rows),
        key=np.zeros(rows, dtype=np.uint64),
        slots=np.zeros(1 << int(np.ceil(np.log2(2 * rows + 2))), dtype=np.int64),
        waiting=np.zeros(rows, dtype=np.int64),
        ranked=np.zeros(wanted),
        counts=np.zeros(4, dtype=np.int64),
        base=np.zeros(3),
        base_labels=np.zeros(labels, dtype=np.int64),
        labels=np.zeros(labels, dtype=np.int64),
        terms=np.zeros(labels),
    )


@compiled
def generate_clusters(instance, edge, client_price, delay_price, starts, bits, bench):
    """Fill `bench` with cheap clusters of `edge`; returns their number.

    Client i costs its energy and client_price[i], a second of the edge's delay `delay_price`.
    `starts` is the number of greedy starts.
    """
    _lay_out(instance, edge, client_price, delay_price, bench)
    candidates = instance.candidate_start[edge + 1] - instance.candidate_start[edge]
    pinned = candidates - bench.counts[_FREE]
    data, log_sum, price, delay = _sums(instance, bench, 0, 0, NOBODY, NOBODY)
    if pinned > instance.capacity[edge]:
        return 0
    if pinned > 0 and _suffices(instance, data, log_sum):
        bench.size[0] = 0  # the pinned clients are enough
        bench.cost[0] = price + delay
        return 1
    room = min(instance.capacity[edge] - pinned, bench.members.shape[1])
    for start in range(starts):
        _grow(instance, bench, room, 0.0 if start == 0 else 1.0, start % 2 == 0, bits)
    while bench.counts[_WAITING] > 0 and bench.counts[_FOUND] < bench.size.shape[0]:
        row = _pop_waiting(bench)
        if bench.cost[row] > _dearest(bench):
            break
        _open(instance, bench, row)
    return bench.counts[_FOUND]


@compiled
def _lay_out(instance, edge, client_price, delay_price, bench):
    """The candidates of `edge` and what the pinned ones among them bring."""
    start, label_of, label_count, data_of = instance.rows
    for s in range(bench.slots.shape[0]):
        bench.slots[s] = 0
    for c in range(bench.counts.shape[0]):
        bench.counts[c] = 0
    for h in range(bench.base_labels.shape[0]):
        bench.base_labels[h] = 0
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
                bench.base_labels[label_of[n]] += label_count[n]
        else:
            place = free
            while place > 0 and bench.price[place - 1] > price:  # keep them in order of price
                bench.link[place] = bench.link[place - 1]
                bench.price[place] = bench.price[place - 1]
                bench.delay[place] = bench.delay[place - 1]
                place -= 1
            bench.link[place] = link
            bench.price[place] = price
            bench.delay[place] = delay
            bench.inside[free] = False
            free += 1
    bench.counts[_FREE] = free
    bench.base[_PRICE] = base_price
    bench.base[_DELAY] = base_delay
    bench.base[_DATA] = base_data


@compiled
def _sums(instance, bench, row, size, without, without_too):
    """Sums over the first `size` members of `row` but two; leaves `labels` and `terms` behind."""
    start, label_of, label_count, data_of = instance.rows
    for h in range(bench.labels.shape[0]):
        bench.labels[h] = bench.base_labels[h]
    data = bench.base[_DATA]
    price = bench.base[_PRICE]
    delay = bench.base[_DELAY]
    for m in range(size):
        if m in (without, without_too):
            continue
        place = bench.members[row, m]
        client = instance.link_client[bench.link[place]]
        for n in range(start[client], start[client + 1]):
            bench.labels[label_of[n]] += label_count[n]
        data += data_of[client]
        price += bench.price[place]
        delay = max(delay, bench.delay[place])
    log_sum = 0.0
    for h in range(bench.labels.shape[0]):
        bench.terms[h] = _term(bench.labels[h], instance.log_target[h])
        log_sum += bench.terms[h]
    return data, log_sum, price, delay


@compiled
def _term(y, log_target):
    return y * (np.log(y) - log_target) if y > 0 else 0.0


@compiled
def _suffices(instance, data, log_sum):
    """Whether a set with these sums keeps (9a) and (9b)."""
    if data <= 0 or data < instance.data_limit:
        return False
    return log_sum / data - np.log(data) <= instance.kld_limit + KLD_TOLERANCE


@compiled
def _log_sum_with(instance, bench, log_sum, place):
    """The sum of terms when the candidate at `place` joins those in `labels`."""
    start, label_of, label_count, _data = instance.rows
    client = instance.link_client[bench.link[place]]
    for n in range(start[client], start[client + 1]):
        h = label_of[n]
        log_sum += _term(bench.labels[h] + label_count[n], instance.log_target[h]) - bench.terms[h]
    return log_sum


@compiled
def _lack(instance, data, log_sum):
    """How far a set is from being a cluster."""
    if data <= 0:
        return 2.0 + instance.empty_violation
    kld = log_sum / data - np.log(data) - instance.kld_limit - KLD_TOLERANCE
    missing = 1.0 - data / instance.data_limit if instance.data_limit > 0 else 0.0
    return max(0.0, kld) + max(0.0, missing)


@compiled
def _grow(instance, bench, room, noise, thrifty, bits):
    """A cluster by adding whoever helps most, where `thrifty` for the price; noted if there is one.

    Some chance enters. A thrifty start may run out of room with cheap clients that help little.
    """
    data_of = instance.rows[3]
    free = bench.counts[_FREE]
    row = bench.counts[_FOUND]
    if row >= bench.size.shape[0]:
        return
    size = 0
    data, log_sum, price, delay = _sums(instance, bench, row, 0, NOBODY, NOBODY)
    least = 1e-9 * instance.price_scale
    while size < room and not _suffices(instance, data, log_sum):
        lack = _lack(instance, data, log_sum)
        best = NOBODY
        best_rate = 0.0
        for place in range(free):
            if bench.inside[place]:
                continue
            client = instance.link_client[bench.link[place]]
            with_it = _log_sum_with(instance, bench, log_sum, place)
            gain = lack - _lack(instance, data + data_of[client], with_it)
            if gain <= 0:
                continue
            dearer = bench.price[place] + max(0.0, bench.delay[place] - delay)
            rate = gain * np.exp(noise * (uniform(bits) - 0.5))
            if thrifty:
                rate /= least + dearer
            if rate > best_rate:
                best_rate = rate
                best = place
        if best == NOBODY:
            break
        bench.members[row, size] = best
        bench.inside[best] = True
        size += 1
        data, log_sum, price, delay = _sums(instance, bench, row, size, NOBODY, NOBODY)
    for m in range(size):
        bench.inside[bench.members[row, m]] = False
    if not _suffices(instance, data, log_sum):
        return
    m = 0
    while m < size:  # leave out whoever has become superfluous
        data, log_sum, price, delay = _sums(instance, bench, row, size, m, NOBODY)
        if _suffices(instance, data, log_sum):
            size -= 1
            for s in range(m, size):
                bench.members[row, s] = bench.members[row, s + 1]
            m = 0  # KLD is not monotone: somebody before may have become so by this
        else:
            m += 1
    data, log_sum, price, delay = _sums(instance, bench, row, size, NOBODY, NOBODY)
    _note(instance, bench, size, price + delay)


@compiled
def _open(instance, bench, row):
    """Note the clusters that come of `row` when one or two members make room for another client."""
    size = bench.size[row]
    for m in range(size):
        bench.inside[bench.members[row, m]] = True
    for first in range(size):
        for second in range(first, size):
            _exchange(instance, bench, row, first, NOBODY if second == first else second)
    for m in range(size):
        bench.inside[bench.members[row, m]] = False


@compiled
def _exchange(instance, bench, row, first, other):
    """Each candidate in the place of the members `first` and, unless it is -1, `other`."""
    data_of = instance.rows[3]
    size = bench.size[row]
    data, log_sum, price, delay = _sums(instance, bench, row, size, first, other)
    for place in range(bench.counts[_FREE]):
        if bench.inside[place]:
            continue
        if price + bench.price[place] + delay >= _dearest(bench):
            break
        cost = price + bench.price[place] + max(delay, bench.delay[place])
        grown = data + data_of[instance.link_client[bench.link[place]]]
        if grown < instance.data_limit or cost >= _dearest(bench):
            continue
        if not _suffices(instance, grown, _log_sum_with(instance, bench, log_sum, place)):
            continue
        _try(instance, bench, row, first, other, place, cost)
        _sums(instance, bench, row, size, first, other)


@compiled
def _try(instance, bench, row, first, other, place, cost):
    """Note `row` with a candidate in place of a member or two, if it is a minimal cluster."""
    new = bench.counts[_FOUND]
    if new >= bench.size.shape[0]:
        return
    kept = 0
    for m in range(bench.size[row]):
        if m != first and m != other:
            bench.members[new, kept] = bench.members[row, m]
            kept += 1
    bench.members[new, kept] = place
    if _minimal(instance, bench, new, kept + 1):
        _note(instance, bench, kept + 1, cost)


@compiled
def _minimal(instance, bench, row, size):
    """Whether the set in `row` is a cluster and no member of it is superfluous."""
    start, label_of, label_count, data_of = instance.rows
    data, log_sum, _price, _delay = _sums(instance, bench, row, size, NOBODY, NOBODY)
    if not _suffices(instance, data, log_sum):
        return False
    for m in range(size):
        client = instance.link_client[bench.link[bench.members[row, m]]]
        left = data - data_of[client]
        if left < instance.data_limit:
            continue
        smaller = log_sum
        for n in range(start[client], start[client + 1]):
            h = label_of[n]
            smaller += _term(bench.labels[h] - label_count[n], instance.log_target[h])
            smaller -= bench.terms[h]
        if _suffices(instance, left, smaller):
            return False
    return True


@compiled
def _note(instance, bench, size, cost):
    """Keep the cluster written in the next row, unless it is known."""
    row = bench.counts[_FOUND]
    key = np.uint64(0)
    for m in range(size):
        key ^= instance.zobrist[instance.link_client[bench.link[bench.members[row, m]]]]
    mask = np.uint64(bench.slots.shape[0] - 1)
    slot = key & mask
    while bench.slots[np.int64(slot)] != 0:
        if bench.key[bench.slots[np.int64(slot)] - 1] == key:
            return
        slot = (slot + np.uint64(1)) & mask
    bench.slots[np.int64(slot)] = row + 1
    bench.key[row] = key
    bench.size[row] = size
    bench.cost[row] = cost
    bench.counts[_FOUND] += 1
    _push_waiting(bench, row)
    _rank(bench, cost)


@compiled
def _dearest(bench):
    """What a cluster must cost less than to be among the wanted ones."""
    return bench.ranked[0] if bench.counts[_RANKED] == bench.ranked.shape[0] else np.inf


@compiled
def _rank(bench, cost):
    """Enter a cost among the wanted cheapest."""
    ranked = bench.ranked
    count = bench.counts[_RANKED]
    if count < ranked.shape[0]:
        place = count
        bench.counts[_RANKED] += 1
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
def _push_waiting(bench, row):
    waiting, cost = bench.waiting, bench.cost
    place = bench.counts[_WAITING]
    bench.counts[_WAITING] += 1
    while place > 0 and cost[waiting[(place - 1) // 2]] > cost[row]:
        waiting[place] = waiting[(place - 1) // 2]
        place = (place - 1) // 2
    waiting[place] = row


@compiled
def _pop_waiting(bench):
    """The cheapest row not opened yet."""
    waiting, cost = bench.waiting, bench.cost
    top = waiting[0]
    bench.counts[_WAITING] -= 1
    count = bench.counts[_WAITING]
    last = waiting[count]
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and cost[waiting[child + 1]] < cost[waiting[child]]:
            child += 1
        if cost[waiting[child]] >= cost[last]:
            break
        waiting[place] = waiting[child]
        place = child
    waiting[place] = last
    return top
