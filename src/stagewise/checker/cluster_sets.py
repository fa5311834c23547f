"""The cheapest cluster of an edge by trying all sets that a relaxation does not exclude."""

import numba
import numpy as np

ALL_SEEN, SOME_EXCLUDED, CUT_SHORT = 0, 1, 2


@numba.njit(cache=True)
def cheapest_set(  # type: ignore[no-untyped-def]
    price,
    delay,
    labels,
    in_cut,
    cut_price,
    at_edge,
    reduced,
    base,
    cap,
    capacity,
    data_min,
    kld_max,
    log_target,
    most,
):
    """The least price of a cluster of at most `cap`, and whether the cap excluded any set.

    `base` with the positive `reduced` of whoever is in a set, and the negative ones of whoever is not,
    is never above the set's price. Candidates are decided in their order.
    """
    count, kinds = labels.shape
    best, state, seen = np.inf, ALL_SEEN, 0
    inside = np.zeros(count + 1, dtype=np.int64)  # who is in it, by depth
    limit = np.zeros(count + 1)  # what the relaxation says so far
    sums = np.zeros((count + 1, kinds))
    spent = np.zeros(count + 1)
    slowest = np.zeros(count + 1)
    held = np.zeros(cut_price.shape[0], dtype=np.int64)
    held[:] = at_edge
    left = np.zeros(count + 1)  # what those still to come can take off at most
    for n in range(count - 1, -1, -1):
        left[n] = left[n + 1] + min(0.0, reduced[n])
    depth, place = 0, 0
    limit[0] = base - left[0]  # as if nobody were in whom the relaxation wants
    while True:
        if place < count and depth < capacity:
            bound = limit[depth] + reduced[place]
            seen += 1
            if seen > most:
                return best, CUT_SHORT
            if bound + left[place + 1] > min(cap, best):
                state = max(state, SOME_EXCLUDED)
                place += 1
                continue
            total = 0.0
            for h in range(kinds):
                sums[depth + 1, h] = sums[depth, h] + labels[place, h]
                total += sums[depth + 1, h]
            spent[depth + 1] = spent[depth] + price[place]
            slowest[depth + 1] = max(slowest[depth], delay[place])
            limit[depth + 1] = bound
            inside[depth + 1] = place
            depth += 1
            paid = 0.0
            for k in range(held.shape[0]):
                held[k] += in_cut[place, k]
                if held[k] >= 2:
                    paid += cut_price[k]
            cost = spent[depth] + slowest[depth] + paid
            if cost <= min(cap, best) and total >= data_min:
                kld = 0.0
                if kld_max < np.inf and total > 0:
                    for h in range(kinds):
                        if sums[depth, h] > 0:
                            share = sums[depth, h] / total
                            kld += share * (np.log(share) - log_target[h])
                if (total > 0 or kld_max == np.inf) and kld <= kld_max:
                    best = min(best, cost)
                    place = count  # a larger set is never cheaper
                    continue
            if cost > min(cap, best):
                state = max(state, SOME_EXCLUDED)
                place = count
                continue
            place += 1
            continue
        if depth == 0:
            return best, state
        place = inside[depth] + 1
        for k in range(held.shape[0]):
            held[k] -= in_cut[inside[depth], k]
        depth -= 1
