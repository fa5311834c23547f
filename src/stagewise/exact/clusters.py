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
    log_target: Any
    cover_price: Any
    """Shape (candidates + 1, labels): the least price for covering a label from here on."""
    data_price: Any
    """Shape (candidates + 1,): the least price of one sample from here on."""
    droppable: int
    """How many labels may stay uncovered at the most."""


def build_market(
    instance: Instance, edge: int, client_price: FloatArray, delay_price: float
) -> Market:
    """The candidates of `edge` when client i costs its energy and client_price[i] on top.

    `delay_price` is the price of a second of the edge's delay; `client_price` is not negative.
    """
    start, label_of, label_count, data_of = instance.rows
    links = instance.candidate[instance.candidate_start[edge] : instance.candidate_start[edge + 1]]
    pinned = instance.lock[instance.link_client[links]] == AT_ITS_EDGE
    always, free = links[pinned], links[~pinned]
    price = instance.energy_weight * instance.link_energy[free]
    price = price + client_price[instance.link_client[free]]
    order = np.argsort(price, kind="stable")
    free, price = free[order], price[order]
    clients = instance.link_client[free]
    labels = len(instance.target)
    rows = [np.arange(start[c], start[c + 1]) for c in clients]
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    row_start = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    base_labels = np.zeros(labels, dtype=np.int64)
    for client in instance.link_client[always]:
        row = slice(start[client], start[client + 1])
        base_labels[label_of[row]] += label_count[row]
    cover = np.full((len(free) + 1, labels), np.inf)
    sample = np.full(len(free) + 1, np.inf)
    for place in range(len(free) - 1, -1, -1):
        cover[place] = cover[place + 1]
        held = label_of[rows[place]]
        cover[place, held] = np.minimum(cover[place, held], price[place] / len(held))
        sample[place] = min(sample[place + 1], price[place] / data_of[clients[place]])
    base_energy = instance.link_energy[always].sum()
    base_price = instance.energy_weight * (base_energy + instance.uplink_energy[edge])
    base_price += client_price[instance.link_client[always]].sum()
    base_price += delay_price * instance.uplink_delay[edge]
    # Absent labels A force a divergence of -log(1 - Q(A)) at the least.
    allowed = -np.expm1(-instance.kld_limit) + KLD_TOLERANCE
    droppable = int(np.searchsorted(np.cumsum(np.sort(instance.target)), allowed, side="right"))
    return Market(
        edge=edge,
        link=free,
        price=price,
        delay=delay_price * instance.link_delay[free],
        size=data_of[clients],
        start=row_start.astype(np.int64),
        label=label_of[flat],
        amount=label_count[flat],
        base_labels=base_labels,
        base_data=int(data_of[instance.link_client[always]].sum()),
        base_delay=float(delay_price * instance.link_delay[always].max(initial=0.0)),
        base_price=float(base_price),
        base_count=len(always),
        capacity=int(instance.capacity[edge]),
        kld_limit=float(instance.kld_limit),
        data_limit=float(instance.data_limit),
        log_target=instance.log_target,
        cover_price=cover,
        data_price=sample,
        droppable=droppable,
    )


@compiled
def enumerate_clusters(market, cap, best_only, budget, members, sizes, prices, stack, sums):
    """Clusters with a price of at most `cap`, into `members` (places in the market), until full.

    With `best_only` the cap falls to the cheapest cluster met, which is then the last one written.
    Returns (clusters written, nodes visited, 1 if the search was complete). `stack` has room for
    capacity + 1 integers; `sums` has shape (capacity + 2, labels + 3) as floats.
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
        return 0, 0, 1
    if market.base_count > 0 and _within(market, sums, 0, labels):
        sizes[0] = 0
        prices[0] = sums[0, labels + 1] + sums[0, labels + 2]
        return (1 if prices[0] <= cap else 0), 1, 1
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
        if nodes > budget:
            return written, nodes, 0
        for h in range(labels):
            sums[depth + 1, h] = sums[depth, h]
        for k in range(market.start[place], market.start[place + 1]):
            sums[depth + 1, market.label[k]] += market.amount[k]
        sums[depth + 1, labels] = sums[depth, labels] + market.size[place]
        sums[depth + 1, labels + 1] = price
        sums[depth + 1, labels + 2] = delay
        if _within(market, sums, depth + 1, labels):
            if best_only:
                cap = price + delay
                written = 0
            elif written >= sizes.shape[0]:
                return written, nodes, 0
            for d in range(depth + 1):
                members[written, d] = stack[d]
            sizes[written] = depth + 1
            prices[written] = price + delay
            written += 1
            continue  # a superset is never better
        depth += 1
        stack[depth] = place
    return written, nodes, 1


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
