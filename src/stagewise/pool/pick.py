"""The pick: the cheapest disjoint choice of clusters in a round.

Clients that several edges want get a price (a Lagrangian multiplier, by a few subgradient steps). The
prices give a bound; clusters above it are dropped and the few left are searched completely.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.compiled import compiled
from stagewise.exact.clusters import build_market
from stagewise.exact.columns import NOBODY, Columns, enumerate_columns, join, select
from stagewise.exact.packing import pack
from stagewise.pool.library import Library, Prices
from stagewise.pool.pricing import price_clients
from stagewise.search.instance import Instance
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

STEPS = (8, 24)
_SEARCH_STEPS = 200_000
_GENERATED = 1_000  # clusters made on the spot for an edge that has none
_NODES = 400_000


def pick_from_library(instance: Instance, library: Library, round_: Round) -> IntArray | None:
    """The edge of each client by the clusters of `library` that are fully online.

    An edge that has none left gets new ones on the spot. None where some edge can have no cluster,
    or the clusters at hand admit no disjoint choice.
    """
    columns, counts = _online_columns(library, round_)
    for edge in np.flatnonzero(counts == 0).tolist():
        columns = join([columns, generate(instance, edge, library.prices)])
    return _pick(instance, columns, library.prices)


def pick_on_the_spot(instance: Instance, prices: Prices) -> IntArray | None:
    """The same with clusters generated for this round alone: for rounds with pinned clients."""
    edges = range(len(instance.capacity))
    return _pick(instance, join([generate(instance, edge, prices) for edge in edges]), prices)


def generate(instance: Instance, edge: int, prices: Prices) -> Columns:
    """Cheap clusters of one edge, as far as a short search finds them."""
    market = build_market(instance, edge, prices.client, float(prices.delay[edge]))
    best = enumerate_columns(instance, market, np.inf, most=1, nodes=_NODES, best_only=True)
    if len(best.columns) == 0:
        return best.columns
    nothing = np.zeros(len(instance.capacity))
    least = float(best.columns.reduced_costs(instance, nothing, prices.client, prices.delay)[0])
    more = enumerate_columns(instance, market, 1.3 * least, most=_GENERATED, nodes=_NODES)
    return join([best.columns, more.columns])


def _online_columns(library: Library, round_: Round) -> tuple[Columns, IntArray]:
    """The clusters of the library that are fully online, at this round's costs, and their numbers."""
    scenario = round_.scenario
    repeat = float(scenario.edge_rounds)
    rows = np.empty(len(library), dtype=np.int64)
    energy = np.empty(len(library))
    delay = np.empty(len(library))
    counts = np.zeros(len(scenario.edges), dtype=np.int64)
    kept = online_clusters(
        library.start,
        library.clients,
        library.links,
        round_.online,
        repeat * round_.costs.energy_j,
        repeat * round_.costs.delay_s,
        scenario.edges.uplink_energy_j,
        scenario.edges.uplink_delay_s,
        rows,
        energy,
        delay,
        counts,
    )
    edge = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Columns(edge, library.clients[rows[:kept]], energy[:kept], delay[:kept]), counts


def _pick(instance: Instance, columns: Columns, prices: Prices) -> IntArray | None:
    edges = len(instance.capacity)
    if (np.bincount(columns.edge, minlength=edges) == 0).any():
        return None
    if (np.diff(columns.edge) < 0).any():
        columns = select(columns, np.argsort(columns.edge, kind="stable"))
    incumbent: Columns | None = None
    limit = np.inf
    # A few steps over all clusters show which matter; the many steps then go over these alone.
    for steps in STEPS:
        priced = _price(instance, columns, prices, steps, limit)
        if priced.choice is not None:
            incumbent, limit = select(columns, priced.choice), priced.limit
        near = np.flatnonzero(priced.reduced <= limit - priced.base)
        columns, prices = select(columns, near), priced.prices
        if (np.bincount(columns.edge, minlength=edges) == 0).any():
            break  # nothing is better than the choice at hand
    else:
        reduced = priced.reduced[near]
        packing = pack(instance, columns, reduced, priced.base, limit, None, steps=_SEARCH_STEPS)
        if packing.rows is not None:
            incumbent = select(columns, packing.rows)
    if incumbent is None:
        return None
    edge_of = np.full(len(instance.lock), NOBODY, dtype=np.int64)
    for edge, members in zip(incumbent.edge, incumbent.members, strict=True):
        edge_of[members[members != NOBODY]] = edge
    return edge_of


@dataclass(frozen=True, eq=False)
class _Priced:
    """Clusters after some pricing steps: `base` plus the reduced costs of a choice is a bound."""

    prices: Prices
    reduced: FloatArray
    base: float
    limit: float
    choice: IntArray | None
    """The rows of the best disjoint choice met, where it beats the limit given."""


def _price(
    instance: Instance, columns: Columns, prices: Prices, steps: int, limit: float
) -> _Priced:
    edges, clients = len(instance.capacity), len(instance.lock)
    starts = np.searchsorted(columns.edge, np.arange(edges + 1))
    reduced = np.empty(len(columns))
    choice = np.full(edges, -1, dtype=np.int64)
    client_price, delay_price = prices.client.copy(), prices.delay.copy()
    limit = price_clients(
        starts,
        columns.members,
        instance.energy_weight * columns.energy,
        columns.delay,
        instance.delay_weight,
        client_price,
        delay_price,
        steps,
        limit,
        reduced,
        choice,
        np.zeros((2, clients), dtype=np.int64),
        np.zeros((2, edges), dtype=np.int64),
        np.zeros(clients),
        np.zeros(edges),
    )
    least = np.minimum.reduceat(reduced, starts[:-1])
    return _Priced(
        prices=Prices(client_price, delay_price),
        reduced=reduced - least[columns.edge],
        base=float(least.sum() - client_price.sum()),
        limit=float(limit),
        choice=None if choice[0] < 0 else choice,
    )


@compiled
def online_clusters(
    start,
    clients,
    links,
    online,
    link_energy,
    link_delay,
    uplink_energy,
    uplink_delay,
    rows,
    energy,
    delay,
    counts,
):
    """The clusters whose members are all online, with their energy and delay in this round."""
    kept = 0
    for j in range(start.shape[0] - 1):
        for row in range(start[j], start[j + 1]):
            spent = uplink_energy[j]
            slowest = 0.0
            there = True
            for m in range(clients.shape[1]):
                if clients[row, m] < 0:
                    break
                if not online[clients[row, m]]:
                    there = False
                    break
                spent += link_energy[links[row, m]]
                slowest = max(slowest, link_delay[links[row, m]])
            if there:
                rows[kept] = row
                energy[kept] = spent
                delay[kept] = slowest + uplink_delay[j]
                kept += 1
                counts[j] += 1
    return kept
