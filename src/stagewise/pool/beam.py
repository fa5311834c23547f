"""A beam search for a disjoint choice: edges choose in turn, and only the best partial choices go on.

Edges choose in an order that keeps few clients between those that have chosen and those that have not.
A partial choice counts what it costs at the prices of clients, the cheapest cluster of each edge to come
that is still disjoint, and the price of whoever nobody can take any more: prices are only worth
something if somebody pays them. That is a bound on all choices it can become.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled, inlined
from stagewise.world.scenario import FloatArray, IntArray

_WORD = 64  # bits


class Beam(NamedTuple):
    """Room for a beam search over the clusters of some edges: start[a]:start[a+1] are of edge a."""

    start: IntArray
    members: npt.NDArray[np.int32]
    cost: FloatArray
    delay: FloatArray
    reduced: FloatArray
    """What each costs at the prices above its edge's cheapest one; in each edge the cheapest first."""
    unlost: FloatArray
    """The prices of a cluster's clients that no edge can take after its own."""
    mask: npt.NDArray[np.uint64]
    """The contested clients of each, as bits."""
    order: IntArray
    """The edges as they choose."""
    later: IntArray
    """Row l: the edges after the l-th that share clients with it, -1 beyond the last."""
    lost: FloatArray
    """The prices of all clients that no edge can take after the l-th."""
    lost_start: IntArray
    lost_bit: IntArray
    """Those of them that edges before may have taken."""
    bit: IntArray
    """Of each client, or -1 for one that a single edge wants at the most."""
    price: FloatArray
    """Of the client with each bit."""
    edges_left: IntArray
    """How many edges want each client that have not chosen yet."""
    last: IntArray
    """When the last edge that wants it chooses, for each client."""
    wanted: IntArray
    """For each edge the clients that it wants, -1 beyond the last."""
    used: npt.NDArray[np.uint64]
    """Of the partial choices, now and next: clients."""
    cheapest: npt.NDArray[np.int32]
    """And for each edge to come its cheapest cluster that is disjoint."""
    bound: FloatArray
    sums: FloatArray
    """And what energy costs, and the longest delay."""
    parent: npt.NDArray[np.int32]
    """When the l-th edge chose: which partial choice went on,"""
    cluster: npt.NDArray[np.int32]
    """and with which cluster."""
    heap: IntArray
    """The partial choices, now those with the least bound first, and next a heap, the worst first."""


def new_beam(edges: int, rows: int, members: int, clients: int, width: int) -> Beam:
    """Room for `edges` edges with `rows` clusters in all, and `width` partial choices."""
    words = -(-clients // _WORD)
    return Beam(
        start=np.zeros(edges + 1, dtype=np.int64),
        members=np.full((rows, members), NONE, dtype=np.int32),
        cost=np.zeros(rows),
        delay=np.zeros(rows),
        reduced=np.zeros(rows),
        unlost=np.zeros(rows),
        mask=np.zeros((rows, words), dtype=np.uint64),
        order=np.zeros(edges, dtype=np.int64),
        later=np.full((edges, edges), NONE, dtype=np.int64),
        lost=np.zeros(edges),
        lost_start=np.zeros(edges + 1, dtype=np.int64),
        lost_bit=np.zeros(clients, dtype=np.int64),
        bit=np.zeros(clients, dtype=np.int64),
        price=np.zeros(clients),
        edges_left=np.zeros(clients, dtype=np.int64),
        last=np.zeros(clients, dtype=np.int64),
        wanted=np.full((edges, clients + 1), NONE, dtype=np.int64),
        used=np.zeros((2, width, words), dtype=np.uint64),
        cheapest=np.zeros((2, width, edges), dtype=np.int32),
        bound=np.zeros((2, width)),
        sums=np.zeros((2, width, 2)),
        parent=np.zeros((edges, width), dtype=np.int32),
        cluster=np.zeros((edges, width), dtype=np.int32),
        heap=np.zeros((2, width), dtype=np.int64),
    )


@compiled
def beam_search(beam, clients, client_price, base, limit, delay_weight, choice):
    """Find a choice below `limit`; returns its cost, or `limit`.

    `beam` has the clusters in order; `base` and the reduced costs of a choice are never more than it
    costs. `choice` receives the cluster of each edge.
    """
    edges = beam.order.shape[0]
    _order_edges(beam, edges, clients)
    base += _find_lost(beam, edges, clients, client_price)
    words = _set_masks(beam, edges)
    _start(beam, edges, words, base)
    count, now = 1, 0
    for level in range(edges):
        count = _extend(beam, edges, level, now, count, words, limit)
        if count == 0:
            return limit
        now = 1 - now
    best = NONE
    for s in range(count):
        value = beam.sums[now, s, 0] + delay_weight * beam.sums[now, s, 1]
        if value < limit:
            limit = value
            best = s
    if best != NONE:
        for level in range(edges - 1, -1, -1):
            choice[beam.order[level]] = beam.cluster[level, best]
            best = beam.parent[level, best]
    return limit


@compiled
def _order_edges(beam, edges, clients):
    """Next comes the edge with which the fewest clients are between edges before and after it."""
    edges_left, seen, wanted, order = beam.edges_left, beam.last, beam.wanted, beam.order
    for i in range(clients):
        edges_left[i] = 0
        seen[i] = NONE
    for a in range(edges):
        count = 0
        for c in range(beam.start[a], beam.start[a + 1]):
            for m in range(beam.members.shape[1]):
                i = beam.members[c, m]
                if i < 0:
                    break
                if seen[i] != a:
                    seen[i] = a
                    edges_left[i] += 1
                    wanted[a, count] = i
                    count += 1
        wanted[a, count] = NONE
        order[a] = a
    bits = 0
    for i in range(clients):
        beam.bit[i] = NONE
        seen[i] = NONE
        if edges_left[i] > 1:
            beam.bit[i] = bits
            bits += 1
    for level in range(edges):
        best, least = level, clients + 1
        for place in range(level, edges):
            a = order[place]
            grows = 0
            n = 0
            while wanted[a, n] != NONE:
                i = wanted[a, n]
                if seen[i] == NONE:
                    grows += edges_left[i] > 1
                else:
                    grows -= edges_left[i] == 1
                n += 1
            if grows < least:
                best, least = place, grows
        a = order[best]
        order[best] = order[level]
        order[level] = a
        n = 0
        while wanted[a, n] != NONE:
            i = wanted[a, n]
            seen[i] = level
            edges_left[i] -= 1
            n += 1


@compiled
def _find_lost(beam, edges, clients, client_price):
    """What is lost with each edge's choice; returns the prices of clients whom no edge wants."""
    start, members, last = beam.start, beam.members, beam.last
    nobody = 0.0
    for level in range(edges):
        beam.lost[level] = 0.0
    for i in range(clients):
        if last[i] == NONE:
            nobody += client_price[i]
        else:
            beam.lost[last[i]] += client_price[i]
        if beam.bit[i] != NONE:
            beam.price[beam.bit[i]] = client_price[i]
    count = 0
    for level in range(edges):
        a = beam.order[level]
        beam.lost_start[level] = count
        n = 0
        while beam.wanted[a, n] != NONE:
            i = beam.wanted[a, n]
            if last[i] == level and beam.bit[i] != NONE and client_price[i] > 0:
                beam.lost_bit[count] = beam.bit[i]
                count += 1
            n += 1
        for c in range(start[a], start[a + 1]):
            unlost = 0.0
            for m in range(members.shape[1]):
                i = members[c, m]
                if i < 0:
                    break
                if last[i] == level:
                    unlost += client_price[i]
            beam.unlost[c] = unlost
    beam.lost_start[edges] = count
    return nobody


@compiled
def _set_masks(beam, edges):
    """Clusters as bits, and which edges share clients; returns how many words there are."""
    start, members, mask, later = beam.start, beam.members, beam.mask, beam.later
    words = 0
    for c in range(start[edges]):
        for m in range(members.shape[1]):
            if members[c, m] < 0:
                break
            words = max(words, beam.bit[members[c, m]] // _WORD + 1)
    for c in range(start[edges]):
        for w in range(words):
            mask[c, w] = np.uint64(0)
        for m in range(members.shape[1]):
            if members[c, m] < 0:
                break
            b = beam.bit[members[c, m]]
            if b != NONE:
                mask[c, b // _WORD] |= np.uint64(1) << np.uint64(b % _WORD)
    for level in range(edges):
        # Room for marks: what the edge wants.
        for n in range(beam.edges_left.shape[0]):
            if beam.wanted[beam.order[level], n] == NONE:
                break
            beam.edges_left[beam.wanted[beam.order[level], n]] = level + 1
        count = 0
        for other in range(level + 1, edges):
            a = beam.order[other]
            n = 0
            while beam.wanted[a, n] != NONE and beam.edges_left[beam.wanted[a, n]] != level + 1:
                n += 1
            if beam.wanted[a, n] != NONE:
                later[level, count] = a
                count += 1
        later[level, count] = NONE
    return words


@compiled
def _start(beam, edges, words, base):
    """One partial choice, of no edge."""
    for w in range(words):
        beam.used[0, 0, w] = np.uint64(0)
    for a in range(edges):
        beam.cheapest[0, 0, a] = beam.start[a]
        base += beam.reduced[beam.start[a]]
    beam.bound[0, 0] = base
    beam.heap[0, 0] = 0
    beam.sums[0, 0, 0] = 0.0
    beam.sums[0, 0, 1] = 0.0


@inlined
def _disjoint(mask, c, used, words):
    """Whether cluster `c` has none of the clients that are `used`."""
    shared = np.uint64(0)
    for w in range(words):
        shared |= mask[c, w] & used[w]
    return shared == 0


@compiled
def _extend(beam, edges, level, now, count, words, limit):
    """Let the next edge choose in all partial choices; returns how many there are then."""
    mask, reduced, heap = beam.mask, beam.reduced, beam.heap[1 - now]
    bounds, width = beam.bound[1 - now], heap.shape[0]
    a = beam.order[level]
    kept = 0
    ceiling = limit
    for turn in range(count):
        s = beam.heap[now, turn]
        used, cheapest = beam.used[now, s], beam.cheapest[now, s]
        lost = beam.lost[level]
        for n in range(beam.lost_start[level], beam.lost_start[level + 1]):
            b = beam.lost_bit[n]
            if used[b // _WORD] >> np.uint64(b % _WORD) & np.uint64(1):
                lost -= beam.price[b]
        others = beam.bound[now, s] - reduced[cheapest[a]]
        for c in range(cheapest[a], beam.start[a + 1]):
            bound = others + reduced[c]
            if bound >= ceiling:
                break
            bound += max(0.0, lost - beam.unlost[c])
            if bound >= ceiling or not _disjoint(mask, c, used, words):
                continue
            bound = _bound_after(beam, level, c, used, cheapest, words, bound, ceiling)
            if bound >= ceiling:
                continue
            if kept < width:
                place = kept
                kept += 1
                while place > 0 and bounds[heap[(place - 1) // 2]] < bound:
                    heap[place] = heap[(place - 1) // 2]
                    place = (place - 1) // 2
                slot = kept - 1
            else:
                slot = heap[0]
                place = _sift(heap, kept, bounds, bound)
            heap[place] = slot
            bounds[slot] = bound
            beam.parent[level, slot] = s
            beam.cluster[level, slot] = c
            if kept == width:
                ceiling = min(limit, bounds[heap[0]])
    for s in range(kept):
        _write(beam, edges, level, now, s, words)
    for last in range(kept - 1, 0, -1):
        worst, moved = heap[0], heap[last]
        heap[_sift(heap, last, bounds, bounds[moved])] = moved
        heap[last] = worst
    return kept


@inlined
def _sift(heap, count, bounds, bound):
    """Where something with `bound` belongs in place of the worst; others have moved up then."""
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and bounds[heap[child + 1]] > bounds[heap[child]]:
            child += 1
        if bounds[heap[child]] <= bound:
            break
        heap[place] = heap[child]
        place = child
    return place


@inlined
def _bound_after(beam, level, c, used, cheapest, words, bound, ceiling):
    """`bound` with the edges to come that must take another cluster because of cluster `c`."""
    mask, reduced, start, later = beam.mask, beam.reduced, beam.start, beam.later
    for n in range(later.shape[1]):
        a = later[level, n]
        if a == NONE:
            break
        least = cheapest[a]
        if _disjoint(mask, least, mask[c], words):
            continue
        other = least + 1
        while other < start[a + 1] and not (
            _disjoint(mask, other, mask[c], words) and _disjoint(mask, other, used, words)
        ):
            other += 1
        if other == start[a + 1]:
            return np.inf
        bound += reduced[other] - reduced[least]
        if bound >= ceiling:
            break
    return bound


@inlined
def _write(beam, edges, level, now, s, words):
    """Write down the partial choice that goes on as the s-th."""
    then = 1 - now
    parent, c = beam.parent[level, s], beam.cluster[level, s]
    used, cheapest = beam.used[then, s], beam.cheapest[then, s]
    for w in range(words):
        used[w] = beam.used[now, parent, w] | beam.mask[c, w]
    for n in range(level + 1, edges):
        a = beam.order[n]
        cheapest[a] = beam.cheapest[now, parent, a]
    for n in range(beam.later.shape[1]):
        a = beam.later[level, n]
        if a == NONE:
            break
        while not _disjoint(beam.mask, cheapest[a], used, words):
            cheapest[a] += 1
    beam.sums[then, s, 0] = beam.sums[now, parent, 0] + beam.cost[c]
    beam.sums[then, s, 1] = max(beam.sums[now, parent, 1], beam.delay[c])
