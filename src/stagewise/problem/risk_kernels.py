"""Compiled risk of one edge's long-term clients: (11f) and (11g), exact, and sampled."""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.compiled import compiled, inlined
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.scenario import FloatArray, IntArray

MARKOV, EXACT, SAMPLED = 1, 2, 3

# Beyond this many uncertain members 2^n patterns take too long; the sampled measure stands in.
EXACT_MEMBERS = 14


class LabelRows(NamedTuple):
    """Label counts in compressed rows, and the data sizes.

    Client i holds amount[k] samples of label label[k] for k in start[i]:start[i+1].
    """

    start: IntArray
    label: IntArray
    amount: IntArray
    data: IntArray


class RiskModel(NamedTuple):
    """What the risk of any set of long-term clients follows from."""

    measure: int
    rows: LabelRows
    target: FloatArray
    log_target: FloatArray
    probability: FloatArray
    samples: npt.NDArray[np.uint64]
    """Shape (clients, words): bit r is set where the client is online in sampled round r."""
    sample_count: int
    kld_limit: float
    data_limit: float


class RiskCutoff(NamedTuple):
    """How much of a risk is to be known.

    The evaluation may end once both limits will be kept, whatever is not yet looked at, or are missed
    by more than `violation` already.
    """

    kld_risk_limit: float
    data_risk_limit: float
    violation: float


NO_CUTOFF = RiskCutoff(-1.0, -1.0, np.inf)


class RiskScratch(NamedTuple):
    """Room for the functions below, which allocate nothing."""

    floats: FloatArray
    integers: IntArray
    y_log_y: FloatArray
    """Indexed by y."""


def risk_scratch(labels: int, members: int) -> RiskScratch:
    """Room for edges of so many members."""
    floats = np.empty(2 * labels + members + 1)
    return RiskScratch(floats, np.empty(labels + members, dtype=np.int64), logarithms())


@cache
def logarithms() -> FloatArray:
    """y log y for the sums of labels that are usual."""
    y = np.arange(1 << 14, dtype=np.float64)
    return np.asarray(y * np.log(np.maximum(y, 1.0)))


@inlined
def label_term(y, log_target):
    """y log(y / q) of one label's sum y, see `kld_of`."""
    return y * (np.log(y) - log_target) if y > 0 else 0.0


@inlined
def kld_of(log_sum, data):
    """The divergence (Eq. 7) of `data` > 0 samples whose label terms sum to `log_sum`."""
    return log_sum / data - np.log(data)


@inlined
def keeps_limits(log_sum, data, kld_limit, data_limit, y_log_y):
    """Whether `data` samples whose label terms sum to `log_sum` keep (9a) and (9b).

    `data` is a whole number: a table spares the logarithm where it is usual.
    """
    if data <= 0 or data < data_limit:
        return False
    return log_sum <= data * (kld_limit + KLD_TOLERANCE) + tabled_term(data, 0.0, y_log_y)


@inlined
def risk_violation(kld_risk, data_risk, kld_risk_limit, data_risk_limit):
    """By how much the risks miss (11a) and (11b)."""
    missing = 0.0
    if kld_risk > kld_risk_limit + KLD_TOLERANCE:
        missing += kld_risk - kld_risk_limit
    if data_risk > data_risk_limit + KLD_TOLERANCE:
        missing += data_risk - data_risk_limit
    return missing


@inlined
def is_decided(kld_risk, data_risk, rest, cutoff):
    """Whether risks found so far, with a probability of `rest` not yet looked at, tell enough."""
    limits = cutoff.kld_risk_limit, cutoff.data_risk_limit
    if kld_risk + rest <= limits[0] and data_risk + rest <= limits[1]:
        return True
    return risk_violation(kld_risk, data_risk, limits[0], limits[1]) > cutoff.violation


@compiled
def markov_risk(model, members, count, scratch):
    """The left sides of (11f) and of (11g) written as a risk: 1 - sum p d / (data_min + margin)."""
    label_start, label_of, label_count, data = model.rows
    target, probability = model.target, model.probability
    kld_limit, data_limit = model.kld_limit, model.data_limit
    labels = target.shape[0]
    all_offline = 1.0
    expected = 0.0
    floats, holders = scratch.floats, scratch.integers
    largest = floats[:labels]
    smallest = floats[labels : 2 * labels]
    for h in range(labels):
        largest[h] = 0.0
        smallest[h] = np.inf
        holders[h] = 0
    for m in range(count):
        client = members[m]
        all_offline *= 1.0 - probability[client]
        expected += probability[client] * data[client]
        for k in range(label_start[client], label_start[client + 1]):
            h = label_of[k]
            share = label_count[k] / data[client]
            holders[h] += 1
            largest[h] = max(largest[h], share)
            smallest[h] = min(smallest[h], share)
    bound = 0.0  # sum over h of G_j(h)
    for h in range(labels):
        low = smallest[h] if holders[h] == count else 0.0
        at_low = low * np.log(low / target[h]) if low > 0 else 0.0
        at_high = largest[h] * np.log(largest[h] / target[h]) if largest[h] > 0 else 0.0
        turning = target[h] / np.e
        if turning >= largest[h]:
            bound += at_low
        elif turning <= low:
            bound += at_high
        else:
            bound += max(at_low, at_high)
    # With no room left between kld_max and its margin Markov's inequality says nothing.
    given_online = bound / kld_limit if kld_limit > 0 else 1.0
    kld_risk = all_offline + (1.0 - all_offline) * given_online
    data_risk = max(0.0, 1.0 - expected / data_limit) if data_limit > 0 else 0.0
    return kld_risk, data_risk


@compiled
def _divergence(sums, total, log_target):
    """KLD of an edge's label sums, infinite without data (Eq. 7)."""
    if total <= 0:
        return np.inf
    log_sum = 0.0
    for h in range(sums.shape[0]):
        log_sum += label_term(sums[h], log_target[h])
    return kld_of(log_sum, total)


@inlined
def tabled_term(y, log_target, y_log_y):
    """`label_term` by a table for the usual sums."""
    if y < y_log_y.shape[0]:
        return y_log_y[y] - y * log_target
    return label_term(y, log_target)


@compiled
def _sum_of(part):
    """The sum of an array, in four chains that the processor adds side by side."""
    a = b = c = d = 0.0
    whole = part.shape[0] & ~3
    for h in range(0, whole, 4):
        a += part[h]
        b += part[h + 1]
        c += part[h + 2]
        d += part[h + 3]
    for h in range(whole, part.shape[0]):
        a += part[h]
    return (a + b) + (c + d)


@compiled
def _least_certain_first(members, count, probability, uncertain):
    """Write the members that may or may not be online into `uncertain`; returns how many."""
    n = 0
    for m in range(count):
        client = members[m]
        if 0.0 < probability[client] < 1.0:
            place = n
            while place > 0 and probability[uncertain[place - 1]] > probability[client]:
                uncertain[place] = uncertain[place - 1]
                place -= 1
            uncertain[place] = client
            n += 1
    return n


@compiled
def exact_risk(model, members, count, cutoff, scratch):
    """The true probabilities of (11a) and (11b), over all patterns of who is online.

    The patterns begin with everybody online, and the least certain members go first: the likely
    patterns come early, and a few of them often decide about the `cutoff`.
    """
    label_start, label_of, label_count, data = model.rows
    log_target, probability = model.log_target, model.probability
    kld_limit, data_limit = model.kld_limit, model.data_limit
    labels = log_target.shape[0]
    floats, integers, y_log_y = scratch
    part = floats[:labels]
    chance = floats[labels:]  # of the states of members b, b + 1, ...
    sums = integers[:labels]
    uncertain = integers[labels:]
    for h in range(labels):
        sums[h] = 0
    total = 0
    for m in range(count):
        client = members[m]
        if probability[client] > 0.0:
            total += data[client]
            for k in range(label_start[client], label_start[client + 1]):
                sums[label_of[k]] += label_count[k]
    for h in range(labels):
        part[h] = tabled_term(sums[h], log_target[h], y_log_y)
    n = _least_certain_first(members, count, probability, uncertain)
    chance[n] = 1.0
    for b in range(n - 1, -1, -1):
        chance[b] = chance[b + 1] * probability[uncertain[b]]
    kld_risk = 0.0
    data_risk = 0.0
    rest = 1.0
    gray = 0  # bit b is set where uncertain[b] is offline
    for step in range(1, (1 << n) + 1):
        allowed = total * (kld_limit + KLD_TOLERANCE) + tabled_term(total, 0.0, y_log_y)
        if total == 0 or _sum_of(part) > allowed:
            kld_risk += chance[0]
        if total < data_limit:
            data_risk += chance[0]
        rest -= chance[0]
        if is_decided(kld_risk, data_risk, rest, cutoff) or step >> n:
            break
        bit = 0  # Gray code: neighbouring patterns differ in one client
        while (step >> bit) & 1 == 0:
            bit += 1
        gray ^= 1 << bit
        client = uncertain[bit]
        sign = -1 if (gray >> bit) & 1 else 1
        total += sign * data[client]
        for k in range(label_start[client], label_start[client + 1]):
            h = label_of[k]
            sums[h] += sign * label_count[k]
            part[h] = tabled_term(sums[h], log_target[h], y_log_y)
        for b in range(bit, -1, -1):
            p = probability[uncertain[b]]
            chance[b] = chance[b + 1] * (1.0 - p if (gray >> b) & 1 else p)
    # The chances sum to 1 but for rounding.
    return min(kld_risk, 1.0), min(data_risk, 1.0)


@compiled
def sampled_risk(model, members, count, scratch):
    """The share of the sampled rounds that break each limit."""
    label_start, label_of, label_count, data = model.rows
    log_target, samples, sample_count = model.log_target, model.samples, model.sample_count
    labels = log_target.shape[0]
    sums = scratch.integers[:labels]
    kld_broken = 0
    data_broken = 0
    for sample in range(sample_count):
        word, bit = sample >> 6, np.uint64(sample & 63)
        total = 0
        for h in range(labels):
            sums[h] = 0
        for m in range(count):
            client = members[m]
            if (samples[client, word] >> bit) & np.uint64(1):
                total += data[client]
                for k in range(label_start[client], label_start[client + 1]):
                    sums[label_of[k]] += label_count[k]
        if _divergence(sums, total, log_target) > model.kld_limit + KLD_TOLERANCE:
            kld_broken += 1
        if total < model.data_limit:
            data_broken += 1
    return kld_broken / sample_count, data_broken / sample_count


@compiled
def edge_risk(model, members, count, cutoff, scratch):
    """The risk of one edge with members[:count]; an edge without clients breaks both limits for sure.

    Where the `cutoff` was decided early, what had been found of the risk until then.
    """
    if count == 0:
        return 1.0, 1.0
    if model.measure == MARKOV:
        return markov_risk(model, members, count, scratch)
    if model.measure == EXACT:
        uncertain = 0
        for m in range(count):
            if 0.0 < model.probability[members[m]] < 1.0:
                uncertain += 1
        if uncertain <= EXACT_MEMBERS:
            return exact_risk(model, members, count, cutoff, scratch)
    return sampled_risk(model, members, count, scratch)
