"""All clusters of one edge below a cost cap: a depth-first search with bounds.

A *cluster* is a set of clients that keeps the edge's limits. Only clusters that are not known to hold
a smaller one are of interest: a client more adds cost and takes a client from the other edges.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import compiled, inlined
from stagewise.exact.cuts import Cuts
from stagewise.exact.prices import Prices
from stagewise.problem.risk_kernels import keeps_limits, logarithms, tabled_term
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import FloatArray, IntArray

_STOP_MASK = 0xFFFF  # nodes between two looks at the stop flag


class EdgeCandidates(NamedTuple):
    """The free candidates of one edge, cheapest first, and what its pinned clients bring."""

    edge: int
    link: IntArray
    """The link of each candidate."""
    price: FloatArray
    """What each candidate costs; not negative."""
    delay: FloatArray
    """Each candidate's delay at the price of a second."""
    size: IntArray
    """The data of each candidate."""
    start: IntArray
    label: IntArray
    amount: IntArray
    """Label counts in compressed rows."""
    base_labels: IntArray
    base_data: int
    base_delay: float
    base_price: float
    base_count: int
    in_round: bool
    """Whether the edge needs clients at all."""
    capacity: int
    kld_limit: float
    data_limit: float
    target: FloatArray
    log_target: FloatArray
    y_log_y: FloatArray
    """Indexed by y."""
    cover_price: FloatArray
    """Shape (candidates + 1, labels): the least price for covering a label from here on."""
    data_price: FloatArray
    """Shape (candidates + 1,): the least price of one sample from here on."""
    droppable: int
    """How many labels may stay uncovered at the most."""
    cut_start: IntArray
    cut: IntArray
    """The cuts that each candidate is an item of, in compressed rows."""
    cut_price: FloatArray
    cut_base: IntArray
    """How many items of each cut every cluster of the edge has: the edge itself."""


def edge_candidates(
    instance: Instance, edge: int, prices: Prices, delay_limit: float = np.inf
) -> EdgeCandidates:
    """The candidates of `edge` when client i costs its energy and its price on top.

    Prices are not negative, and infinite for a client that is not available. Links that would make
    the edge slower than `delay_limit` are left out.
    """
    client_price, delay_price = prices.client, float(prices.delay[edge])
    start, label_of, label_count, data_of = instance.rows
    links = instance.candidate[instance.candidate_start[edge] : instance.candidate_start[edge + 1]]
    slow = instance.link_delay[links] + instance.uplink_delay[edge] > delay_limit
    pinned = instance.lock[instance.link_client[links]] == AT_ITS_EDGE
    available = np.isfinite(client_price[instance.link_client[links]])
    always, free = links[pinned], links[~pinned & ~slow & available]
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
    return EdgeCandidates(
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
        in_round=bool(instance.in_round[edge]),
        # Too slow with the pinned clients alone: no room for any cluster.
        capacity=-1 if (pinned & slow).any() else int(instance.capacity[edge]),
        kld_limit=float(instance.kld_limit),
        data_limit=float(instance.data_limit),
        target=instance.target,
        log_target=instance.log_target,
        y_log_y=logarithms(),
        cover_price=cover,
        data_price=sample,
        droppable=droppable,
        **_cuts_of(prices.cuts, clients, len(instance.lock) + edge),
    )


def _cuts_of(cuts: Cuts, clients: IntArray, edge: int) -> dict[str, npt.NDArray[Any]]:
    """The cuts that clusters of `clients` at one edge, an item itself, may have to pay."""
    at_edge = (cuts.items == edge).sum(axis=1)
    member = (cuts.items[:, :, None] == clients).any(axis=1)  # shape (cuts, clients)
    kept = (member.sum(axis=1) + at_edge >= 2) & (cuts.price > 0)
    place, cut = np.nonzero(member[kept].T)
    return {
        "cut_start": np.searchsorted(place, np.arange(len(clients) + 1)),
        "cut": cut,
        "cut_price": cuts.price[kept],
        "cut_base": at_edge[kept],
    }


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


class EnumerationWorkspace(NamedTuple):
    """Room for one enumeration, and the clusters it finds."""

    stop: npt.NDArray[np.int8]
    """Another thread may end the search by setting stop[0]."""
    members: npt.NDArray[np.int32]
    """Row r holds the first size[r] members of a cluster, as places among the candidates."""
    size: IntArray
    stack: IntArray
    sums: FloatArray
    """Row d: label sums, then data, price without delay, delay of the first d members."""
    cut_count: IntArray
    """How many items of each cut the members so far are."""


def new_enumeration_workspace(
    candidates: EdgeCandidates, rows: int, stop: npt.NDArray[np.int8]
) -> EnumerationWorkspace:
    """Room for `rows` clusters of these candidates."""
    width, labels = max(1, candidates.capacity - candidates.base_count), len(candidates.target)
    return EnumerationWorkspace(
        stop=stop,
        members=np.empty((rows, width), dtype=np.int32),
        size=np.empty(rows, dtype=np.int64),
        stack=np.zeros(width + 2, dtype=np.int64),
        sums=np.zeros((width + 2, labels + 3)),
        cut_count=candidates.cut_base.copy(),
    )


@compiled
def enumerate_clusters(candidates, cap, best_only, budget, work):
    """Clusters with a price of at most `cap`, into `work.members`, until full.

    With `best_only` only clusters cheaper than all before are written, each over the one before. The
    search ends early after `budget` nodes, or when `work.stop[0]` is set. Returns (clusters written,
    nodes visited, 1 if the search was complete, a price that no cluster left out of an incomplete
    search is below).
    """
    members, sizes, stack, sums = work.members, work.size, work.stack, work.sums
    labels = candidates.log_target.shape[0]
    count = candidates.price.shape[0]
    written = 0
    nodes = 0
    depth = 0
    room = candidates.capacity - candidates.base_count
    for h in range(labels):
        sums[0, h] = candidates.base_labels[h]
    sums[0, labels] = candidates.base_data
    sums[0, labels + 1] = candidates.base_price
    sums[0, labels + 2] = candidates.base_delay
    stack[0] = -1
    if room < 0:
        return 0, 0, 1, np.inf
    if not candidates.in_round or (
        candidates.base_count > 0 and _within(candidates, sums, 0, labels)
    ):
        sizes[0] = 0
        cheap = candidates.base_price + candidates.base_delay <= cap
        return (1 if cheap else 0), 1, 1, np.inf
    while depth >= 0:
        stack[depth] += 1
        place = stack[depth]
        finished = place >= count or depth >= room
        if not finished:
            price = sums[depth, labels + 1] + candidates.price[place]
            spent = sums[depth, labels + 1] + sums[depth, labels + 2]
            # Every later candidate is more expensive, and from there on it costs no less.
            finished = (
                price + sums[depth, labels + 2] > cap
                or spent + _completion(candidates, sums, depth, place, labels) > cap
            )
        if finished:
            depth -= 1
            if depth >= 0:
                _count_items(candidates, work.cut_count, stack[depth], -1)
            continue
        delay = max(sums[depth, labels + 2], candidates.delay[place])
        if price + delay > cap:
            continue
        for k in range(candidates.cut_start[place], candidates.cut_start[place + 1]):
            if work.cut_count[candidates.cut[k]] == 1:
                price += candidates.cut_price[candidates.cut[k]]
        if price + delay > cap:
            continue
        nodes += 1
        if nodes > budget or (nodes & _STOP_MASK == 0 and work.stop[0] != 0):
            return written, nodes, 0, _left_out(candidates, sums, stack, depth, labels)
        for h in range(labels):
            sums[depth + 1, h] = sums[depth, h]
        for k in range(candidates.start[place], candidates.start[place + 1]):
            sums[depth + 1, candidates.label[k]] += candidates.amount[k]
        sums[depth + 1, labels] = sums[depth, labels] + candidates.size[place]
        sums[depth + 1, labels + 1] = price
        sums[depth + 1, labels + 2] = delay
        if _within(candidates, sums, depth + 1, labels):
            if best_only:
                cap = np.nextafter(price + delay, -np.inf)
                written = 0
            elif written >= sizes.shape[0]:
                return written, nodes, 0, _left_out(candidates, sums, stack, depth, labels)
            for d in range(depth + 1):
                members[written, d] = stack[d]
            sizes[written] = depth + 1
            written += 1
            continue  # a superset is never better
        _count_items(candidates, work.cut_count, place, 1)
        depth += 1
        stack[depth] = place
    return written, nodes, 1, np.inf


@inlined
def _count_items(candidates, cut_count, place, change):
    """Count the candidate at `place` as an item of its cuts, or no longer."""
    for k in range(candidates.cut_start[place], candidates.cut_start[place + 1]):
        cut_count[candidates.cut[k]] += change


@compiled
def _left_out(candidates, sums, stack, depth, labels):
    """A price that no cluster still to be visited is below."""
    least = np.inf
    for d in range(depth + 1):
        # What is to come at a higher depth begins with the member chosen there.
        place = stack[d] if d == depth else stack[d] + 1
        if place < candidates.price.shape[0]:
            spent = sums[d, labels + 1] + sums[d, labels + 2]
            least = min(least, spent + _completion(candidates, sums, d, place, labels))
    return least


@inlined
def _within(candidates, sums, row, labels):
    """Whether the first members keep (9a) and (9b)."""
    if sums[row, labels] < candidates.data_limit:
        return False
    y_log_y = candidates.y_log_y
    log_sum = 0.0
    for h in range(labels):
        log_sum += tabled_term(np.int64(sums[row, h]), candidates.log_target[h], y_log_y)
    data = np.int64(sums[row, labels])
    return keeps_limits(log_sum, data, candidates.kld_limit, candidates.data_limit, y_log_y)


@inlined
def _completion(candidates, sums, depth, place, labels):
    """A lower bound on what members from `place` on must cost to make the set a cluster.

    Covering: a client's price shared among its labels pays for each label it covers, so the sum of
    the least shares over uncovered labels is a bound, less the most expensive that may stay uncovered.
    """
    missing = candidates.data_limit - sums[depth, labels]
    by_data = missing * candidates.data_price[place] if missing > 0 else 0.0
    total = 0.0
    spare = candidates.droppable
    for h in range(labels):
        if sums[depth, h] == 0:
            share = candidates.cover_price[place, h]
            if share == np.inf:
                spare -= 1  # nobody left holds it
            else:
                total += share
    if spare < 0:
        return np.inf
    ceiling = np.inf
    while spare > 0 and total > by_data:  # take off the most expensive that may stay uncovered
        largest = 0.0
        ties = 0
        for h in range(labels):
            share = candidates.cover_price[place, h]
            if sums[depth, h] == 0 and share < ceiling:
                if share > largest:
                    largest = share
                    ties = 1
                elif share == largest:
                    ties += 1
        if ties == 0:
            break
        ties = min(ties, spare)
        total -= ties * largest
        spare -= ties
        ceiling = largest
    return max(by_data, total)
