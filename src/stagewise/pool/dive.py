"""A dive: edges settle one after the other, those first whose cheapest cluster nobody else wants.

Prices by themselves leave neighbours wanting the same clients, and taking turns then gives the last ones
what is left. So only some edges settle at a time. Clusters that have one of their clients are dropped,
and what is left is priced again, so that the others' prices take into account what is gone.
"""

from typing import NamedTuple

import numpy as np

from stagewise.compiled import NONE, compiled, inlined
from stagewise.exact.prices import Prices
from stagewise.pool.pricing import (
    Choices,
    PricingWorkspace,
    move_cluster,
    new_pricing_workspace,
    price_clients,
    set_members,
)
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

_FIRST_STEPS, _STEPS = 40, 8  # of pricing, first and again
_PART = 0.2  # of the edges left that settles at a time


class _Workspace(NamedTuple):
    """What is left to choose from, and who has settled."""

    choices: Choices
    row: IntArray
    """Which of all clusters each of those left is."""
    pricing: PricingWorkspace
    best: IntArray
    """The cluster of each edge in the best choice met, of all there are, or -1."""
    settled: BoolArray
    taken: BoolArray
    """The clients of the edges that have settled."""
    cheapest: IntArray
    """The cluster of each edge that costs least at the prices, or -1."""
    to_lose: FloatArray
    """What each edge pays at least if it gets another cluster."""
    reluctance: FloatArray
    """Who settles later: clients that others want count most, then little to lose."""
    queue: IntArray
    """Those that have not settled, a heap by reluctance."""


def dive(choices: Choices, prices: Prices) -> IntArray:
    """A good disjoint choice, the cluster of each edge; -1 for an edge that goes without."""
    edges, clients = len(prices.delay), len(prices.client)
    own = choices._replace(
        start=choices.start.copy(),
        members=choices.members.copy(),
        cost=choices.cost.copy(),
        delay=choices.delay.copy(),
    )
    work = _Workspace(
        choices=own,
        row=np.arange(len(choices.cost)),
        pricing=new_pricing_workspace(own, prices.client, prices.delay),
        best=np.full(edges, NONE, dtype=np.int64),
        settled=np.zeros(edges, dtype=np.bool_),
        taken=np.zeros(clients, dtype=np.bool_),
        cheapest=np.full(edges, NONE, dtype=np.int64),
        to_lose=np.zeros(edges),
        reluctance=np.zeros(edges),
        queue=np.zeros(edges, dtype=np.int64),
    )
    _dive(work)
    return work.best


@compiled
def _dive(work):
    """Price, settle some, drop what is in their way, and so on until all have settled."""
    limit = np.inf
    steps = _FIRST_STEPS
    while True:
        reached = price_clients(
            work.choices, work.taken.shape[0], steps, steps, limit, work.pricing
        )
        steps = _STEPS
        if reached < limit:
            limit = reached
            for j in range(work.best.shape[0]):
                c = work.pricing.choice[j]
                work.best[j] = NONE if c == NONE else work.row[c]
        left = _find_cheapest(work)
        if left == 0:
            break
        _weigh(work)
        _settle(work, int(np.ceil(_PART * left)))
        _drop_taken(work)


@compiled
def _find_cheapest(work):
    """Of each edge at the prices, and who wants whom; returns how many edges have not settled."""
    choices, demand, reduced = work.choices, work.pricing.demand, work.pricing.reduced
    for i in range(demand.shape[0]):
        demand[i] = 0
    left = 0
    for j in range(work.cheapest.shape[0]):
        best = NONE
        least, second = np.inf, np.inf
        for c in range(choices.start[j], choices.start[j + 1]):
            if reduced[c] < least:
                second = least
                least = reduced[c]
                best = c
            else:
                second = min(second, reduced[c])
        work.cheapest[j] = best
        work.to_lose[j] = second - least
        if best == NONE:
            work.settled[j] = True
            continue
        if not work.settled[j]:
            left += 1
        for m in range(choices.members.shape[1]):
            if choices.members[best, m] < 0:
                break
            demand[choices.members[best, m]] += 1
    return left


@compiled
def _weigh(work):
    """How reluctant each edge is to settle that has not."""
    choices, demand, reluctance = work.choices, work.pricing.demand, work.reluctance
    most = 0.0  # that an edge with another choice has to lose
    for j in range(reluctance.shape[0]):
        if not work.settled[j] and work.to_lose[j] < np.inf:
            most = max(most, work.to_lose[j])
    for j in range(reluctance.shape[0]):
        if work.settled[j]:
            continue
        wanted = 0
        for m in range(choices.members.shape[1]):
            i = choices.members[work.cheapest[j], m]
            if i < 0:
                break
            if demand[i] > 1:
                wanted += 1
        reluctance[j] = wanted * (1.0 + 2.0 * most) - min(work.to_lose[j], 2.0 * most)


@compiled
def _settle(work, count):
    """Give so many edges their cheapest clusters if these are free, the least reluctant first."""
    members, queue, reluctance = work.choices.members, work.queue, work.reluctance
    waiting = 0
    for j in range(reluctance.shape[0]):
        if not work.settled[j]:
            queue[waiting] = j
            waiting += 1
    for place in range(waiting // 2 - 1, -1, -1):
        _sift_down(queue, waiting, place, reluctance)
    while waiting > 0 and count > 0:
        j = queue[0]
        waiting -= 1
        queue[0] = queue[waiting]
        _sift_down(queue, waiting, 0, reluctance)
        c = work.cheapest[j]
        free = True
        for m in range(members.shape[1]):
            if members[c, m] < 0:
                break
            free &= not work.taken[members[c, m]]
        if free:
            set_members(members, c, work.taken, True)
            work.settled[j] = True
            count -= 1


@compiled
def _sift_down(queue, size, place, reluctance):
    """Make the first `size` of `queue` a heap again below `place`; of equals the lower is first."""
    j = queue[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(queue[child + 1], queue[child], reluctance):
            child += 1
        if not _before(queue[child], j, reluctance):
            break
        queue[place] = queue[child]
        place = child
    queue[place] = j


@inlined
def _before(j, k, reluctance):
    return reluctance[j] < reluctance[k] or (reluctance[j] == reluctance[k] and j < k)


@compiled
def _drop_taken(work):
    """Leave an edge that has settled its cluster alone, and the others what nobody has taken of."""
    choices = work.choices
    kept = 0
    for j in range(work.settled.shape[0]):
        first, last = choices.start[j], choices.start[j + 1]
        choices.start[j] = kept
        for c in range(first, last):
            keep = c == work.cheapest[j]
            if not work.settled[j]:
                keep = True
                for m in range(choices.members.shape[1]):
                    if choices.members[c, m] < 0 or not keep:
                        break
                    keep = not work.taken[choices.members[c, m]]
            if keep:
                move_cluster(choices, work.row, c, kept)
                kept += 1
    choices.start[work.settled.shape[0]] = kept
