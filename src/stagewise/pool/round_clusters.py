"""The clusters that a round chooses from: of the library those that are online, or its own.

A library is made for the costs of a scenario. In a round whose costs are far from them, every edge gets
clusters of the round's own: generated, priced together, and generated again at these prices.
"""

import numpy as np

from stagewise.compiled import compiled, writable
from stagewise.exact.columns import Columns, join, select
from stagewise.exact.prices import Prices
from stagewise.pool.clusters import STARTS, clusters_of_edges
from stagewise.pool.library import Library
from stagewise.pool.priced_columns import in_order, price
from stagewise.pool.sizes import FEW_EDGES, MANY_EDGES
from stagewise.search.instance import Instance
from stagewise.search.workers import workers
from stagewise.world.costs import LinkCosts
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_NEW_CLUSTERS, _NEW_CLUSTERS_OF_MANY = 100, 40
_SHARES = 16  # of the edges, where clusters are generated on all cores
_WORTH_THREADS = 2_000  # clusters; fewer are there before the threads are
FAR = 0.3
"""Where a library no longer has the cheapest clusters (docs/pool.md): how far the energies or delays of
online clients' links are from those it was made for, in parts of these."""
_ROUND_CLUSTERS, _MORE_ROUND_CLUSTERS = 40, 80  # of each edge, where the library does not fit
_PASSES = 3
_STEPS_BETWEEN, _MORE_STEPS_BETWEEN = 12, 40


def costs_are_far(round_: Round, usual: LinkCosts) -> bool:
    """Whether the round's costs are so far from the `usual` that a library for these does not fit."""
    now = round_.costs
    if now is usual:
        return False
    usable = round_.usable
    return any(
        np.abs(costs - others)[usable].sum() > FAR * others[usable].sum()
        for costs, others in ((now.energy_j, usual.energy_j), (now.delay_s, usual.delay_s))
    )


def with_round_clusters(
    instance: Instance, columns: Columns | None, prices: Prices
) -> tuple[Columns, Prices]:
    """Besides `columns`, clusters for this round alone, and the prices they have together."""
    edges = list(range(len(instance.capacity)))
    most, steps = _ROUND_CLUSTERS, _STEPS_BETWEEN
    if FEW_EDGES < len(edges) <= MANY_EDGES:
        most, steps = _MORE_ROUND_CLUSTERS, _MORE_STEPS_BETWEEN
    found = [] if columns is None else [columns]
    for number in range(_PASSES):
        if number:
            together = in_order(join(found))
            prices = price(
                instance, together, prices, steps, np.inf, everyone=False, choose_every=steps
            ).prices
        found.append(new_clusters(instance, edges, prices, most))
    return each_once(instance, in_order(join(found))), prices


def each_once(instance: Instance, columns: Columns) -> Columns:
    """Each cluster of `columns`, which stand in order of edges, once; the first where some repeat."""
    rows = np.empty(len(columns), dtype=np.int64)
    slots = np.zeros((1 << int(2 * len(columns) + 1).bit_length(), 2), dtype=np.uint64)
    count = find_distinct(columns.edge, columns.members, instance.zobrist, slots, rows)
    return select(columns, rows[:count])


def new_clusters(
    instance: Instance,
    edges: list[int],
    prices: Prices,
    max_clusters: int | None = None,
    starts: int = STARTS,
) -> Columns:
    """At most `max_clusters` for each of `edges`, by default as many as a round has the time for."""
    many = len(instance.capacity) > FEW_EDGES
    usual = _NEW_CLUSTERS_OF_MANY if many else _NEW_CLUSTERS
    most = usual if max_clusters is None else max_clusters
    if len(edges) * most < _WORTH_THREADS:
        return clusters_of_edges(instance, edges, prices, most, starts)
    share = -(-len(edges) // _SHARES)
    with workers(None) as pool:
        tasks = [
            pool.submit(clusters_of_edges, instance, part, prices, most, starts)
            for part in (edges[first : first + share] for first in range(0, len(edges), share))
        ]
        return join([task.result() for task in tasks])


def online_columns(
    library: Library, round_: Round, surcharge: FloatArray | None = None
) -> tuple[Columns, IntArray]:
    """The clusters of the library that are fully online, at this round's costs, and their numbers."""
    scenario = round_.scenario
    repeat = float(scenario.edge_rounds)
    link_energy, uplink_energy = repeat * round_.costs.energy_j, scenario.edges.uplink_energy_j
    if surcharge is not None:
        weight = scenario.weights.energy
        link_energy = weight * link_energy + surcharge[scenario.links.client]
        uplink_energy = weight * uplink_energy
    edges, size = len(scenario.edges), len(library)
    row, counts = np.empty(size, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    energy, delay = np.empty((2, size))
    costs = link_energy, repeat * round_.costs.delay_s, uplink_energy, scenario.edges.uplink_delay_s
    own = map(writable, (round_.usable, *costs))
    kept = online_clusters(library.start, library.links, *own, row, energy, delay, counts)
    edge = np.repeat(np.arange(edges, dtype=np.int32), counts)
    return Columns(edge, library.clients[row[:kept]], energy[:kept], delay[:kept]), counts


@compiled
def find_distinct(edge, members, zobrist, slots, rows):
    """Note the rows of clusters that no row before has; returns how many there are.

    `slots` is a hash table: the edge + 1 and the key of each cluster.
    """
    mask = np.uint64(slots.shape[0] - 1)
    count = 0
    for row in range(edge.shape[0]):
        key = np.uint64(0)
        for m in range(members.shape[1]):
            if members[row, m] < 0:
                break
            key ^= zobrist[members[row, m]]
        owner = np.uint64(edge[row] + 1)
        slot = np.int64(key & mask)
        while slots[slot, 0] != 0 and (slots[slot, 0] != owner or slots[slot, 1] != key):
            slot = np.int64(np.uint64(slot + 1) & mask)
        if slots[slot, 0] == 0:
            slots[slot, 0] = owner
            slots[slot, 1] = key
            rows[count] = row
            count += 1
    return count


@compiled
def online_clusters(
    start,
    links,
    usable,
    link_energy,
    link_delay,
    uplink_energy,
    uplink_delay,
    rows,
    energies,
    delays,
    counts,
):
    """Find the clusters all of whose links are usable, with their energy and delay in this round.

    Their rows in the library, energies and delays come one after the other, and `counts` says how many
    each edge has.
    """
    kept = 0
    for j in range(start.shape[0] - 1):
        for row in range(start[j], start[j + 1]):
            energy = uplink_energy[j]
            slowest = 0.0
            complete = True
            for m in range(links.shape[1]):
                link = links[row, m]
                if link < 0:
                    break
                if not usable[link]:
                    complete = False
                    break
                energy += link_energy[link]
                slowest = max(slowest, link_delay[link])
            if complete:
                rows[kept] = row
                energies[kept] = energy
                delays[kept] = slowest + uplink_delay[j]
                counts[j] += 1
                kept += 1
    return kept
