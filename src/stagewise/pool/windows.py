"""Windows: a few neighbouring edges choose again together while the others keep what they have.

With many edges the whole choice cannot be searched completely, but that of a window can: its clusters
are priced by a few subgradient steps, those that the bound excludes are dropped, and what is left is
searched to the end. Every edge has its window, of itself and those that want the same clients.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from stagewise.compiled import NONE, compiled
from stagewise.exact.packing import Packable, SearchState, new_search_state, restart, search
from stagewise.pool.pricing import Choices, PricingWorkspace, new_pricing_workspace, price_clients
from stagewise.world.scenario import FloatArray, IntArray

NEIGHBOURS = 16
"""Of each edge at the most, those first that share most clients with it."""
_EDGES = 8
_PASSES = 2
_CLIENTS_PER_EDGE = 30  # that a window has room for
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
    client = members[row, place]
    wants = csr_matrix(
        (np.ones(len(row), dtype=np.int32), (edge[row], client)),
        shape=(edges, int(client.max(initial=0)) + 1),
    )
    wants.sum_duplicates()
    wants.data[:] = 1
    shared = (wants @ wants.T).tocsr()
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
    changed: IntArray
    """When each edge last chose another cluster, and when its window was last searched, by a count of
    windows; shape (2, edges)."""
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
        work = _new_workspace(choices, client_price)
        _improve(choices, choice, client_price, near, _PASSES, likely, work)


@cache
def load_windows() -> None:
    """Load or compile them, on two edges that want the same client."""
    choices = Choices(
        start=np.array([0, 1, 2]),
        members=np.zeros((2, 1), dtype=np.int32),
        cost=np.ones(2),
        delay=np.ones(2),
        delay_weight=1.0,
        unserved_cost=10.0,
    )
    near = neighbours(2, np.arange(2), choices.members)
    improve_in_windows(choices, np.full(2, NONE), np.zeros(1), near)


def _new_workspace(choices: Choices, client_price: FloatArray) -> _Workspace:
    edges, width = len(choices.start) - 1, choices.members.shape[1]
    counts = np.sort(np.diff(choices.start))[::-1]
    rows = int(counts[:_EDGES].sum()) + _EDGES
    clients = min(len(client_price), _CLIENTS_PER_EDGE * _EDGES) + width
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
        changed=np.zeros((2, edges), dtype=np.int64),
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
    """Window after window; one in which nothing has changed since it was searched is left out."""
    edges = choice.shape[0]
    for j in range(edges):
        _own(choices.members, choice[j], work.owner, j)
    changed, searched = 0, 1
    clock = 1
    for turn in range(passes):
        for j in range(edges):
            stale = turn == 0 or work.changed[changed, j] > work.changed[searched, j]
            for m in range(near.shape[1]):
                if near[j, m] != NONE:
                    stale |= work.changed[changed, near[j, m]] > work.changed[searched, j]
            if not stale:
                continue
            clock += 1
            _set_scope(near, j, turn, work.scope)
            if _choose_together(choices, choice, client_price, likely, work):
                for m in range(work.scope.shape[0]):
                    if work.scope[m] != NONE:
                        work.changed[changed, work.scope[m]] = clock
            work.changed[searched, j] = clock


@compiled
def _set_scope(near, j, turn, scope):
    """Edge j and its nearest neighbours; in later turns every second of them."""
    scope[0] = j
    place = turn - 1 if turn > 0 else 0
    stride = 2 if turn > 0 else 1
    for m in range(1, scope.shape[0]):
        scope[m] = NONE
        if place < near.shape[1]:
            scope[m] = near[j, place]
        place += stride


@compiled
def _choose_together(choices, choice, client_price, likely, work):
    """Give the window's edges the best choice, if it is better than theirs; whether it was."""
    before = _gather(choices, choice, client_price, work)
    limit = before
    edges = work.scope.shape[0]
    for steps in _STEPS:
        reached = price_clients(work.choices, steps, limit, work.pricing)
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
        return False
    for a in range(edges):
        if work.scope[a] != NONE:
            _own(choices.members, choice[work.scope[a]], work.owner, NONE)
    for a in range(edges):
        if work.scope[a] != NONE:
            choice[work.scope[a]] = work.best[a]
            _own(choices.members, work.best[a], work.owner, work.scope[a])
    return True


@compiled
def _own(members, c, owner, j):
    """Note that cluster `c` is edge j's, or nobody's."""
    if c == NONE:
        return
    for m in range(members.shape[1]):
        if members[c, m] < 0:
            break
        owner[members[c, m]] = j


@compiled
def _gather(choices, choice, client_price, work):
    """Fill the window with the clusters that its edges may have; returns what theirs cost now.

    Delays count from where the slowest of the other edges is.
    """
    window, scope, number = work.choices, work.scope, work.number
    width = choices.members.shape[1]
    for a in range(scope.shape[0]):
        if scope[a] != NONE:
            _own(choices.members, choice[scope[a]], work.owner, NONE)
    others = 0.0
    for j in range(choice.shape[0]):
        inside = choice[j] == NONE
        for a in range(scope.shape[0]):
            inside |= scope[a] == j
        if not inside:
            others = max(others, choices.delay[choice[j]])
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
            for c in range(choices.start[j], choices.start[j + 1]):
                free = True
                for m in range(width):
                    i = choices.members[c, m]
                    if i < 0:
                        break
                    if work.owner[i] != NONE:
                        free = False
                        break
                if not free or clients + width > work.client.shape[0]:
                    continue
                for m in range(width):
                    i = choices.members[c, m]
                    if i >= 0:
                        if number[i] == NONE:
                            number[i] = clients
                            work.client[clients] = i
                            clients += 1
                        i = number[i]
                    window.members[count, m] = i
                window.cost[count] = choices.cost[c]
                window.delay[count] = max(0.0, choices.delay[c] - others)
                work.row[count] = c
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
def _drop_unlikely(work, likely, limit):
    """Leave out clusters that are hardly in a choice below `limit`; returns the bound on choices."""
    window, reduced = work.choices, work.pricing.reduced
    width = window.members.shape[1]
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
                for m in range(width):
                    window.members[kept, m] = window.members[c, m]
                window.cost[kept] = window.cost[c]
                window.delay[kept] = window.delay[c]
                reduced[kept] = reduced[c]
                work.row[kept] = work.row[c]
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
