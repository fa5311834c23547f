"""The pick: the cheapest disjoint choice of clusters in a round.

Clients that several edges want get a price (a Lagrangian multiplier, by a few subgradient steps). With
few edges the prices give a bound; clusters above it are dropped and the few left are searched
completely. With many, that is done for a few neighbouring edges at a time, again and again. Edges that
are left without a cluster get new ones, and the incremental kernel polishes the result.

A library is made for the costs of a scenario. In a round whose costs are far from them, every edge gets
clusters of the round's own: generated, priced together, and generated again at these prices.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.compiled import NONE, compiled, writable
from stagewise.exact.columns import Columns, columns_of, edge_of, join, select
from stagewise.exact.packing import Budget, pack
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import even_prices
from stagewise.pool.clusters import cheap_clusters
from stagewise.pool.dive import dive
from stagewise.pool.generation import new_cluster_workspace
from stagewise.pool.library import Library
from stagewise.pool.pricing import (
    CHOOSE_EVERY,
    Choices,
    improve_choice,
    new_pricing_workspace,
    price_clients,
)
from stagewise.pool.unserved import serve_unserved
from stagewise.pool.windows import improve_in_windows
from stagewise.search.instance import Instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.state import new_state, start_from
from stagewise.search.workers import workers
from stagewise.world.costs import UNASSIGNED, LinkCosts
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_STEPS = 8
_CLOSER_STEPS = 24
_GENERATIONS = 4
LARGEST_SEARCHED = 6
"""Edges of a system whose choices are searched completely."""
_LARGEST_TRIED = 20  # edges; with more it is of no use even where windows leave limits broken
_SEARCH_STEPS = 200_000
_PASSES = 5
_ROUGH_STEPS = 12  # on all clusters, to find the likely ones
_LIKELY_CLUSTERS = 200  # of each edge, by their costs at the round's prices
_FEW = 4  # an edge with fewer clusters online gets new ones
_NEW_CLUSTERS = 100
_NEW_CLUSTERS_OF_MANY = 40
_SHARES = 16  # of the edges of a large system, generated on all cores
FAR = 0.3
"""Where a library no longer has the cheapest clusters (docs/pool.md): how far the energies or delays of
online clients' links are from those it was made for, in parts of these."""
_ROUND_CLUSTERS, _ROUND_CLUSTERS_OF_MANY = 40, 80  # of each edge, where the library does not fit
_ROUND_PASSES = 3
_STEPS_BETWEEN = 12
# Edges in violation get a few thousand moves: more have never made one feasible.
_POLISH = Effort(
    runs=1,
    moves_per_edge=300,
    start_temperature=0.02,
    end_temperature=0.005,
    fix_moves_per_edge=5_000,
)


def pick_from_library(
    instance: Instance, library: Library, round_: Round, surcharge: FloatArray | None = None
) -> Found:
    """The best assignment from the clusters of `library` that are fully online.

    `surcharge` is what each client costs on top of its energy, as in `instance`.
    """
    columns, counts = online_columns(library, round_, surcharge)
    if costs_are_far(round_, library.costs):
        own = with_round_clusters(instance, columns, even_prices(instance))
        return _pick(instance, *own, library)
    lacking = np.flatnonzero(counts < _FEW).tolist()
    if lacking:
        columns = join([columns, _generate(instance, lacking, library.prices)])
    return _pick(instance, columns, library.prices, library)


def pick_on_the_spot(
    instance: Instance, library: Library, round_: Round, pinned: IntArray
) -> Found:
    """The same with clusters generated for this round alone, around the clients in `pinned`."""
    if costs_are_far(round_, library.costs):
        own = with_round_clusters(instance, None, even_prices(instance))
        return _pick(instance, *own, library, pinned)
    edges = list(range(len(instance.capacity)))
    columns = _generate(instance, edges, library.prices)
    return _pick(instance, columns, library.prices, library, pinned)


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
    most = _ROUND_CLUSTERS_OF_MANY if len(edges) > LARGEST_SEARCHED else _ROUND_CLUSTERS
    at_hand = [] if columns is None else [columns]
    for number in range(_ROUND_PASSES):
        if number:
            together = in_order(join(at_hand))
            prices = price(
                instance, together, prices, _STEPS_BETWEEN, np.inf, everyone=False
            ).prices
        at_hand.append(_generate(instance, edges, prices, most))
    return join(at_hand), prices


def _generate(
    instance: Instance, edges: list[int], prices: Prices, max_clusters: int | None = None
) -> Columns:
    """At most `max_clusters` for each of `edges`, by default as many as a round has the time for."""
    many = len(instance.capacity) > LARGEST_SEARCHED
    usual = _NEW_CLUSTERS_OF_MANY if many else _NEW_CLUSTERS
    most = usual if max_clusters is None else max_clusters
    if len(edges) <= LARGEST_SEARCHED:
        return _generate_in_turn(instance, edges, prices, most)
    shares = [edges[first::_SHARES] for first in range(_SHARES)]
    with workers(None) as pool:
        tasks = [pool.submit(_generate_in_turn, instance, s, prices, most) for s in shares if s]
        return join([task.result() for task in tasks])


def _generate_in_turn(
    instance: Instance, edges: list[int], prices: Prices, max_clusters: int
) -> Columns:
    """What is handed to a thread: the clusters of some edges."""
    work = new_cluster_workspace(instance, max_clusters)
    return join([cheap_clusters(instance, edge, prices, work) for edge in edges])


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


def _pick(
    instance: Instance,
    columns: Columns,
    prices: Prices,
    library: Library,
    pinned: IntArray | None = None,
) -> Found:
    """The best choice among `columns`, besides the clients that are `pinned`."""
    columns = in_order(columns)
    edges = len(instance.capacity)
    found = None
    if edges > LARGEST_SEARCHED:
        assignment = _assign_in_windows(instance, columns, prices, library.near, pinned)
        found = local_search(instance, assignment, effort=_POLISH)
        if found.violation == 0 or edges > _LARGEST_TRIED:
            return found
    chosen = choose(instance, columns, prices)
    assignment = edge_of(instance, chosen, pinned)
    _serve_all(instance, chosen, assignment, prices)
    whole = local_search(instance, assignment, effort=_POLISH)
    return whole if whole.better_than(found) else found or whole


def _serve_all(
    instance: Instance, chosen: Columns, assignment: IntArray, prices: Prices
) -> IntArray:
    """Serve the edges that `chosen` leaves out, in `assignment`; returns which these were."""
    left_out = instance.in_round.copy()
    left_out[chosen.edge] = False
    unserved = np.flatnonzero(left_out)
    if len(unserved):
        serve_unserved(instance, assignment, unserved.tolist(), prices.delay)
    return unserved


def in_order(columns: Columns) -> Columns:
    """The same columns, edge by edge."""
    if (np.diff(columns.edge) >= 0).all():
        return columns
    return select(columns, np.argsort(columns.edge, kind="stable"))


def choose(instance: Instance, columns: Columns, prices: Prices) -> Columns:
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
        held = np.bincount(columns.edge, minlength=len(instance.capacity))
        if (held[instance.in_round] == 0).any():
            break  # whatever the others spare: this edge has no cluster
        if generation < _GENERATIONS - 1:
            edges = list(range(len(instance.capacity)))
            columns = in_order(join([columns, _generate(instance, edges, prices)]))
    return _choose_in_turn(instance, columns, prices)


def _finish(instance: Instance, columns: Columns, priced: "PricedColumns") -> Columns:
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
    packing = pack(
        instance, columns, reduced, priced.base, priced.limit, Budget(steps=_SEARCH_STEPS)
    )
    return incumbent if packing.rows is None else select(columns, packing.rows)


def _assign_in_windows(
    instance: Instance,
    columns: Columns,
    prices: Prices,
    near: IntArray,
    pinned: IntArray | None,
) -> IntArray:
    """A good choice by pricing, improved by a few edges at a time, and again once all are served."""
    priced = price(
        instance,
        columns,
        prices,
        _ROUGH_STEPS,
        np.inf,
        everyone=False,
        choose_every=_ROUGH_STEPS,
    )
    columns = select(columns, likely(columns, priced))
    choices = _choices(instance, columns)
    choice = dive(choices, priced.prices)
    improve_in_windows(choices, choice, priced.prices.client, near)
    chosen = select(columns, choice[choice != NONE])
    assignment = edge_of(instance, chosen, pinned)
    if not len(_serve_all(instance, chosen, assignment, prices)):
        return assignment
    columns, choice = _with_clusters_of(instance, columns, assignment)
    improve_in_windows(_choices(instance, columns), choice, priced.prices.client, near)
    return edge_of(instance, select(columns, choice[choice != NONE]), pinned)


def _with_clusters_of(
    instance: Instance, columns: Columns, assignment: IntArray
) -> tuple[Columns, IntArray]:
    """`columns` with those of `assignment`, and the row of each edge's; -1 for one in violation."""
    state = new_state(instance)
    start_from(instance, state, assignment)
    served = np.unique(assignment[assignment != UNASSIGNED])
    held = select(columns_of(instance, assignment), served[state.violation[served] == 0])
    together = join([columns, held])
    order = np.argsort(together.edge, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    choice = np.full(len(instance.capacity), NONE, dtype=np.int64)
    choice[held.edge] = place[len(columns) :]
    return select(together, order), choice


def likely(columns: Columns, priced: "PricedColumns") -> IntArray:
    """The rows of each edge's clusters that are the cheapest at the round's prices, these first."""
    ends = np.flatnonzero(np.diff(columns.edge)) + 1
    rows = []
    for first, costs in zip((0, *ends), np.split(priced.reduced, ends), strict=True):
        least = np.argpartition(costs, min(_LIKELY_CLUSTERS, len(costs)) - 1)[:_LIKELY_CLUSTERS]
        rows.append(first + least[np.argsort(costs[least], kind="stable")])
    return np.concatenate(rows)


def _choose_in_turn(instance: Instance, columns: Columns, prices: Prices) -> Columns:
    """A good choice by pricing, then improved edge by edge; edges may go without."""
    choice = price(instance, columns, prices, _STEPS + _CLOSER_STEPS, np.inf, everyone=False).choice
    assert choice is not None
    price_of_taken = np.zeros(len(instance.lock))
    improve_choice(_choices(instance, columns), choice, price_of_taken, _PASSES)
    return select(columns, choice[choice != NONE])


@dataclass(frozen=True, eq=False)
class PricedColumns:
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
    choose_every: int = CHOOSE_EVERY,
) -> PricedColumns:
    """Price the clients by subgradient steps over `columns`, which stand in order of edges.

    `everyone` says that a choice must serve every edge; otherwise an edge may go without, row -1.
    Choices take time: who wants the prices alone sets `choose_every` to `steps`.
    """
    choices = _choices(instance, columns)
    work = new_pricing_workspace(choices, prices.client, prices.delay)
    reached = price_clients(choices, steps, choose_every, limit, work)
    incomplete = everyone and bool((work.choice == NONE).any())
    padded = np.append(work.reduced, choices.unserved_cost)
    least = np.minimum.reduceat(padded, choices.start[:-1])
    least[np.diff(choices.start) == 0] = choices.unserved_cost
    return PricedColumns(
        prices=Prices(work.client_price, work.delay_price),
        reduced=work.reduced - least[columns.edge],
        base=float(least.sum() - work.client_price.sum()),
        limit=limit if incomplete else float(reached),
        choice=None if incomplete else work.choice,
    )


def _choices(instance: Instance, columns: Columns) -> Choices:
    """`columns`, which stand in order of edges, as compiled functions see them."""
    cost = instance.energy_weight * columns.energy
    largest = float((cost + instance.delay_weight * columns.delay).max(initial=0.0))
    return Choices(
        start=np.searchsorted(columns.edge, np.arange(len(instance.capacity) + 1)),
        members=columns.members,
        cost=cost,
        delay=columns.delay,
        delay_weight=instance.delay_weight,
        # More than any edge can save by going without.
        unserved_cost=10.0 * (largest + instance.price_scale),
    )


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
