"""Prices for clients that several edges want, and the choices that come of them, compiled.

Clusters starts[j]:starts[j+1] belong to edge j. A client that is taken has an infinite price. An edge
that gets no cluster counts `unserved`.
"""

import numpy as np

from stagewise.compiled import compiled

NONE = -1


@compiled
def price_clients(
    starts,
    members,
    cost,
    delay,
    delay_weight,
    unserved,
    client_price,
    delay_price,
    steps,
    limit,
    reduced,
    choice,
    wanted,
    trial,
    client_room,
    best_delay_price,
):
    """Subgradient steps on the prices; returns the cost of the best disjoint choice met.

    The best prices end up in `client_price` and `delay_price`, the clusters' costs at these prices in
    `reduced`; `choice` receives the best choice if it costs less than `limit`, the cost of one already
    at hand. The rest is room.
    """
    edges = starts.shape[0] - 1
    best_client_price = client_room[0]
    best_bound = -np.inf
    agility = 1.0
    for step in range(steps):
        bound = 0.0
        for i in range(client_price.shape[0]):
            bound -= client_price[i]
            wanted[i] = 0
        slowest = 0.0
        for j in range(edges):
            second = delay_price[j]
            c, least = _cheapest(
                starts[j], starts[j + 1], members, cost, delay, second, 0.0, client_price, unserved
            )
            trial[j] = c
            bound += least
            if c == NONE:
                continue
            slowest = max(slowest, delay[c])
            for m in range(members.shape[1]):
                if members[c, m] < 0:
                    break
                wanted[members[c, m]] += 1
        if bound > best_bound:
            best_bound = bound
            for i in range(client_price.shape[0]):
                best_client_price[i] = client_price[i]
            for j in range(edges):
                best_delay_price[j] = delay_price[j]
        else:
            agility *= 0.85
        norm = 0.0
        for i in range(client_price.shape[0]):
            gradient = wanted[i] - 1.0
            if gradient > 0 or (client_price[i] > 0 and gradient < 0):
                norm += gradient * gradient
        if step % 4 == 0 or step == steps - 1:
            limit = _take_turns(
                starts,
                members,
                cost,
                delay,
                delay_weight,
                unserved,
                client_price,
                delay_price,
                client_room[1],
                trial,
                limit,
                choice,
                step // 4,
            )
        if norm == 0.0 or limit - best_bound <= 1e-9:
            break
        # A choice that leaves an edge out says nothing about what is worth reaching.
        target = min(limit, best_bound + 0.1 * abs(best_bound) + 1e-9)
        length = agility * (target - bound) / norm
        for i in range(client_price.shape[0]):
            client_price[i] = max(0.0, client_price[i] + length * (wanted[i] - 1.0))
        _shift_delay_prices(delay_price, delay_weight, delay, trial, slowest, agility)
    for i in range(client_price.shape[0]):
        client_price[i] = best_client_price[i]
    for j in range(edges):
        delay_price[j] = best_delay_price[j]
        for c in range(starts[j], starts[j + 1]):
            value = cost[c] + delay_price[j] * delay[c]
            for m in range(members.shape[1]):
                if members[c, m] < 0:
                    break
                value += client_price[members[c, m]]
            reduced[c] = value
    return limit


@compiled
def _cheapest(first, last, members, cost, delay, second, free, price, ceiling):
    """The cheapest of the clusters first:last below `ceiling`, and what it costs, or -1.

    A second of delay beyond `free` costs `second`.
    """
    best = NONE
    for c in range(first, last):
        value = cost[c] + second * max(0.0, delay[c] - free)
        for m in range(members.shape[1]):
            if members[c, m] < 0 or value >= ceiling:
                break
            value += price[members[c, m]]
        if value < ceiling:
            ceiling = value
            best = c
    return best, ceiling


@compiled
def _shift_delay_prices(delay_price, delay_weight, delay, trial, slowest, agility):
    """A slower edge's second becomes dearer; the prices keep their sum."""
    total = 0.0
    for j in range(delay_price.shape[0]):
        if trial[j] != NONE and slowest > 0:
            delay_price[j] *= np.exp(0.5 * agility * (delay[trial[j]] / slowest - 1.0))
        total += delay_price[j]
    for j in range(delay_price.shape[0]):
        delay_price[j] *= delay_weight / total if total > 0 else 0.0


@compiled
def _take_turns(
    starts,
    members,
    cost,
    delay,
    delay_weight,
    unserved,
    client_price,
    delay_price,
    price,
    trial,
    limit,
    choice,
    turn,
):
    """Edges one after the other, beginning with edge `turn`, take the best cluster still disjoint."""
    edges = starts.shape[0] - 1
    for i in range(price.shape[0]):
        price[i] = client_price[i]
    spent = 0.0
    slowest = 0.0
    for place in range(edges):
        j = (place + turn) % edges
        c, _least = _cheapest(
            starts[j], starts[j + 1], members, cost, delay, delay_price[j], 0.0, price, np.inf
        )
        trial[j] = c
        if c == NONE:
            spent += unserved
            continue
        spent += cost[c]
        slowest = max(slowest, delay[c])
        set_price(members, c, price, np.inf)
    value = spent + delay_weight * slowest
    if value < limit:
        limit = value
        for j in range(edges):
            choice[j] = trial[j]
    return limit


@compiled
def set_price(members, c, price, value):
    """Give every member of cluster `c` the price `value`."""
    for m in range(members.shape[1]):
        if members[c, m] < 0:
            break
        price[members[c, m]] = value


@compiled
def improve_choice(starts, members, cost, delay, delay_weight, unserved, choice, price, passes):
    """Let each edge in turn choose again while the others keep what they have.

    `price` is room: infinite for whoever is taken.
    """
    edges = starts.shape[0] - 1
    for i in range(price.shape[0]):
        price[i] = 0.0
    slowest = 0.0
    for j in range(edges):
        if choice[j] != NONE:
            set_price(members, choice[j], price, np.inf)
            slowest = max(slowest, delay[choice[j]])
    for _ in range(passes):
        changed = False
        for j in range(edges):
            had = choice[j]
            others = slowest
            if had != NONE:
                set_price(members, had, price, 0.0)
                if delay[had] == slowest:
                    others = 0.0
                    for k in range(edges):
                        if k != j and choice[k] != NONE:
                            others = max(others, delay[choice[k]])
            c, _least = _cheapest(
                starts[j],
                starts[j + 1],
                members,
                cost,
                delay,
                delay_weight,
                others,
                price,
                unserved,
            )
            choice[j] = c if c != NONE else had
            if choice[j] != NONE:
                set_price(members, choice[j], price, np.inf)
                slowest = max(others, delay[choice[j]])
            changed |= choice[j] != had
        if not changed:
            break
