"""Compiled risk of one edge's long-term clients: (11f) and (11g), exact, and sampled.

Every function takes the members of one edge and their data in sparse rows: client i holds
`label_count[k]` samples of label `label_of[k]` for k in label_start[i]:label_start[i+1].
"""

import numpy as np
import numpy.typing as npt

from stagewise.compiled import compiled

MARKOV, EXACT, SAMPLED = 1, 2, 3

# Beyond this many uncertain members 2^n patterns take too long; the sampled measure stands in.
EXACT_MEMBERS = 14

# A divergence this close to its limit counts as within it, in every evaluation alike.
KLD_TOLERANCE = 1e-9


def risk_scratch(
    labels: int, members: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Room for the functions below, which allocate nothing: (floats, integers)."""
    return np.empty(max(1 << EXACT_MEMBERS, 2 * labels)), np.empty(labels + members, dtype=np.int64)


@compiled
def markov_risk(members, count, rows, target, probability, kld_limit, data_limit, scratch):
    """The left sides of (11f) and of (11g) written as a risk: 1 - sum p d / (data_min + margin)."""
    label_start, label_of, label_count, data = rows
    labels = target.shape[0]
    all_offline = 1.0
    expected = 0.0
    floats, holders = scratch
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
def exact_risk(members, count, rows, log_target, probability, kld_limit, data_limit, scratch):
    """The true probabilities of (11a) and (11b), over all patterns of who is online."""
    label_start, label_of, label_count, data = rows
    labels = log_target.shape[0]
    likelihood, integers = scratch
    sums = integers[:labels]
    uncertain = integers[labels:]
    for h in range(labels):
        sums[h] = 0
    total = 0
    n = 0
    for m in range(count):
        client = members[m]
        if probability[client] >= 1.0:
            total += data[client]
            for k in range(label_start[client], label_start[client + 1]):
                sums[label_of[k]] += label_count[k]
        elif probability[client] > 0.0:
            uncertain[n] = client
            n += 1
    # The probability of each pattern, built by doubling: bit b is set where uncertain[b] is online.
    likelihood[0] = 1.0
    for b in range(n):
        p = probability[uncertain[b]]
        half = 1 << b
        for pattern in range(half):
            likelihood[half + pattern] = likelihood[pattern] * p
            likelihood[pattern] *= 1.0 - p
    kld_risk = 0.0
    data_risk = 0.0
    gray = 0
    for step in range(1 << n):
        if step > 0:  # Gray code: neighbouring patterns differ in one client
            bit = 0
            while (step >> bit) & 1 == 0:
                bit += 1
            gray ^= 1 << bit
            client = uncertain[bit]
            sign = 1 if (gray >> bit) & 1 else -1
            total += sign * data[client]
            for k in range(label_start[client], label_start[client + 1]):
                sums[label_of[k]] += sign * label_count[k]
        if _divergence(sums, total, log_target) > kld_limit + KLD_TOLERANCE:
            kld_risk += likelihood[gray]
        if total < data_limit:
            data_risk += likelihood[gray]
    # The likelihoods sum to 1 but for rounding.
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
    scratch,
):
    """The risk of one edge under `measure`; an edge without clients breaks both limits for sure."""
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
                members, count, rows, log_target, probability, kld_limit, data_limit, scratch
            )
    return sampled_risk(
        members, count, rows, log_target, samples, sample_count, kld_limit, data_limit, scratch
    )
