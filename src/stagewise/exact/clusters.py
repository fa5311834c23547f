"""All clusters of one edge below a cost cap: a depth-first search with bounds.

A *cluster* is a set of clients that keeps the edge's limits. Only clusters that are not known to hold
a smaller one are of interest: a client more adds cost and takes a client from the other edges.
"""

from typing import Any, NamedTuple

import numpy as np

from stagewise.compiled import compiled
from stagewise.problem.risk_kernels import KLD_TOLERANCE
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.world.scenario import FloatArray

_LOOK = 0xFFFF  # nodes between two looks at the stop flag


class Market(NamedTuple):
    """The free candidates of one edge, cheapest first, and what is always there."""

    edge: int
    link: Any
    """The link of each candidate."""
    price: Any
    """What each candidate costs; not negative."""
    delay: Any
    size: Any
    """The data of each candidate."""
    start: Any
    label: Any
    amount: Any
    """Label counts in compressed rows."""
    base_labels: Any
    base_data: int
    base_delay: float
    base_price: float
    base_count: int
    capacity: int
    kld_limit: float
    data_limit: float
    target: Any
    log_target: Any
    cover_price: Any
    """Shape (candidates + 1, labels): the least price for covering a label from here on."""
    data_price: Any
    """Shape (candidates + 1,): the least price of one sample from here on."""
    droppable: int
    """How many labels may stay uncovered at the most."""


def build_market(
    instance: Instance,
    edge: int,
    client_price: FloatArray,
    delay_price: float,
    delay_limit: float = np.inf,
) -> Market:
    """The candidates of `edge` when client i costs its energy and client_price[i] on top.

    `delay_price` is the price of a second of the edge's delay; `client_price` is not negative, and
    infinite for a client not to be had. Links that would make the edge slower than `delay_limit` are
    left out.
    """
    start, label_of, label_count, data_of = instance.rows
    links = instance.candidate[instance.candidate_start[edge] : instance.candidate_start[edge + 1]]
    slow = instance.link_delay[links] + instance.uplink_delay[edge] > delay_limit
    pinned = instance.lock[instance.link_client[links]] == AT_ITS_EDGE
    to_be_had = np.isfinite(client_price[instance.link_client[links]])
    always, free = links[pinned], links[~pinned & ~slow & to_be_had]
    price = instance.energy_weight * instance.link_energy[free]
    price = price + client_price[instance.link_client[free]]
    order = np.lexsort((instance.link_delay[free], price))
    free, price = free[order], price[order]
    clients = instance.link_client[free]
    labels = len(instance.target)
    held = start[clients + 1] - start[clients]
    row_start = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
    flat = np.arange(row_start[-1]) + np.repeat(start[clients] - row_start[:-1], held)
    base_labels = np.zeros(labels, dtype=np.int64)
    for client in instance.link_client[always]:
        row = slice(start[client], start[client + 1])
        base_labels[label_of[row]] += label_count[row]
    base_energy = instance.link_energy[always].sum()
    base_price = instance.energy_weight * (base_energy + instance.uplink_energy[edge])
    base_price += client_price[instance.link_client[always]].sum()
    base_price += delay_price * instance.uplink_delay[edge]
    # Absent labels A force a divergence of -log(1 - Q(A)) at the least.
    allowed = -np.expm1(-instance.kld_limit) + KLD_TOLERANCE
    droppable = int(np.searchsorted(np.cumsum(np.sort(instance.target)), allowed, side="right"))
    cover = np.full((len(free) + 1, labels), np.inf)
    sample = np.full(len(free) + 1, np.inf)
    label, size = label_of[flat], data_of[clients]
    _fill_least_prices(price, size, row_start, label, cover, sample)
    return Market(
        edge=edge,
        link=free,
        price=price,
        delay=delay_price * instance.link_delay[free],
        size=size,
        start=row_start,
        label=label,
        amount=label_count[flat],
        base_labels=base_labels,
        base_data=int(data_of[instance.link_client[always]].sum()),
        base_delay=float(delay_price * instance.link_delay[always].max(initial=0.0)),
        base_price=float(base_price),
        base_count=len(always),
        # Too slow with the pinned clients alone: no room for any cluster.
        capacity=-1 if (pinned & slow).any() else int(instance.capacity[edge]),
        kld_limit=float(instance.kld_limit),
        data_limit=float(instance.data_limit),
        target=instance.target,
        log_target=instance.log_target,
        cover_price=cover,
        data_price=sample,
        droppable=droppable,
    )


@compiled
def _fill_least_prices(price, size, start, label, cover, sample):
    """From the last candidate to the first, the least price of a label and of a sample so far."""
    for place in range(price.shape[0] - 1, -1, -1):
        for h in range(cover.shape[1]):
            cover[place, h] = cover[place + 1, h]
        held = start[place + 1] - start[place]
        for k in range(start[place], start[place + 1]):
            cover[place, label[k]] = min(cover[place, label[k]], price[place] / held)
        sample[place] = min(sample[place + 1], price[place] / size[place])


@compiled
def enumerate_clusters(market, cap, best_only, budget, stop, members, sizes, stack, sums):
    """Clusters with a price of at most `cap`, into `members` (places in the market), until full.

    With `best_only` only clusters cheaper than all before are written, each over the one before. The
    search ends early after `budget` nodes, or when `stop[0]` is set. Returns (clusters written, nodes
    visited, 1 if the search was complete, a price that no cluster left out of an incomplete search is
    below). `stack` has room for capacity + 1 integers; `sums` has shape (capacity + 2, labels + 3).
    """
    labels = market.log_target.shape[0]
    count = market.price.shape[0]
    written = 0
    nodes = 0
    depth = 0
    room = market.capacity - market.base_count
    # Row d of `sums`: label sums, then data, price without delay, delay of the first d members.
    for h in range(labels):
        sums[0, h] = market.base_labels[h]
    sums[0, labels] = market.base_data
    sums[0, labels + 1] = market.base_price
    sums[0, labels + 2] = market.base_delay
    stack[0] = -1
    if room < 0:
        return 0, 0, 1, np.inf
    if market.base_count > 0 and _within(market, sums, 0, labels):
        sizes[0] = 0
        cheap = market.base_price + market.base_delay <= cap
        return (1 if cheap else 0), 1, 1, np.inf
    while depth >= 0:
        stack[depth] += 1
        place = stack[depth]
        if place >= count or depth >= room:
            depth -= 1
            continue
        price = sums[depth, labels + 1] + market.price[place]
        if price + sums[depth, labels + 2] > cap:
            depth -= 1  # every later candidate is dearer
            continue
        spent = sums[depth, labels + 1] + sums[depth, labels + 2]
        if spent + _completion(market, sums, depth, place, labels) > cap:
            depth -= 1  # and from later candidates on it costs no less
            continue
        delay = max(sums[depth, labels + 2], market.delay[place])
        if price + delay > cap:
            continue
        nodes += 1
        if nodes > budget or (nodes & _LOOK == 0 and stop[0] != 0):
            return written, nodes, 0, _left_out(market, sums, stack, depth, labels)
        for h in range(labels):
            sums[depth + 1, h] = sums[depth, h]
        for k in range(market.start[place], market.start[place + 1]):
            sums[depth + 1, market.label[k]] += market.amount[k]
        sums[depth + 1, labels] = sums[depth, labels] + market.size[place]
        sums[depth + 1, labels + 1] = price
        sums[depth + 1, labels + 2] = delay
        if _within(market, sums, depth + 1, labels):
            if best_only:
                cap = np.nextafter(price + delay, -np.inf)
                written = 0
            elif written >= sizes.shape[0]:
                return written, nodes, 0, _left_out(market, sums, stack, depth, labels)
            for d in range(depth + 1):
                members[written, d] = stack[d]
            sizes[written] = depth + 1
            written += 1
            continue  # a superset is never better
        depth += 1
        stack[depth] = place
    return written, nodes, 1, np.inf


@compiled
def _left_out(market, sums, stack, depth, labels):
    """A price that no cluster still to be visited is below."""
    least = np.inf
    for d in range(depth + 1):
        # What is to come at a higher depth begins with the member chosen there.
        place = stack[d] if d == depth else stack[d] + 1
        if place < market.price.shape[0]:
            spent = sums[d, labels + 1] + sums[d, labels + 2]
            least = min(least, spent + _completion(market, sums, d, place, labels))
    return least


@compiled
def _within(market, sums, row, labels):
    """Whether the first members keep (9a) and (9b)."""
    total = sums[row, labels]
    if total <= 0 or total < market.data_limit:
        return False
    value = 0.0
    for h in range(labels):
        y = sums[row, h]
        if y > 0:
            value += y * (np.log(y) - market.log_target[h])
    return value / total - np.log(total) <= market.kld_limit + KLD_TOLERANCE


@compiled
def _least_price(market, sums, depth, place, labels, cap):
    """A lower bound on a cluster of the first `depth` members and others from `place` on.

    The bounds are tried one after the other until one is above `cap`.
    """
    delay = sums[depth, labels + 2]
    least = sums[depth, labels + 1] + delay + _completion(market, sums, depth, place, labels)
    data = max(market.data_limit, sums[depth, labels])
    for v in range(market.mean_price.shape[0]):
        if least > cap:
            break
        bound = sums[depth, labels + 3 + v] + delay + data * market.mean_price[v]
        bound += market.rest[v, place]
        largest = 0.0
        for h in range(labels):
            if sums[depth, h] == 0:
                bound += market.label_price[v, 0, h]
                largest = max(largest, market.label_price[v, 0, h])
        least = max(least, bound - market.droppable * largest)
    return least


@compiled
def _completion(market, sums, depth, place, labels):
    """A lower bound on what members from `place` on must cost to make the set a cluster.

    Covering: a client's price shared among its labels pays for each label it covers, so the sum of
    the least shares over uncovered labels is a bound, less the dearest that may stay uncovered.
    """
    missing = market.data_limit - sums[depth, labels]
    by_data = missing * market.data_price[place] if missing > 0 else 0.0
    total = 0.0
    spare = market.droppable
    for h in range(labels):
        if sums[depth, h] == 0:
            share = market.cover_price[place, h]
            if share == np.inf:
                spare -= 1  # nobody left holds it
            else:
                total += share
    if spare < 0:
        return np.inf
    ceiling = np.inf
    while spare > 0 and total > by_data:  # take off the dearest that may stay uncovered
        dearest = 0.0
        ties = 0
        for h in range(labels):
            share = market.cover_price[place, h]
            if sums[depth, h] == 0 and share < ceiling:
                if share > dearest:
                    dearest = share
                    ties = 1
                elif share == dearest:
                    ties += 1
        if ties == 0:
            break
        ties = min(ties, spare)
        total -= ties * dearest
        spare -= ties
        ceiling = dearest
    return max(by_data, total)
