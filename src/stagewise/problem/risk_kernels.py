"""Compiled risk of one edge's long-term clients: (11f) and (11g), exact, and sampled.

Every function takes the members of one edge and their data in sparse rows: client i holds
`label_count[k]` samples of label `label_of[k]` for k in label_start[i]:label_start[i+1].
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from stagewise.compiled import compiled

MARKOV, EXACT, SAMPLED = 1, 2, 3

# Beyond this many uncertain members 2^n patterns take too long; the sampled measure stands in.
EXACT_MEMBERS = 14

# A divergence this close to its limit counts as within it, in every evaluation alike.
KLD_TOLERANCE = 1e-9

# Of a risk everything is wanted, see `is_enough`.
RISK_ITSELF = (-1.0, -1.0, np.inf)

Scratch = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]


def risk_scratch(labels: int, members: int) -> Scratch:
    """Room for the functions below, which allocate nothing: (floats, integers, y log y)."""
    floats = np.empty(2 * labels + members + 1)
    return floats, np.empty(labels + members, dtype=np.int64), _logarithms()


@cache
def _logarithms() -> npt.NDArray[np.float64]:
    """y log y for the sums of labels that are usual."""
    y = np.arange(1 << 14, dtype=np.float64)
    return np.asarray(y * np.log(np.maximum(y, 1.0)))


@compiled
def risk_violation(kld_risk, data_risk, kld_risk_limit, data_risk_limit):
    """By how much the risks miss (11a) and (11b)."""
    missing = 0.0
    if kld_risk > kld_risk_limit + KLD_TOLERANCE:
        missing += kld_risk - kld_risk_limit
    if data_risk > data_risk_limit + KLD_TOLERANCE:
        missing += data_risk - data_risk_limit
    return missing


@compiled
def is_enough(kld_risk, data_risk, rest, enough):
    """Whether risks found so far, with a probability of `rest` not yet looked at, tell enough.

    `enough` is (limit of the KLD risk, limit of the data risk, violation): either both limits will
    be kept, whatever the rest, or they are missed by more than the violation already.
    """
    kld_risk_limit, data_risk_limit, violation = enough
    if kld_risk + rest <= kld_risk_limit and data_risk + rest <= data_risk_limit:
        return True
    return risk_violation(kld_risk, data_risk, kld_risk_limit, data_risk_limit) > violation


@compiled
def markov_risk(members, count, rows, target, probability, kld_limit, data_limit, scratch):
    """The left sides of (11f) and of (11g) written as a risk: 1 - sum p d / (data_min + margin)."""
    label_start, label_of, label_count, data = rows
    labels = target.shape[0]
    all_offline = 1.0
    expected = 0.0
    floats, holders, _ = scratch
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
    value = 0.0
    for h in range(sums.shape[0]):
        if sums[h] > 0:
            value += sums[h] * (np.log(sums[h]) - log_target[h])
    return value / total - np.log(total)


@compiled
def _entropy_part(count, log_target, logs):
    """count * log(count / q) of one label."""
    if count < logs.shape[0]:
        return logs[count] - count * log_target
    return count * (np.log(count) - log_target)


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
def exact_risk(
    members, count, rows, log_target, probability, kld_limit, data_limit, enough, scratch
):
    """The true probabilities of (11a) and (11b), over all patterns of who is online.

    `enough` is what a caller wants to know (`RISK_ITSELF`: everything). The patterns begin with
    everybody online, and the least certain members go first: the likely patterns come early, and
    `enough` is often reached after a few.
    """
    label_start, label_of, label_count, data = rows
    labels = log_target.shape[0]
    floats, integers, logs = scratch
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
        part[h] = _entropy_part(sums[h], log_target[h], logs)
    n = _least_certain_first(members, count, probability, uncertain)
    chance[n] = 1.0
    for b in range(n - 1, -1, -1):
        chance[b] = chance[b + 1] * probability[uncertain[b]]
    kld_risk = 0.0
    data_risk = 0.0
    rest = 1.0
    gray = 0  # bit b is set where uncertain[b] is offline
    for step in range(1, (1 << n) + 1):
        allowed = total * (kld_limit + KLD_TOLERANCE) + _entropy_part(total, 0.0, logs)
        if total == 0 or _sum_of(part) > allowed:
            kld_risk += chance[0]
        if total < data_limit:
            data_risk += chance[0]
        rest -= chance[0]
        if is_enough(kld_risk, data_risk, rest, enough) or step >> n:
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
            part[h] = _entropy_part(sums[h], log_target[h], logs)
        for b in range(bit, -1, -1):
            p = probability[uncertain[b]]
            chance[b] = chance[b + 1] * (1.0 - p if (gray >> b) & 1 else p)
    # The chances sum to 1 but for rounding.
    return min(kld_risk, 1.0), min(data_risk, 1.0)


@compiled
def sampled_risk(
    members, count, rows, log_target, samples, sample_count, kld_limit, data_limit, scratch
):
    """The share of the sampled rounds that break each limit; `samples` holds a bit per round."""
    label_start, label_of, label_count, data = rows
    labels = log_target.shape[0]
    sums = scratch[1][:labels]
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
        if _divergence(sums, total, log_target) > kld_limit + KLD_TOLERANCE:
            kld_broken += 1
        if total < data_limit:
            data_broken += 1
    return kld_broken / sample_count, data_broken / sample_count


@compiled
def edge_risk(
    measure,
    members,
    count,
    rows,
    target,
    log_target,
    probability,
    samples,
    sample_count,
    kld_limit,
    data_limit,
    enough,
    scratch,
):
    """The risk of one edge under `measure`; an edge without clients breaks both limits for sure.

    Where `enough` was reached early (`is_enough`), what had been found of the risk until then.
    """
    if count == 0:
        return 1.0, 1.0
    if measure == MARKOV:
        return markov_risk(
            members, count, rows, target, probability, kld_limit, data_limit, scratch
        )
    if measure == EXACT:
        uncertain = 0
        for m in range(count):
            if 0.0 < probability[members[m]] < 1.0:
                uncertain += 1
        if uncertain <= EXACT_MEMBERS:
            return exact_risk(
                members,
                count,
                rows,
                log_target,
                probability,
                kld_limit,
                data_limit,
                enough,
                scratch,
            )
    return sampled_risk(
        members, count, rows, log_target, samples, sample_count, kld_limit, data_limit, scratch
    )
