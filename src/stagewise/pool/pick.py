"""The pick: the cheapest disjoint choice of clusters in a round.

Clients that several edges want get a price (a Lagrangian multiplier, by a few subgradient steps). With
few edges the prices give a bound; clusters above it are dropped and the few left are searched
completely. With many, each edge chooses again in turn. Edges that are left without a cluster get new
ones on the spot, and the incremental kernel polishes the result.

A library is made for the costs of a scenario. In a round whose costs are far from them, every edge gets
clusters of the round's own: generated, priced together, and generated again at these prices.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.compiled import compiled
from stagewise.exact.columns import Columns, edge_of, join, select
from stagewise.exact.packing import pack
from stagewise.pool.clusters import cheap_clusters
from stagewise.pool.generation import new_bench
from stagewise.pool.library import Library
from stagewise.pool.prices import Prices, even_prices
from stagewise.pool.pricing import NONE, improve_choice, price_clients
from stagewise.pool.stand_ins import serve_the_rest
from stagewise.search.instance import Instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.costs import LinkCosts
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_STEPS = 8
_CLOSER_STEPS = 24
_GENERATIONS = 4
LARGEST_SEARCHED = 12
"""Edges of a system whose choices are searched completely."""
_SEARCH_STEPS = 200_000
_PASSES = 5
_FEW = 4  # an edge with fewer clusters online gets new ones
_ON_THE_SPOT = 100
_ON_THE_SPOT_OF_MANY = 40
FAR = 0.3
"""Where a library no longer has the cheapest clusters (docs/pool.md): how far the energies or delays of
online clients' links are from those it was made for, in parts of these."""
_OF_ITS_OWN = 40
_PASSES_OF_ITS_OWN = 3
_STEPS_BETWEEN = 12
_POLISH = Effort(runs=1, moves_per_edge=300, start_temperature=0.02, end_temperature=0.005)


def pick_from_library(
    instance: Instance, library: Library, round_: Round, surcharge: FloatArray | None = None
) -> Found:
    """The best assignment from the clusters of `library` that are fully online.

    `surcharge` is what each client costs on top of its energy, as in `instance`.
    """
    columns, counts = online_columns(library, round_, surcharge)
    if costs_are_far(round_, library.costs):
        return _pick(instance, *_with_its_own(instance, columns, even_prices(round_.scenario)))
    lacking = np.flatnonzero(counts < _FEW).tolist()
    if lacking:
        columns = join([columns, _generate(instance, lacking, library.prices)])
    return _pick(instance, columns, library.prices)


def pick_on_the_spot(
    instance: Instance, library: Library, round_: Round, pinned: IntArray
) -> Found:
    """The same with clusters generated for this round alone, around the clients in `pinned`."""
    if costs_are_far(round_, library.costs):
        own = _with_its_own(instance, None, even_prices(round_.scenario))
        return _pick(instance, *own, pinned)
    edges = list(range(len(instance.capacity)))
    columns = _generate(instance, edges, library.prices)
    return _pick(instance, columns, library.prices, pinned)


def costs_are_far(round_: Round, usual: LinkCosts) -> bool:
    """Whether the round's costs are so far from the `usual` that a library for these does not fit."""
    now = round_.costs
    if now is usual:
        return False
    online = round_.online[round_.scenario.links.client]
    return any(
        np.abs(costs - others)[online].sum() > FAR * others[online].sum()
        for costs, others in ((now.energy_j, usual.energy_j), (now.delay_s, usual.delay_s))
    )


def _with_its_own(
    instance: Instance, columns: Columns | None, prices: Prices
) -> tuple[Columns, Prices]:
    """Besides `columns`, clusters for this round alone, and the prices they have together."""
    edges = list(range(len(instance.capacity)))
    at_hand = [] if columns is None else [columns]
    for number in range(_PASSES_OF_ITS_OWN):
        if number:
            together = _in_order(join(at_hand))
            prices = price(
                instance, together, prices, _STEPS_BETWEEN, np.inf, everyone=False
            ).prices
        at_hand.append(_generate(instance, edges, prices, _OF_ITS_OWN))
    return join(at_hand), prices


def _generate(
    instance: Instance, edges: list[int], prices: Prices, wanted: int | None = None
) -> Columns:
    """`wanted` clusters for each of `edges`, by default as many as a round has the time for."""
    many = len(instance.capacity) > LARGEST_SEARCHED
    usual = _ON_THE_SPOT_OF_MANY if many else _ON_THE_SPOT
    bench = new_bench(instance, usual if wanted is None else wanted)
    return join([cheap_clusters(instance, edge, prices, bench) for edge in edges])


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
    rows = np.empty(len(library), dtype=np.int64)
    energy = np.empty(len(library))
    delay = np.empty(len(library))
    counts = np.zeros(len(scenario.edges), dtype=np.int64)
    kept = online_clusters(
        library.start,
        library.clients,
        library.links,
        round_.online,
        link_energy,
        repeat * round_.costs.delay_s,
        uplink_energy,
        scenario.edges.uplink_delay_s,
        rows,
        energy,
        delay,
        counts,
    )
    edge = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Columns(edge, library.clients[rows[:kept]], energy[:kept], delay[:kept]), counts


def _pick(
    instance: Instance, columns: Columns, prices: Prices, pinned: IntArray | None = None
) -> Found:
    """The best choice among `columns`, besides the clients that are `pinned`."""
    edges = len(instance.capacity)
    columns = _in_order(columns)
    choose = _search if edges <= LARGEST_SEARCHED else _choose_in_turn
    chosen = choose(instance, columns, prices)
    assignment = edge_of(instance, chosen, pinned)
    unserved = np.setdiff1d(np.arange(edges), chosen.edge)
    if len(unserved):
        serve_the_rest(instance, assignment, unserved.tolist(), prices.delay)
    return local_search(instance, assignment, effort=_POLISH)


def _in_order(columns: Columns) -> Columns:
    """The same columns, edge by edge."""
    if (np.diff(columns.edge) >= 0).all():
        return columns
    return select(columns, np.argsort(columns.edge, kind="stable"))


def _search(instance: Instance, columns: Columns, prices: Prices) -> Columns:
    """The best choice by pricing and a complete search; at the worst, edges go without.

    Where the columns at hand admit no choice, the prices say which clients are short, and columns
    that spare these are generated.
    """
    for generation in range(_GENERATIONS):
        for steps in (_STEPS, _CLOSER_STEPS):
            priced = price(instance, columns, prices, steps, np.inf)
            if priced.choice is not None:
                return _finish(instance, columns, priced)
            prices = priced.prices
        if generation < _GENERATIONS - 1:
            edges = list(range(len(instance.capacity)))
            columns = _in_order(join([columns, _generate(instance, edges, prices)]))
    return _choose_in_turn(instance, columns, prices)


def _finish(instance: Instance, columns: Columns, priced: "Priced") -> Columns:
    """Drop what the bound excludes, price the rest more closely, and search what is then left."""
    edges = len(instance.capacity)
    assert priced.choice is not None
    incumbent = select(columns, priced.choice)
    for steps in (_CLOSER_STEPS, 0):
        near = np.flatnonzero(priced.reduced <= priced.limit - priced.base)
        columns, reduced = select(columns, near), priced.reduced[near]
        if (np.bincount(columns.edge, minlength=edges) == 0).any():
            return incumbent  # nothing is better than the choice at hand
        if steps == 0:
            break
        priced = price(instance, columns, priced.prices, steps, priced.limit)
        if priced.choice is not None:
            incumbent = select(columns, priced.choice)
    packing = pack(instance, columns, reduced, priced.base, priced.limit, None, steps=_SEARCH_STEPS)
    return incumbent if packing.rows is None else select(columns, packing.rows)


def _choose_in_turn(instance: Instance, columns: Columns, prices: Prices) -> Columns:
    """A good choice by pricing and second thoughts; edges may go without."""
    choice = price(instance, columns, prices, _STEPS + _CLOSER_STEPS, np.inf, everyone=False).choice
    assert choice is not None
    improve_choice(
        _starts(instance, columns),
        columns.members,
        instance.energy_weight * columns.energy,
        columns.delay,
        instance.delay_weight,
        _unserved_cost(instance, columns),
        choice,
        np.zeros(len(instance.lock)),
        _PASSES,
    )
    return select(columns, choice[choice != NONE])


@dataclass(frozen=True, eq=False)
class Priced:
    """Clusters after some pricing steps: `base` plus the reduced costs of a choice is a bound."""

    prices: Prices
    reduced: FloatArray
    base: float
    limit: float
    choice: IntArray | None
    """The rows of the best disjoint choice met, where it beats the limit given."""


def price(
    instance: Instance,
    columns: Columns,
    prices: Prices,
    steps: int,
    limit: float,
    *,
    everyone: bool = True,
) -> Priced:
    """Price the clients by subgradient steps over `columns`, which stand in order of edges.

    `everyone` says that a choice must serve every edge; otherwise an edge may go without, row -1.
    """
    edges, clients = len(instance.capacity), len(instance.lock)
    starts = _starts(instance, columns)
    reduced = np.empty(len(columns))
    choice = np.full(edges, NONE, dtype=np.int64)
    client_price, delay_price = prices.client.copy(), prices.delay.copy()
    unserved = _unserved_cost(instance, columns)
    reached = price_clients(
        starts,
        columns.members,
        instance.energy_weight * columns.energy,
        columns.delay,
        instance.delay_weight,
        unserved,
        client_price,
        delay_price,
        steps,
        limit,
        reduced,
        choice,
        np.zeros(clients, dtype=np.int64),
        np.zeros(edges, dtype=np.int64),
        np.zeros((2, clients)),
        np.zeros(edges),
    )
    incomplete = everyone and bool((choice == NONE).any())
    nobody = np.diff(starts) == 0
    padded = np.append(reduced, unserved)
    least = np.minimum.reduceat(padded, starts[:-1])
    least[nobody] = unserved
    return Priced(
        prices=Prices(client_price, delay_price),
        reduced=reduced - least[columns.edge],
        base=float(least.sum() - client_price.sum()),
        limit=limit if incomplete else float(reached),
        choice=None if incomplete else choice,
    )


def _starts(instance: Instance, columns: Columns) -> IntArray:
    return np.searchsorted(columns.edge, np.arange(len(instance.capacity) + 1))


def _unserved_cost(instance: Instance, columns: Columns) -> float:
    """More than any edge can save by going without."""
    dearest = instance.energy_weight * columns.energy + instance.delay_weight * columns.delay
    return 10.0 * (float(dearest.max(initial=0.0)) + instance.price_scale)


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
