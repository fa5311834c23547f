"""The clusters of one edge found so far: each once, the cheapest ranked, those to expand in a heap."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled, inlined
from stagewise.problem.risk_kernels import logarithms
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.search.random_bits import bits_from
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

FREE, FOUND, FRONTIER, RANKED, DATA = 0, 1, 2, 3, 4  # slots of ClusterWorkspace.counts
PRICE, DELAY = 0, 1  # slots of ClusterWorkspace.base
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
    listed: npt.NDArray[np.int32]
    """The candidates that come into question for a place."""
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
    bits: npt.NDArray[np.uint64]
    """Of the random numbers."""


class ColumnArrays(NamedTuple):
    """Columns to be written, a row for each cluster."""

    edge: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]
    energy: FloatArray
    delay: FloatArray


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
        listed=np.zeros(candidates + 1, dtype=np.int32),
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
        bits=bits_from(0),
    )


@compiled
def write_cheapest(instance, edge, work, found, columns, count):
    """Write the cheapest of the clusters found as columns from row `count` on; returns the next row."""
    energy = instance.uplink_energy[edge]
    slowest = 0.0
    for k in range(instance.candidate_start[edge], instance.candidate_start[edge + 1]):
        link = instance.candidate[k]
        if instance.lock[instance.link_client[link]] == AT_ITS_EDGE:
            energy += instance.link_energy[link]
            slowest = max(slowest, instance.link_delay[link])
    wanted = min(found, work.ranked.shape[0])
    cutoff = work.ranked[0] if found > wanted else np.inf
    below = 0
    for row in range(found):
        below += work.cost[row] < cutoff
    at_cutoff = wanted - below  # the first ones of those that cost the same
    for row in range(found):
        if work.cost[row] >= cutoff:
            if work.cost[row] > cutoff or at_cutoff == 0:
                continue
            at_cutoff -= 1
        columns.edge[count] = edge
        columns.energy[count] = energy
        columns.delay[count] = slowest
        for m in range(columns.members.shape[1]):
            columns.members[count, m] = NONE
        for m in range(work.size[row]):
            link = work.link[work.members[row, m]]
            columns.members[count, m] = instance.link_client[link]
            columns.energy[count] += instance.link_energy[link]
            columns.delay[count] = max(columns.delay[count], instance.link_delay[link])
        columns.delay[count] += instance.uplink_delay[edge]
        count += 1
    return count


@inlined
def key_of(instance, work, row, size, without, without_too):
    """What the first `size` members of `row` but two are known by."""
    key = np.uint64(0)
    for m in range(size):
        if m not in (without, without_too):
            key ^= instance.zobrist[work.client[work.members[row, m]]]
    return key


@inlined
def slot_of(work, key):
    """Where in `slots` the cluster with this key is, or belongs."""
    mask = np.uint64(work.slots.shape[0] - 1)
    slot = np.int64(key & mask)
    while work.slots[slot] != 0 and work.key[work.slots[slot] - 1] != key:
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot


@inlined
def add_cluster(work, slot, key, cost):
    """Keep the cluster written in the next row, which is not known."""
    row = work.counts[FOUND]
    work.slots[slot] = row + 1
    work.key[row] = key
    work.cost[row] = cost
    work.counts[FOUND] += 1
    _push_frontier(work, row)
    _rank(work, cost)


@inlined
def cutoff_of(work):
    """What a cluster must cost less than to be among the cheapest."""
    return work.ranked[0] if work.counts[RANKED] == work.ranked.shape[0] else np.inf


@inlined
def _rank(work, cost):
    """Enter a cost among the cheapest."""
    ranked = work.ranked
    count = work.counts[RANKED]
    if count < ranked.shape[0]:
        place = count
        work.counts[RANKED] += 1
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


@inlined
def _push_frontier(work, row):
    frontier, cost = work.frontier, work.cost
    place = work.counts[FRONTIER]
    work.counts[FRONTIER] += 1
    while place > 0 and cost[frontier[(place - 1) // 2]] > cost[row]:
        frontier[place] = frontier[(place - 1) // 2]
        place = (place - 1) // 2
    frontier[place] = row


@compiled
def pop_frontier(work):
    """The cheapest row not expanded yet."""
    frontier, cost = work.frontier, work.cost
    top = frontier[0]
    work.counts[FRONTIER] -= 1
    count = work.counts[FRONTIER]
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
