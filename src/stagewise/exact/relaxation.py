"""A lower bound on the price of an edge's clusters without enumerating any: a convex relaxation's dual.

Let label h pay cover[h] once, when it is covered, and sample[h] for each sample, and let a client's
*rest* be its price less what its labels pay. Clients with label sums Y and data D then cost

    sum of prices >= sum over covered h of cover[h] + sum_h sample[h] Y_h + sum of all negative rests,

and sum_h sample[h] Y_h >= D times the least mean of `sample` over distributions P with
KLD(P || Q) <= kld_max. The prices for labels that make this bound high are found by subgradient steps.
"""

from typing import TYPE_CHECKING

import numpy as np

from stagewise.compiled import NONE, compiled
from stagewise.world.divergence import KLD_TOLERANCE

if TYPE_CHECKING:
    from stagewise.exact.clusters import EdgeCandidates

_STEPS = 200
_HALVINGS = 24  # of the interval for the tilt of the least distribution
_PATIENCE = 5  # steps without a better bound after which steps become shorter
_SAFETY = 1e-9  # relative; rounding must not make the bound too high


def relaxed_price(candidates: "EdgeCandidates", known: float) -> float:
    """A price that no cluster of `candidates` is below; `known` is the price of a cluster, or a cap."""
    labels = len(candidates.target)
    data = max(candidates.data_limit, float(candidates.base_data))
    if candidates.base_count == 0:
        data = max(data, float(candidates.size.min(initial=2**62)))
    # Nobody can cost more than everybody.
    goal = min(known - candidates.base_price, float(candidates.price.sum()))
    if candidates.droppable >= labels or goal <= 0:
        return candidates.base_price + candidates.base_delay
    bound = subgradient_bound(
        candidates, data, goal, _STEPS, np.zeros((2, labels)), np.empty((3, labels))
    )
    return float(candidates.base_price + candidates.base_delay + max(0.0, bound * (1 - _SAFETY)))


@compiled
def least_mean(sample, target, kld_limit, share):
    """The least of sum_h P_h sample[h] with KLD(P || Q) <= kld_limit; P goes to `share`.

    P is Q tilted towards cheap labels, P_h ~ Q_h exp(-sample[h] / t). For any t at all
    -t (kld_limit + log sum_h Q_h exp(-sample[h] / t)) is a lower bound; the right t makes it tight.
    """
    labels = target.shape[0]
    cheapest, largest = sample[0], sample[0]
    for h in range(labels):
        cheapest = min(cheapest, sample[h])
        largest = max(largest, sample[h])
    if largest <= cheapest:
        for h in range(labels):
            share[h] = target[h]
        return cheapest
    spread = largest - cheapest
    low, high = -6.0, 12.0  # log of t over the spread
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _tilt(sample, target, cheapest, spread * np.exp(middle), share)[1] > kld_limit:
            low = middle
        else:
            high = middle
    t = spread * np.exp(high)
    log_sum, _ = _tilt(sample, target, cheapest, t, share)
    return max(cheapest, cheapest - t * (kld_limit + KLD_TOLERANCE + log_sum))


@compiled
def _tilt(sample, target, cheapest, t, share):
    """Tilt Q by t into `share`; returns log sum_h Q_h exp(-(sample[h] - cheapest) / t) and the KLD."""
    labels = target.shape[0]
    total = 0.0
    for h in range(labels):
        share[h] = target[h] * np.exp(-(sample[h] - cheapest) / t)
        total += share[h]
    mean = 0.0
    for h in range(labels):
        share[h] /= total
        mean += share[h] * (sample[h] - cheapest)
    log_sum = np.log(total)
    return log_sum, -mean / t - log_sum


@compiled
def _rest_of(candidates, price, i):
    """What candidate i costs above what its labels pay."""
    rest = candidates.price[i]
    for k in range(candidates.start[i], candidates.start[i + 1]):
        rest -= price[0, candidates.label[k]] + price[1, candidates.label[k]] * candidates.amount[k]
    return rest


@compiled
def subgradient_bound(candidates, data, goal, steps, trial, room):
    """The best bound of some subgradient steps towards `goal` from the prices in `trial`.

    `data` is what a cluster holds at the least; `room` has shape (3, labels).
    """
    labels = candidates.target.shape[0]
    scale = data / labels  # a price for a sample times this weighs like a price for a label
    up, share = room[:2], room[2]
    best = -np.inf
    step_scale = 1.0
    stale = 0
    for _ in range(steps):
        bound = _bound(candidates, data, trial, up, share)
        if bound > best:
            best = bound
            stale = 0
        else:
            stale += 1
        if best >= goal:
            break
        if stale == _PATIENCE:
            stale = 0
            step_scale *= 0.6
        norm = 0.0
        for h in range(labels):
            up[1, h] /= scale
            for kind in range(2):
                if trial[kind, h] <= 0 and up[kind, h] < 0:
                    up[kind, h] = 0.0
                norm += up[kind, h] ** 2
        if norm <= 1e-12:
            break
        length = step_scale * (goal - bound) / norm
        for h in range(labels):
            trial[0, h] = max(0.0, trial[0, h] + length * up[0, h])
            trial[1, h] = max(0.0, trial[1, h] + length * up[1, h] / scale)
    return best


@compiled
def _bound(candidates, data, price, up, share):
    """The bound by `price` for clusters that hold `data`; its supergradient goes to `up`."""
    labels = candidates.target.shape[0]
    bound = data * least_mean(price[1], candidates.target, candidates.kld_limit, share)
    for h in range(labels):
        bound -= price[1, h] * candidates.base_labels[h]
        up[1, h] = data * share[h] - candidates.base_labels[h]
        up[0, h] = 1.0 if candidates.base_labels[h] == 0 else 0.0
        bound += up[0, h] * price[0, h]
    for _ in range(candidates.droppable):
        largest = NONE
        for h in range(labels):
            if up[0, h] > 0 and (largest == NONE or price[0, h] > price[0, largest]):
                largest = h
        if largest != NONE:
            bound -= price[0, largest]
            up[0, largest] = 0.0
    for i in range(candidates.price.shape[0]):
        rest = _rest_of(candidates, price, i)
        if rest < 0:
            bound += rest
            for k in range(candidates.start[i], candidates.start[i + 1]):
                up[0, candidates.label[k]] -= 1.0
                up[1, candidates.label[k]] -= candidates.amount[k]
    return bound
