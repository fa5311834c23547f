"""Prices for clients that several edges want: subgradient steps over the clusters of a round."""

import numpy as np

from stagewise.compiled import compiled


@compiled
def price_clients(
    starts,
    members,
    cost,
    delay,
    delay_weight,
    client_price,
    delay_price,
    steps,
    limit,
    reduced,
    choice,
    client_room,
    edge_room,
    best_client_price,
    best_delay_price,
):
    """Subgradient steps on the prices; returns the cost of the best disjoint choice met.

    Clusters starts[j]:starts[j+1] belong to edge j. The best prices end up in `client_price` and
    `delay_price`, the clusters' costs at these prices in `reduced`; `choice` receives the best choice
    if it costs less than `limit`, the cost of one already at hand. The rest is room.
    """
    edges = starts.shape[0] - 1
    wanted = client_room[0]
    trial = edge_room[0]
    best_bound = -np.inf
    agility = 1.0
    for step in range(steps):
        bound = 0.0
        for i in range(client_price.shape[0]):
            bound -= client_price[i]
            wanted[i] = 0
        slowest = 0.0
        for j in range(edges):
            least = np.inf
            for c in range(starts[j], starts[j + 1]):
                value = cost[c] + delay_price[j] * delay[c]
                for m in range(members.shape[1]):
                    if members[c, m] < 0 or value >= least:
                        break
                    value += client_price[members[c, m]]
                if value < least:
                    least = value
                    trial[j] = c
            bound += least
            slowest = max(slowest, delay[trial[j]])
            for m in range(members.shape[1]):
                if members[trial[j], m] < 0:
                    break
                wanted[members[trial[j], m]] += 1
        if bound > best_bound:
            best_bound = bound
            for i in range(client_price.shape[0]):
                best_client_price[i] = client_price[i]
            for j in range(edges):
                best_delay_price[j] = delay_price[j]
        else:
            agility *= 0.85
        if step % 4 == 0 or step == steps - 1:
            limit = _greedy(
                starts,
                members,
                cost,
                delay,
                delay_weight,
                client_price,
                delay_price,
                client_room[1],
                edge_room[1],
                limit,
                choice,
                step // 4,
            )
        norm = 0.0
        for i in range(client_price.shape[0]):
            gradient = wanted[i] - 1.0
            if gradient > 0 or (client_price[i] > 0 and gradient < 0):
                norm += gradient * gradient
        if norm == 0.0 or limit - best_bound <= 1e-9:
            break
        target = limit if limit < np.inf else best_bound * 1.1 + 1e-9
        length = agility * (target - bound) / norm
        for i in range(client_price.shape[0]):
            client_price[i] = max(0.0, client_price[i] + length * (wanted[i] - 1.0))
        total = 0.0
        for j in range(edges):  # a slower edge's second becomes dearer; the prices keep their sum
            delay_price[j] *= np.exp(0.5 * agility * (delay[trial[j]] / slowest - 1.0))
            total += delay_price[j]
        for j in range(edges):
            delay_price[j] *= delay_weight / total if total > 0 else 0.0
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
def _greedy(
    starts,
    members,
    cost,
    delay,
    delay_weight,
    client_price,
    delay_price,
    used,
    trial,
    limit,
    choice,
    turn,
):
    """Edges one after the other, beginning with edge `turn`, take the best cluster still disjoint."""
    edges = starts.shape[0] - 1
    for i in range(used.shape[0]):
        used[i] = 0
    spent = 0.0
    slowest = 0.0
    for place in range(edges):
        j = (place + turn) % edges
        least = np.inf
        for c in range(starts[j], starts[j + 1]):
            value = cost[c] + delay_price[j] * delay[c]
            for m in range(members.shape[1]):
                client = members[c, m]
                if client < 0 or value >= least:
                    break
                if used[client] > 0:
                    value = np.inf
                    break
                value += client_price[client]
            if value < least:
                least = value
                trial[j] = c
        if least == np.inf:
            return limit
        spent += cost[trial[j]]
        slowest = max(slowest, delay[trial[j]])
        for m in range(members.shape[1]):
            if members[trial[j], m] < 0:
                break
            used[members[trial[j], m]] += 1
    value = spent + delay_weight * slowest
    if value < limit:
        limit = value
        for j in range(edges):
            choice[j] = trial[j]
    return limit
