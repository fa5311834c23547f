"""The pick: the cheapest disjoint choice of clusters in a round.

Clients that several edges want get a price (a Lagrangian multiplier, by a few subgradient steps). With
few edges the prices give a bound; clusters above it are dropped and the few left are searched
completely. With more, a beam search chooses, or very many edges settle one after the other by these
prices, and then a few neighbouring ones at a time choose again. Edges that are left without a cluster
get new ones, and the incremental kernel polishes the result.
"""

from dataclasses import replace

import numpy as np

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns, columns_of, edge_of, join, select
from stagewise.exact.packing import Budget, pack
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import even_prices
from stagewise.pool.library import Library
from stagewise.pool.priced_columns import PricedColumns, choices_of, in_order, likely, price
from stagewise.pool.pricing import improve_choice
from stagewise.pool.round_clusters import (
    costs_are_far,
    each_once,
    new_clusters,
    online_columns,
    with_round_clusters,
)
from stagewise.pool.sizes import FEW_EDGES, MANY_EDGES, SOME_EDGES
from stagewise.pool.unserved import serve_unserved
from stagewise.pool.windows import choose_in_windows, improve_in_windows
from stagewise.search.instance import Instance
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.search.state import new_state, start_from
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray

_STEPS = 8
_CLOSER_STEPS = 24
_GENERATIONS = 4
_SEARCH_STEPS = 200_000
_PASSES = 5
_ROUGH_STEPS, _ROUGH_STEPS_OF_MANY = 12, 6  # on all clusters, to find the likely ones
_LIKELY, _LIKELY_OF_MANY = 200, 120  # clusters of each edge
_AT_PRICES, _STARTS_AT_PRICES = 20, 3  # clusters of each edge at the round's own prices
_FEW = 4  # an edge with fewer clusters online gets new ones
# Edges in violation get a few thousand moves: more have never made one feasible.
_POLISH = Effort(
    runs=1,
    moves_per_edge=300,
    start_temperature=0.02,
    end_temperature=0.005,
    fix_moves_per_edge=5_000,
)
# After windows there is next to nothing to find.
_BRIEF_POLISH = replace(_POLISH, moves_per_edge=30)


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
        columns = join([columns, new_clusters(instance, lacking, library.prices)])
    return _pick(instance, columns, library.prices, library)


def pick_on_the_spot(
    instance: Instance, library: Library, round_: Round, pinned: IntArray
) -> Found:
    """The same with clusters generated for this round alone, around the clients in `pinned`."""
    if costs_are_far(round_, library.costs):
        own = with_round_clusters(instance, None, even_prices(instance))
        return _pick(instance, *own, library, pinned)
    edges = list(range(len(instance.capacity)))
    columns = new_clusters(instance, edges, library.prices)
    return _pick(instance, columns, library.prices, library, pinned)


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
    if edges > FEW_EDGES:
        assignment = _assign_in_windows(instance, columns, prices, library.near, pinned)
        found = local_search(instance, assignment, effort=_BRIEF_POLISH)
        if found.violation == 0 or edges > SOME_EDGES:
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
            columns = in_order(join([columns, new_clusters(instance, edges, prices)]))
    return _choose_in_turn(instance, columns, prices)


def _finish(instance: Instance, columns: Columns, priced: PricedColumns) -> Columns:
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
    """A good choice, improved by a few edges at a time, and again once all are served."""
    many = len(instance.capacity) > MANY_EDGES
    steps, most = (_ROUGH_STEPS_OF_MANY, _LIKELY_OF_MANY) if many else (_ROUGH_STEPS, _LIKELY)
    priced = price(instance, columns, prices, steps, np.inf, everyone=False, choose_every=steps)
    columns = select(columns, likely(columns, priced, most))
    if not many:
        columns = _with_clusters_at(instance, columns, priced.prices)
    choices = choices_of(instance, columns)
    choice = choose_in_windows(choices, priced.prices, near)
    chosen = select(columns, choice[choice != NONE])
    before = edge_of(instance, chosen, pinned)
    assignment = before.copy()
    unserved = _serve_all(instance, chosen, assignment, prices)
    if not len(unserved):
        return assignment
    columns, choice = _with_clusters_of(instance, columns, assignment)
    moved = before != assignment
    touched = np.concatenate([unserved, before[moved], assignment[moved]])
    changed = np.zeros(len(choice), dtype=np.bool_)
    changed[touched[touched != UNASSIGNED]] = True
    improve_in_windows(
        choices_of(instance, columns), choice, priced.prices.client, near, changed=changed
    )
    return edge_of(instance, select(columns, choice[choice != NONE]), pinned)


def _with_clusters_at(instance: Instance, columns: Columns, prices: Prices) -> Columns:
    """`columns` with some more of every edge that are cheap at `prices`, each once."""
    edges = list(range(len(instance.capacity)))
    more = new_clusters(instance, edges, prices, _AT_PRICES, _STARTS_AT_PRICES)
    return each_once(instance, in_order(join([columns, more])))


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


def _choose_in_turn(instance: Instance, columns: Columns, prices: Prices) -> Columns:
    """A good choice by pricing, then improved edge by edge; edges may go without."""
    choice = price(instance, columns, prices, _STEPS + _CLOSER_STEPS, np.inf, everyone=False).choice
    assert choice is not None
    price_of_taken = np.zeros(len(instance.lock) + 1)
    improve_choice(choices_of(instance, columns), choice, price_of_taken, _PASSES)
    return select(columns, choice[choice != NONE])
