"""Windows: some edges choose together while the others keep what they have.

The clusters of a window are priced by a few subgradient steps, those that the bound excludes are
dropped, and a beam search chooses among the rest. With some dozens of edges the first window has all of
them; more settle one after the other. Then every edge has its window, of itself and those that want the
same clients.
"""

from typing import NamedTuple

import numpy as np

from stagewise.compiled import NONE, compiled
from stagewise.exact.prices import Prices
from stagewise.pool.beam import Beam, beam_search, new_beam
from stagewise.pool.dive import dive
from stagewise.pool.pricing import (
    CHOOSE_EVERY,
    Choices,
    PricingWorkspace,
    move_cluster,
    new_pricing_workspace,
    price_clients,
    renumbered,
    set_members,
)
from stagewise.pool.sizes import MANY_EDGES, SOME_EDGES
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

_EDGES = 12
_PASSES = 2
_LARGEST_TWICE = 1_000  # edges; more have one pass, which takes seconds
_CLIENTS_PER_EDGE = 48  # that a window has room for, or two of the largest clusters
_STEPS = (2, 6, 16)
LIKELY = 0.8
"""Of the gap: a cluster that uses up more is hardly ever in the best choice."""
_WIDTH = 50  # of a window's beam
_WIDTH_OF_ALL, _WIDTH_OF_MORE = 300, 100  # of the beam over all edges, and with more than some


class _Workspace(NamedTuple):
    """Room for the choice of one window, and what is known of all edges."""

    owner: IntArray
    """The edge whose cluster has each client, or -1."""
    chosen_at: IntArray
    """When each edge last chose another cluster, by a count of windows."""
    searched_at: IntArray
    """When the window of each edge was last searched."""
    slowest: IntArray
    """One number: the edge whose cluster has the longest delay, or -1."""
    scope: IntArray
    """The edges of the window, -1 beyond the last."""
    number: IntArray
    """Of each client in the window, or -1."""
    client: IntArray
    """The client with each number."""
    best: IntArray
    """For each edge of the window its cluster, of all there are, in the best choice found."""
    row: IntArray
    """Which of all clusters each of the window's is; -1 for going without."""
    choices: Choices
    """The window's clusters, clients by their numbers."""
    pricing: PricingWorkspace
    kept: IntArray
    """The window's clusters that the bound does not exclude, edge by edge, the cheapest first."""
    beam: Beam
    """The same in this order."""
    picked: IntArray
    """For each edge of the window the cluster that the beam found, in this order."""


def choose_in_windows(choices: Choices, prices: Prices, near: IntArray) -> IntArray:
    """A good disjoint choice, the cluster of each edge; -1 for an edge that goes without."""
    edges = len(prices.delay)
    if edges > MANY_EDGES:
        choices, prices = renumbered(choices, prices)
        choice = dive(choices, prices)
    else:
        choice = choose_together(choices, prices.client)
    if edges > _EDGES:
        improve_in_windows(choices, choice, prices.client, near)
    return choice


def improve_in_windows(
    choices: Choices,
    choice: IntArray,
    client_price: FloatArray,
    near: IntArray,
    likely: float = LIKELY,
    changed: BoolArray | None = None,
) -> None:
    """Let every edge choose again together with its neighbours, in `choice`; -1 is to go without.

    With `changed` only these edges and their neighbours begin. `likely` is the part of the gap between a
    window's cost and its bound that a cluster may use up by itself.
    """
    if len(choices.cost):
        passes = _PASSES if len(choice) <= _LARGEST_TWICE else 1
        work = _new_workspace(choices, client_price, _EDGES, _WIDTH)
        work.chosen_at[:] = 1 if changed is None else changed
        _improve(choices, choice, client_price, near, passes, likely, work)


def choose_together(choices: Choices, client_price: FloatArray, likely: float = LIKELY) -> IntArray:
    """The cluster of each edge where all choose in one window; -1 for one that goes without."""
    edges = len(choices.start) - 1
    choice = np.full(edges, NONE, dtype=np.int64)
    if len(choices.cost):
        width = _WIDTH_OF_ALL if edges <= SOME_EDGES else _WIDTH_OF_MORE
        work = _new_workspace(choices, client_price, edges, width)
        work.scope[:] = np.arange(edges)
        _choose_together(choices, choice, client_price, likely, 1, work)
    return choice


def _new_workspace(
    choices: Choices, client_price: FloatArray, scope: int, width: int
) -> _Workspace:
    edges, members = len(choices.start) - 1, choices.members.shape[1]
    counts = np.sort(np.diff(choices.start))[::-1]
    rows = int(counts[:scope].sum()) + scope
    room = max(_CLIENTS_PER_EDGE, 2 * members) * scope
    clients = min(len(client_price) + members, room)
    window = Choices(
        start=np.zeros(scope + 1, dtype=np.int64),
        members=np.full((rows, members), NONE, dtype=np.int32),
        cost=np.zeros(rows),
        delay=np.zeros(rows),
        delay_weight=choices.delay_weight,
        unserved_cost=choices.unserved_cost,
    )
    return _Workspace(
        owner=np.full(len(client_price), NONE, dtype=np.int64),
        chosen_at=np.zeros(edges, dtype=np.int64),
        searched_at=np.zeros(edges, dtype=np.int64),
        slowest=np.full(1, NONE, dtype=np.int64),
        scope=np.full(scope, NONE, dtype=np.int64),
        number=np.full(len(client_price), NONE, dtype=np.int64),
        client=np.zeros(clients, dtype=np.int64),
        best=np.zeros(scope, dtype=np.int64),
        row=np.zeros(rows, dtype=np.int64),
        choices=window,
        pricing=new_pricing_workspace(window, np.zeros(clients), np.zeros(scope)),
        kept=np.zeros(rows, dtype=np.int64),
        beam=new_beam(scope, rows, members, clients, width),
        picked=np.zeros(scope, dtype=np.int64),
    )


@compiled
def _improve(choices, choice, client_price, near, passes, likely, work):
    """Window after window, only where the edge or a neighbour has chosen since it was last searched."""
    edges = choice.shape[0]
    for j in range(edges):
        _own(choices.members, choice[j], work.owner, j)
    _find_slowest(choices, choice, work)
    clock = 1
    for turn in range(passes):
        for j in range(edges):
            stale = work.chosen_at[j] > work.searched_at[j]
            for m in range(near.shape[1]):
                if near[j, m] != NONE:
                    stale |= work.chosen_at[near[j, m]] > work.searched_at[j]
            if stale:
                clock += 1
                _set_scope(near, j, turn, work.scope)
                _choose_together(choices, choice, client_price, likely, clock, work)
                work.searched_at[j] = clock


@compiled
def _set_scope(near, j, turn, scope):
    """Edge j and its nearest neighbours; in the next turn every second of them, and so on."""
    scope[0] = j
    for m in range(1, scope.shape[0]):
        place = (m - 1) * (turn + 1)
        scope[m] = near[j, place] if place < near.shape[1] else NONE


@compiled
def _find_slowest(choices, choice, work):
    """Note the edge whose cluster has the longest delay."""
    work.slowest[0] = NONE
    longest = 0.0
    for j in range(choice.shape[0]):
        if choice[j] != NONE and choices.delay[choice[j]] >= longest:
            longest = choices.delay[choice[j]]
            work.slowest[0] = j


@compiled
def _update_slowest(choices, choice, work):
    """The same after the window has chosen; all edges are looked at only where it had the slowest."""
    slowest = work.slowest[0]
    inside = slowest == NONE
    for a in range(work.scope.shape[0]):
        inside |= work.scope[a] == slowest
    if inside:
        _find_slowest(choices, choice, work)
        return
    for a in range(work.scope.shape[0]):
        j = work.scope[a]
        if j == NONE or choice[j] == NONE:
            continue
        if choices.delay[choice[j]] > choices.delay[choice[slowest]]:
            slowest = j
    work.slowest[0] = slowest


@compiled
def _slowest_other(choices, choice, work):
    """The longest delay of the edges that are not in the window; mostly that of all edges."""
    scope, slowest = work.scope, work.slowest[0]
    if slowest == NONE:
        return 0.0
    inside = False
    for a in range(scope.shape[0]):
        inside |= scope[a] == slowest
    if not inside:
        return choices.delay[choice[slowest]]
    longest = 0.0
    for j in range(choice.shape[0]):
        inside = choice[j] == NONE
        for a in range(scope.shape[0]):
            inside |= scope[a] == j
        if not inside:
            longest = max(longest, choices.delay[choice[j]])
    return longest


@compiled
def _choose_together(choices, choice, client_price, likely, clock, work):
    """Give the window's edges the best choice, if it is better than theirs."""
    before, clients = _gather(choices, choice, client_price, work)
    limit = before
    base = -np.inf
    edges = work.scope.shape[0]
    for steps in _STEPS:
        reached = price_clients(work.choices, clients, steps, CHOOSE_EVERY, limit, work.pricing)
        if reached < limit:
            limit = reached
            for a in range(edges):
                c = work.pricing.choice[a]
                work.best[a] = NONE if c == NONE else work.row[c]
        base = _drop_unlikely(work, clients, likely, limit)
        if base >= limit:
            break
    if base < limit:
        _make_ready(work)
        reached = beam_search(
            work.beam,
            clients,
            work.pricing.client_price,
            base,
            limit,
            choices.delay_weight,
            work.picked,
        )
        if reached < limit:
            limit = reached
            for a in range(edges):
                work.best[a] = work.row[work.kept[work.picked[a]]]
    for n in range(clients):
        work.number[work.client[n]] = NONE
    if limit >= before:
        return
    for a in range(edges):
        if work.scope[a] != NONE:
            _own(choices.members, choice[work.scope[a]], work.owner, NONE)
    for a in range(edges):
        j = work.scope[a]
        if j != NONE:
            if choice[j] != work.best[a]:
                work.chosen_at[j] = clock
            choice[j] = work.best[a]
            _own(choices.members, choice[j], work.owner, j)
    _update_slowest(choices, choice, work)


@compiled
def _own(members, c, owner, j):
    """Note that cluster `c` is edge j's, or nobody's."""
    if c != NONE:
        set_members(members, c, owner, j)


@compiled
def _gather(choices, choice, client_price, work):
    """Fill the window with the clusters that its edges may have.

    Returns what theirs cost now, and how many clients are in any. Delays count from where the slowest of
    the other edges is.
    """
    window, scope = work.choices, work.scope
    width = choices.members.shape[1]
    for a in range(scope.shape[0]):
        if scope[a] != NONE:
            _own(choices.members, choice[scope[a]], work.owner, NONE)
    others = _slowest_other(choices, choice, work)
    count, clients = 0, 0
    limit, slowest = 0.0, 0.0
    for a in range(scope.shape[0]):
        window.start[a] = count
        j = scope[a]
        if j != NONE:
            had = choice[j]
            limit += choices.unserved_cost if had == NONE else choices.cost[had]
            if had != NONE:
                slowest = max(slowest, choices.delay[had] - others)
            # Where there is not room for everybody, every edge has its part, and the cluster it has.
            room = work.client.shape[0]
            if room < work.owner.shape[0] + width:
                room = (a + 1) * (room // scope.shape[0])
            if had != NONE:
                clients = _add(choices, had, others, count, clients, work)
                count += 1
            for c in range(choices.start[j], choices.start[j + 1]):
                free = c != had and clients + width <= room
                for m in range(width):
                    i = choices.members[c, m]
                    if i < 0 or not free:
                        break
                    free = work.owner[i] == NONE
                if free:
                    clients = _add(choices, c, others, count, clients, work)
                    count += 1
        # Going without, which costs nothing where the window has no edge.
        for m in range(width):
            window.members[count, m] = NONE
        window.cost[count] = choices.unserved_cost if j != NONE else 0.0
        window.delay[count] = 0.0
        work.row[count] = NONE
        count += 1
    window.start[scope.shape[0]] = count
    for n in range(clients):
        work.pricing.client_price[n] = client_price[work.client[n]]
    for a in range(scope.shape[0]):
        work.pricing.delay_price[a] = choices.delay_weight / scope.shape[0]
        if scope[a] != NONE:
            _own(choices.members, choice[scope[a]], work.owner, scope[a])
    return limit + choices.delay_weight * slowest, clients


@compiled
def _add(choices, c, others, count, clients, work):
    """Make cluster `c` the window's cluster `count`; returns how many clients the window has then."""
    window = work.choices
    for m in range(choices.members.shape[1]):
        i = choices.members[c, m]
        if i >= 0:
            if work.number[i] == NONE:
                work.number[i] = clients
                work.client[clients] = i
                clients += 1
            i = work.number[i]
        window.members[count, m] = i
    window.cost[count] = choices.cost[c]
    window.delay[count] = max(0.0, choices.delay[c] - others)
    work.row[count] = c
    return clients


@compiled
def _drop_unlikely(work, clients, likely, limit):
    """Leave out clusters that are hardly in a choice below `limit`; returns the bound on choices."""
    window, reduced = work.choices, work.pricing.reduced
    edges = window.start.shape[0] - 1
    base = 0.0
    for n in range(clients):
        base -= work.pricing.client_price[n]
    for a in range(edges):
        least = reduced[window.start[a]]
        for c in range(window.start[a], window.start[a + 1]):
            least = min(least, reduced[c])
        for c in range(window.start[a], window.start[a + 1]):
            reduced[c] -= least
        base += least
    kept = 0
    for a in range(edges):
        first, last = window.start[a], window.start[a + 1]
        window.start[a] = kept
        for c in range(first, last):
            if reduced[c] <= likely * (limit - base):
                move_cluster(window, work.row, c, kept)
                reduced[kept] = reduced[c]
                kept += 1
    window.start[edges] = kept
    return base


@compiled
def _make_ready(work):
    """Put the window's clusters in order, edge by edge, for the search."""
    window, beam, reduced = work.choices, work.beam, work.pricing.reduced
    for a in range(window.start.shape[0] - 1):
        first = window.start[a]
        beam.start[a] = first
        for c in range(first, window.start[a + 1]):
            place = c
            while place > first and reduced[work.kept[place - 1]] > reduced[c]:
                work.kept[place] = work.kept[place - 1]
                place -= 1
            work.kept[place] = c
    beam.start[window.start.shape[0] - 1] = window.start[window.start.shape[0] - 1]
    for n in range(window.start[window.start.shape[0] - 1]):
        c = work.kept[n]
        beam.reduced[n] = reduced[c]
        beam.cost[n] = window.cost[c]
        beam.delay[n] = window.delay[c]
        for m in range(window.members.shape[1]):
            beam.members[n, m] = window.members[c, m]
