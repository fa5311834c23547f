"""Windows: a few neighbouring edges choose again together while the others keep what they have.

With many edges the whole choice cannot be searched completely, but that of a window can: its clusters
are priced by a few subgradient steps, those that the bound excludes are dropped, and what is left is
searched to the end. Every edge has its window, of itself and those that want the same clients.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled
from stagewise.exact.columns import shared_clients
from stagewise.exact.packing import Packable, SearchState, new_search_state, restart, search
from stagewise.pool.pricing import (
    CHOOSE_EVERY,
    Choices,
    PricingWorkspace,
    move_cluster,
    new_pricing_workspace,
    price_clients,
    set_members,
)
from stagewise.world.scenario import FloatArray, IntArray

NEIGHBOURS = 14
"""Of each edge at the most, those first that share most clients with it."""
_EDGES = 12
_PASSES = 2
_LARGEST_TWICE = 1_000  # edges; more have one pass, which takes seconds
_CLIENTS_PER_EDGE = 48  # that a window has room for, or two of the largest clusters
_STEPS = (2, 6, 16)
LIKELY = 0.8
"""Of the gap: a cluster that uses up more is hardly ever in the best choice."""
_SEARCH_STEPS, _LOOKS = 2_000, 200_000


def neighbours(
    edges: int, edge: npt.NDArray[np.int64], members: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """For every edge those that want most of its clients, shape (edges, NEIGHBOURS); -1 beyond.

    `edge` and `members` are clusters: whose they are, and who is in them, -1 beyond the last.
    """
    row, place = np.nonzero(members >= 0)
    shared = shared_clients(edge[row], members[row, place], edges)
    found = np.full((edges, NEIGHBOURS), NONE, dtype=np.int64)
    for j in range(edges):
        others = shared.indices[shared.indptr[j] : shared.indptr[j + 1]]
        counts = shared.data[shared.indptr[j] : shared.indptr[j + 1]]
        counts, others = counts[others != j], others[others != j]
        nearest = others[np.lexsort((others, -counts))][:NEIGHBOURS]
        found[j, : len(nearest)] = nearest
    return found


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
    packable: Packable
    """The same in this order."""
    state: SearchState


def improve_in_windows(
    choices: Choices,
    choice: IntArray,
    client_price: FloatArray,
    near: IntArray,
    likely: float = LIKELY,
) -> None:
    """Let every edge choose again together with its neighbours, in `choice`; -1 is to go without.

    `likely` is the part of the gap between a window's cost and its bound that a cluster may use up by
    itself; with 1 no choice is missed, but for the limit on steps.
    """
    if len(choices.cost):
        passes = _PASSES if len(choice) <= _LARGEST_TWICE else 1
        work = _new_workspace(choices, client_price)
        _improve(choices, choice, client_price, near, passes, likely, work)


def _new_workspace(choices: Choices, client_price: FloatArray) -> _Workspace:
    edges, width = len(choices.start) - 1, choices.members.shape[1]
    counts = np.sort(np.diff(choices.start))[::-1]
    rows = int(counts[:_EDGES].sum()) + _EDGES
    room = max(_CLIENTS_PER_EDGE, 2 * width) * _EDGES
    clients = min(len(client_price) + width, room)
    window = Choices(
        start=np.zeros(_EDGES + 1, dtype=np.int64),
        members=np.full((rows, width), NONE, dtype=np.int32),
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
        scope=np.full(_EDGES, NONE, dtype=np.int64),
        number=np.full(len(client_price), NONE, dtype=np.int64),
        client=np.zeros(clients, dtype=np.int64),
        best=np.zeros(_EDGES, dtype=np.int64),
        row=np.zeros(rows, dtype=np.int64),
        choices=window,
        pricing=new_pricing_workspace(window, np.zeros(clients), np.zeros(_EDGES)),
        kept=np.zeros(rows, dtype=np.int64),
        packable=Packable(
            sequence=np.zeros(_EDGES, dtype=np.int64),
            start=np.zeros(_EDGES + 1, dtype=np.int64),
            members=np.full((rows, width), NONE, dtype=np.int32),
            energy=np.zeros(rows),
            delay=np.zeros(rows),
            reduced=np.zeros(rows),
            rest=np.zeros((_EDGES + 1, 2)),
            base=np.zeros(1),
            delay_weight=choices.delay_weight,
            energy_weight=1.0,
        ),
        state=new_search_state(_EDGES, clients),
    )


@compiled
def _improve(choices, choice, client_price, near, passes, likely, work):
    """Window after window; in later turns only where a neighbour has chosen another cluster since."""
    edges = choice.shape[0]
    for j in range(edges):
        _own(choices.members, choice[j], work.owner, j)
    _find_slowest(choices, choice, work)
    clock = 1
    for turn in range(passes):
        for j in range(edges):
            stale = turn == 0 or work.chosen_at[j] > work.searched_at[j]
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
    before = _gather(choices, choice, client_price, work)
    limit = before
    edges = work.scope.shape[0]
    for steps in _STEPS:
        reached = price_clients(work.choices, steps, CHOOSE_EVERY, limit, work.pricing)
        if reached < limit:
            limit = reached
            for a in range(edges):
                c = work.pricing.choice[a]
                work.best[a] = NONE if c == NONE else work.row[c]
        if _drop_unlikely(work, likely, limit) >= limit:
            break
    if work.packable.base[0] < limit:
        _make_ready(work)
        restart(work.state, limit)
        search(work.packable, work.state, _SEARCH_STEPS, _LOOKS)
        if work.state.best[0] != NONE:
            limit = work.state.value[0]
            for a in range(edges):
                work.best[a] = work.row[work.kept[work.state.best[a]]]
    n = 0
    while n < work.client.shape[0] and work.number[work.client[n]] == n:
        work.number[work.client[n]] = NONE
        n += 1
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
    _find_slowest(choices, choice, work)


@compiled
def _own(members, c, owner, j):
    """Note that cluster `c` is edge j's, or nobody's."""
    if c != NONE:
        set_members(members, c, owner, j)


@compiled
def _gather(choices, choice, client_price, work):
    """Fill the window with the clusters that its edges may have; returns what theirs cost now.

    Delays count from where the slowest of the other edges is.
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
        window.members[count, 0] = NONE
        window.cost[count] = choices.unserved_cost if j != NONE else 0.0
        window.delay[count] = 0.0
        work.row[count] = NONE
        count += 1
    window.start[scope.shape[0]] = count
    for n in range(work.client.shape[0]):
        work.pricing.client_price[n] = client_price[work.client[n]] if n < clients else 0.0
    for a in range(scope.shape[0]):
        work.pricing.delay_price[a] = choices.delay_weight / scope.shape[0]
        if scope[a] != NONE:
            _own(choices.members, choice[scope[a]], work.owner, scope[a])
    return limit + choices.delay_weight * slowest


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
def _drop_unlikely(work, likely, limit):
    """Leave out clusters that are hardly in a choice below `limit`; returns the bound on choices."""
    window, reduced = work.choices, work.pricing.reduced
    edges = window.start.shape[0] - 1
    base = 0.0
    for n in range(work.pricing.client_price.shape[0]):
        base -= work.pricing.client_price[n]
    for a in range(edges):
        least = reduced[window.start[a]]
        for c in range(window.start[a], window.start[a + 1]):
            least = min(least, reduced[c])
        for c in range(window.start[a], window.start[a + 1]):
            reduced[c] -= least
        base += least
    work.packable.base[0] = base
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
    window, packable, reduced = work.choices, work.packable, work.pricing.reduced
    for a in range(window.start.shape[0] - 1):
        first = window.start[a]
        packable.start[a] = first
        for c in range(first, window.start[a + 1]):
            place = c
            while place > first and reduced[work.kept[place - 1]] > reduced[c]:
                work.kept[place] = work.kept[place - 1]
                place -= 1
            work.kept[place] = c
    packable.start[packable.sequence.shape[0]] = window.start[packable.sequence.shape[0]]
    for n in range(packable.start[packable.sequence.shape[0]]):
        c = work.kept[n]
        packable.reduced[n] = reduced[c]
        packable.energy[n] = window.cost[c]
        packable.delay[n] = window.delay[c]
        for m in range(window.members.shape[1]):
            packable.members[n, m] = window.members[c, m]
    _order_edges(packable)


@compiled
def _order_edges(packable):
    """Edges with few clusters choose first, since they decide most; and what the rest costs at least."""
    start, sequence, rest = packable.start, packable.sequence, packable.rest
    edges = sequence.shape[0]
    for a in range(edges):
        place = a
        count = start[a + 1] - start[a]
        while place > 0 and start[sequence[place - 1] + 1] - start[sequence[place - 1]] > count:
            sequence[place] = sequence[place - 1]
            place -= 1
        sequence[place] = a
    rest[edges, 0] = 0.0
    rest[edges, 1] = 0.0
    for depth in range(edges - 1, -1, -1):
        a = sequence[depth]
        energy = np.inf
        for n in range(start[a], start[a + 1]):
            energy = min(energy, packable.energy[n])
        rest[depth, 0] = rest[depth + 1, 0]  # the least reduced cost of an edge is 0
        rest[depth, 1] = rest[depth + 1, 1] + energy
