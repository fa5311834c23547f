"""Prices for clients that several edges want, and the choices that come of them, compiled.

A client that is taken has an infinite price. Arrays of prices have one place more than there are
clients, for the member -1 of a cluster, which costs nothing.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE, compiled, inlined
from stagewise.exact.prices import Prices
from stagewise.world.scenario import FloatArray, IntArray

CHOOSE_EVERY = 4
"""In which steps of pricing edges choose in turn, where a choice is wanted."""


class Choices(NamedTuple):
    """The clusters to choose from: start[j]:start[j+1] belong to edge j."""

    start: IntArray
    members: npt.NDArray[np.int32]
    """Shape (clusters, most members): clients, -1 beyond the last."""
    cost: FloatArray
    """What the energy of each cluster costs."""
    delay: FloatArray
    delay_weight: float
    unserved_cost: float
    """What an edge that gets no cluster counts."""


def renumbered(choices: Choices, prices: Prices) -> tuple[Choices, Prices]:
    """The same clusters with their clients numbered as they come, and the prices of these alone.

    Of a million clients few are in any cluster at hand. Those of neighbouring edges are then
    neighbours in memory, too.
    """
    number = np.full(len(prices.client), NONE, dtype=np.int32)
    client = np.empty(len(prices.client), dtype=np.int64)
    members = np.empty_like(choices.members)
    count = _number_clients(choices.members, number, client, members)
    own = Prices(prices.client[client[:count]], prices.delay)
    return choices._replace(members=members), own


class PricingWorkspace(NamedTuple):
    """The prices and the choice that pricing works on, and room for it."""

    client_price: FloatArray
    delay_price: FloatArray
    reduced: FloatArray
    """Each cluster's cost at the best prices."""
    width: IntArray
    """How many members the largest cluster of each edge has."""
    choice: IntArray
    """The cluster of each edge in the best disjoint choice, or -1."""
    demand: IntArray
    """How many edges have each client in their cheapest cluster."""
    trial: IntArray
    trial_price: FloatArray
    best_client_price: FloatArray
    best_delay_price: FloatArray


def new_pricing_workspace(
    choices: Choices, client_price: FloatArray, delay_price: FloatArray
) -> PricingWorkspace:
    """Room for pricing that begins at the given prices; these are left as they are."""
    edges, clients = len(delay_price), len(client_price)
    return PricingWorkspace(
        client_price=np.append(client_price, 0.0),
        delay_price=delay_price.copy(),
        reduced=np.empty(len(choices.cost)),
        width=np.zeros(edges, dtype=np.int64),
        choice=np.full(edges, NONE, dtype=np.int64),
        demand=np.zeros(clients, dtype=np.int64),
        trial=np.zeros(edges, dtype=np.int64),
        trial_price=np.zeros(clients + 1),
        best_client_price=np.zeros(clients),
        best_delay_price=np.zeros(edges),
    )


@compiled
def _number_clients(members, number, client, numbered):
    """Fill `numbered` with the members by the order they first occur in, `client`; returns how many."""
    count = 0
    for c in range(members.shape[0]):
        for m in range(members.shape[1]):
            i = members[c, m]
            if i >= 0:
                if number[i] == NONE:
                    number[i] = count
                    client[count] = i
                    count += 1
                i = number[i]
            numbered[c, m] = i
    return count


@compiled
def price_clients(choices, clients, steps, choose_every, limit, work):
    """Subgradient steps on the prices of the first `clients`; returns the cost of the best choice met.

    Edges choose in turn, disjoint clusters, in every `choose_every`-th step and in the last one. The
    best prices end up in `work.client_price` and `work.delay_price`; `work.choice` receives the best
    choice if it costs less than `limit`, the cost of one already at hand.
    """
    members, delay = choices.members, choices.delay
    client_price, delay_price = work.client_price, work.delay_price
    demand, trial = work.demand, work.trial
    edges = choices.start.shape[0] - 1
    for j in range(edges):
        work.width[j] = _largest(members, choices.start[j], choices.start[j + 1])
    best_bound = -np.inf
    step_scale = 1.0
    for step in range(steps):
        bound = 0.0
        for i in range(clients):
            bound -= client_price[i]
            demand[i] = 0
        slowest = 0.0
        for j in range(edges):
            c, least = _cheapest(
                choices, j, work.width[j], delay_price[j], 0.0, client_price, choices.unserved_cost
            )
            trial[j] = c
            bound += least
            if c == NONE:
                continue
            slowest = max(slowest, delay[c])
            for m in range(members.shape[1]):
                if members[c, m] < 0:
                    break
                demand[members[c, m]] += 1
        if bound > best_bound:
            best_bound = bound
            for i in range(clients):
                work.best_client_price[i] = client_price[i]
            for j in range(edges):
                work.best_delay_price[j] = delay_price[j]
        else:
            step_scale *= 0.85
        norm = 0.0
        for i in range(clients):
            gradient = demand[i] - 1.0
            if gradient > 0 or (client_price[i] > 0 and gradient < 0):
                norm += gradient * gradient
        if step % choose_every == 0 or step == steps - 1:
            limit = _choose_in_turn(choices, clients, work, limit, step // choose_every)
        if norm == 0.0 or limit - best_bound <= 1e-9:
            break
        # A choice that leaves an edge out says nothing about what is worth reaching.
        target = min(limit, best_bound + 0.1 * abs(best_bound) + 1e-9)
        length = step_scale * (target - bound) / norm
        for i in range(clients):
            client_price[i] = max(0.0, client_price[i] + length * (demand[i] - 1.0))
        _shift_delay_prices(choices, delay_price, trial, slowest, step_scale)
    for i in range(clients):
        client_price[i] = work.best_client_price[i]
    for j in range(edges):
        delay_price[j] = work.best_delay_price[j]
        for c in range(choices.start[j], choices.start[j + 1]):
            value = choices.cost[c] + delay_price[j] * delay[c]
            for m in range(work.width[j]):
                value += client_price[members[c, m]]
            work.reduced[c] = value
    return limit


@inlined
def _largest(members, first, last):
    """How many members the largest of the clusters from `first` to `last` has."""
    width = 0
    for c in range(first, last):
        while width < members.shape[1] and members[c, width] >= 0:
            width += 1
    return width


@inlined
def _cheapest(choices, j, width, delay_price, free_delay, price, ceiling):
    """The cheapest cluster of edge j below `ceiling`, and what it costs, or -1.

    A second of delay beyond `free_delay` costs `delay_price`. All clusters are summed up over as many
    members, `width`: where each ends or becomes too expensive the processor could not foresee.
    """
    first, last = choices.start[j], choices.start[j + 1]
    members, cost, delay = (
        choices.members[first:last],
        choices.cost[first:last],
        choices.delay[first:last],
    )
    best = NONE
    for c in range(last - first):
        value = cost[c] + delay_price * max(0.0, delay[c] - free_delay)
        for m in range(width):
            value += price[members[c, m]]
        if value < ceiling:
            ceiling = value
            best = first + c
    return best, ceiling


@compiled
def _shift_delay_prices(choices, delay_price, trial, slowest, step_scale):
    """A slower edge's second becomes more expensive; the prices keep their sum."""
    total = 0.0
    for j in range(delay_price.shape[0]):
        if trial[j] != NONE and slowest > 0:
            delay_price[j] *= np.exp(0.5 * step_scale * (choices.delay[trial[j]] / slowest - 1.0))
        total += delay_price[j]
    for j in range(delay_price.shape[0]):
        delay_price[j] *= choices.delay_weight / total if total > 0 else 0.0


@compiled
def _choose_in_turn(choices, clients, work, limit, turn):
    """Edges one after the other, beginning with edge `turn`, take the best cluster still disjoint."""
    price, trial = work.trial_price, work.trial
    edges = choices.start.shape[0] - 1
    for i in range(clients):
        price[i] = work.client_price[i]
    spent = 0.0
    slowest = 0.0
    for place in range(edges):
        j = (place + turn) % edges
        second = work.delay_price[j]
        c, _least = _cheapest(choices, j, work.width[j], second, 0.0, price, np.inf)
        trial[j] = c
        if c == NONE:
            spent += choices.unserved_cost
            continue
        spent += choices.cost[c]
        slowest = max(slowest, choices.delay[c])
        set_members(choices.members, c, price, np.inf)
    value = spent + choices.delay_weight * slowest
    if value < limit:
        limit = value
        for j in range(edges):
            work.choice[j] = trial[j]
    return limit


@inlined
def set_members(members, c, array, value):
    """Give every member of cluster `c` the `value` in `array`: a price, or an owner."""
    for m in range(members.shape[1]):
        if members[c, m] < 0:
            break
        array[members[c, m]] = value


@compiled
def improve_choice(choices, choice, price, passes):
    """Let each edge in turn choose again while the others keep what they have.

    `price` is room: infinite for whoever is taken.
    """
    members, delay, width = choices.members, choices.delay, choices.members.shape[1]
    edges = choices.start.shape[0] - 1
    for i in range(price.shape[0]):
        price[i] = 0.0
    slowest = 0.0
    for j in range(edges):
        if choice[j] != NONE:
            set_members(members, choice[j], price, np.inf)
            slowest = max(slowest, delay[choice[j]])
    for _ in range(passes):
        changed = False
        for j in range(edges):
            had = choice[j]
            others = slowest
            if had != NONE:
                set_members(members, had, price, 0.0)
                if delay[had] == slowest:
                    others = 0.0
                    for k in range(edges):
                        if k != j and choice[k] != NONE:
                            others = max(others, delay[choice[k]])
            second, ceiling = choices.delay_weight, choices.unserved_cost
            c, _least = _cheapest(choices, j, width, second, others, price, ceiling)
            choice[j] = c if c != NONE else had
            if choice[j] != NONE:
                set_members(members, choice[j], price, np.inf)
                slowest = max(others, delay[choice[j]])
            changed |= choice[j] != had
        if not changed:
            break


@inlined
def move_cluster(choices, row, c, place):
    """Put cluster `c` in another place, with what `row` says of it."""
    for m in range(choices.members.shape[1]):
        choices.members[place, m] = choices.members[c, m]
    choices.cost[place] = choices.cost[c]
    choices.delay[place] = choices.delay[c]
    row[place] = row[c]
