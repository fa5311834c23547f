"""Cheap clusters of one edge, generated: greedy starts, then exchanges from the cheapest ones on.

Cheap clusters lie close together: exchange a member or two of a cheap one for another client, and the
result is often a cluster, too. So the cheapest cluster not yet *expanded* is expanded, its neighbours
are added, and so on until the cheapest ones asked for stand. This misses clusters with many
members that an enumeration would find; those are seldom fully online, and in a library of a given
length they displace better ones.
"""

import numpy as np

from stagewise.compiled import NONE, compiled, inlined
from stagewise.pool.found_clusters import (
    DATA,
    DELAY,
    FOUND,
    FREE,
    FRONTIER,
    PRICE,
    add_cluster,
    cutoff_of,
    key_of,
    pop_frontier,
    slot_of,
    write_cheapest,
)
from stagewise.problem.risk_kernels import keeps_limits, tabled_term
from stagewise.search.instance import AT_ITS_EDGE
from stagewise.search.random_bits import seed_bits, uniform
from stagewise.world.divergence import KLD_TOLERANCE


@compiled
def generate_of_edges(instance, edges, client_price, delay_price, starts, work, columns):
    """Write the cheapest clusters of each of `edges` into `columns`; returns how many there are."""
    count = 0
    for n in range(edges.shape[0]):
        edge = edges[n]
        found = generate_clusters(instance, edge, client_price, delay_price[edge], starts, work)
        count = write_cheapest(instance, edge, work, found, columns, count)
    return count


@compiled
def generate_clusters(instance, edge, client_price, delay_price, starts, work):
    """Fill `work` with cheap clusters of `edge`; returns their number.

    Client i costs its energy and client_price[i], a second of the edge's delay `delay_price`.
    `starts` is the number of greedy starts.
    """
    seed_bits(work.bits, edge)
    _load_candidates(instance, edge, client_price, delay_price, work)
    candidates = instance.candidate_start[edge + 1] - instance.candidate_start[edge]
    pinned = candidates - work.counts[FREE]
    data, price, delay = _totals(work, 0, 0, NONE, NONE)
    log_sum = _count_labels(instance, work, 0, 0, NONE)
    if pinned > instance.capacity[edge]:
        return 0
    if not instance.in_round[edge] or (pinned > 0 and _is_feasible(instance, work, data, log_sum)):
        work.size[0] = 0  # the pinned clients are enough, or nobody is needed
        work.cost[0] = price + delay
        return 1
    room = min(instance.capacity[edge] - pinned, work.members.shape[1])
    for start in range(starts):
        _construct(instance, work, room, 0.0 if start == 0 else 1.0, start % 2 == 0)
    while work.counts[FRONTIER] > 0 and work.counts[FOUND] < work.size.shape[0]:
        row = pop_frontier(work)
        if work.cost[row] > cutoff_of(work):
            break
        _expand(instance, work, row)
    return work.counts[FOUND]


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
            work.counts[DATA] += data_of[client]
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
    work.counts[FREE] = free
    work.base[PRICE] = base_price
    work.base[DELAY] = base_delay


@inlined
def _totals(work, row, size, without, without_too):
    """Data, price and delay of the first `size` members of `row` but two."""
    data = work.counts[DATA]
    price = work.base[PRICE]
    delay = work.base[DELAY]
    for m in range(size):
        if m not in (without, without_too):
            place = work.members[row, m]
            data += work.data[place]
            price += work.price[place]
            delay = max(delay, work.delay[place])
    return data, price, delay


@compiled
def _count_labels(instance, work, row, size, without):
    """Count the labels of the first `size` members of `row` but one; returns the sum of `terms`."""
    for h in range(work.labels.shape[0]):
        work.labels[h] = work.base_labels[h]
    start, label_of, label_count, _data = instance.rows
    for m in range(size):
        if m != without:
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
    return keeps_limits(log_sum, data, limits[0], limits[1], work.y_log_y)


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
def _construct(instance, work, room, noise, by_price):
    """A cluster by adding whoever helps most, where `by_price` for the price; added if there is one.

    Some chance enters. By price a start may run out of room with cheap clients that help little.
    """
    free = work.counts[FREE]
    row = work.counts[FOUND]
    if row >= work.size.shape[0]:
        return
    size = 0
    data, price, delay = _totals(work, row, 0, NONE, NONE)
    log_sum = _count_labels(instance, work, row, 0, NONE)
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
            rate = gain * np.exp(noise * (uniform(work.bits) - 0.5))
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
        log_sum = _count_labels(instance, work, row, size, NONE)
    for m in range(size):
        work.is_member[work.members[row, m]] = False
    if not _is_feasible(instance, work, data, log_sum):
        return
    m = 0
    while m < size:  # leave out whoever has become superfluous
        data, price, delay = _totals(work, row, size, m, NONE)
        log_sum = _count_labels(instance, work, row, size, m)
        if _is_feasible(instance, work, data, log_sum):
            size -= 1
            for s in range(m, size):
                work.members[row, s] = work.members[row, s + 1]
            m = 0  # KLD is not monotone: somebody before may have become so by this
        else:
            m += 1
    data, price, delay = _totals(work, row, size, NONE, NONE)
    work.size[row] = size
    work.left[row] = 0
    key = key_of(instance, work, row, size, NONE, NONE)
    slot = slot_of(work, key)
    if work.slots[slot] == 0:
        add_cluster(work, slot, key, price + delay)


@compiled
def _expand(instance, work, row):
    """Add the clusters that come of `row` when one or two members make room for another client.

    Who joined last is not exchanged for others: these were tried in its place when it joined.
    """
    size = work.size[row]
    log_sum = _count_labels(instance, work, row, size, NONE)
    for m in range(size):
        work.is_member[work.members[row, m]] = True
    for first in range(size - (work.left[row] > 0)):
        without = _change_labels(instance, work, work.members[row, first], log_sum, -1)
        for second in range(first, size - (work.left[row] == 1)):
            left, other = without, NONE
            if second != first:
                other = second
                left = _change_labels(instance, work, work.members[row, second], without, -1)
            _exchange(instance, work, row, first, other, left)
            if second != first:
                _change_labels(instance, work, work.members[row, second], left, 1)
        _change_labels(instance, work, work.members[row, first], without, 1)
    for m in range(size):
        work.is_member[work.members[row, m]] = False


@inlined
def _exchange(instance, work, row, first, other, log_sum):
    """Each candidate in the place of the members `first` and, unless it is -1, `other`.

    `labels` are those of the rest, and their terms sum to `log_sum`.
    """
    data, price, delay = _totals(work, row, work.size[row], first, other)
    key = key_of(instance, work, row, work.size[row], first, other)
    if _is_feasible(instance, work, data, log_sum):
        return  # whoever comes is superfluous
    cutoff = cutoff_of(work)
    wanted = instance.data_limit - data
    count = 0
    for place in range(work.counts[FREE]):
        if price + work.price[place] + delay >= cutoff:
            break
        work.listed[count] = place
        count += (work.data[place] >= wanted) & (not work.is_member[place])
    for n in range(count):
        place = work.listed[n]
        cost = price + work.price[place] + max(delay, work.delay[place])
        if cost >= cutoff:
            continue
        grown = data + work.data[place]
        grown_sum = _log_sum_with(instance, work, log_sum, work.client[place], 1)
        if not _is_feasible(instance, work, grown, grown_sum):
            continue
        whole_key = key ^ instance.zobrist[work.client[place]]
        slot = slot_of(work, whole_key)
        if work.slots[slot] == 0 and work.counts[FOUND] < work.size.shape[0]:
            _write_exchange(work, row, first, other, place)
            _change_labels(instance, work, place, log_sum, 1)
            minimal = _is_minimal(instance, work, grown, grown_sum)
            _change_labels(instance, work, place, log_sum, -1)
            if minimal:
                add_cluster(work, slot, whole_key, cost)
                cutoff = cutoff_of(work)


@inlined
def _write_exchange(work, row, first, other, place):
    """Write `row` with a candidate in place of a member or two where the next cluster belongs."""
    new = work.counts[FOUND]
    kept = 0
    for m in range(work.size[row]):
        if m not in (first, other):
            work.members[new, kept] = work.members[row, m]
            kept += 1
    work.members[new, kept] = place
    work.size[new] = kept + 1
    work.left[new] = work.size[row] - kept


@inlined
def _change_labels(instance, work, place, log_sum, sign):
    """Add the labels of a candidate, or take them away; returns the sum of terms."""
    start, label_of, label_count, _data = instance.rows
    client = work.client[place]
    for n in range(start[client], start[client + 1]):
        h = label_of[n]
        work.labels[h] += sign * label_count[n]
        log_sum -= work.terms[h]
        work.terms[h] = tabled_term(work.labels[h], instance.log_target[h], work.y_log_y)
        log_sum += work.terms[h]
    return log_sum


@inlined
def _is_minimal(instance, work, data, log_sum):
    """Whether none but the last member of the cluster in the next row may be superfluous."""
    row = work.counts[FOUND]
    for m in range(work.size[row] - 1):
        place = work.members[row, m]
        left = data - work.data[place]
        if left < instance.data_limit:
            continue
        smaller = _log_sum_with(instance, work, log_sum, work.client[place], -1)
        if _is_feasible(instance, work, left, smaller):
            return False
    return True
