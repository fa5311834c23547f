"""The risks of (11a) and (11b) under each measure, by enumeration of who is online."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stagewise.checker.equations import LIMIT_TOLERANCE
from stagewise.randomness import generator

if TYPE_CHECKING:
    from stagewise.world.scenario import BoolArray, FloatArray, Scenario

# `exact` is `sampled` for an edge with more clients than this that may or may not be online.
EXACT_MEMBERS = 14
_BLOCK = 65_536  # clients to a block of draws


def limits_of(scenario: "Scenario") -> tuple[float, float]:
    """The limits of (11a) and (11b): KLD_max less its margin, and D_min with its own."""
    limits = scenario.limits
    return limits.kld_max - limits.kld_margin, limits.data_min + limits.data_margin


def markov_risk(scenario: "Scenario", members: Sequence[int]) -> tuple[float, float]:
    """The left sides of (11f) and, as 1 - sum p d / (D_min + margin), of (11g)."""
    kld_limit, data_limit = limits_of(scenario)
    clients = scenario.clients
    online = [float(clients.online_probability[i]) for i in members]
    labels = [clients.label_counts[i].tolist() for i in members]
    sizes = [sum(row) for row in labels]
    nobody = math.prod(1 - p for p in online)
    bound = 0.0
    for h, q in enumerate(scenario.target.tolist()):
        shares = [row[h] / size for row, size in zip(labels, sizes, strict=True)]
        low, high = _u(min(shares), q), _u(max(shares), q)
        if q / math.e >= max(shares):
            bound += low
        elif q / math.e <= min(shares):
            bound += high
        else:
            bound += max(low, high)
    # A limit of 0 leaves Markov's inequality nothing to divide by: all it gives is Pr <= 1.
    ratio = bound / kld_limit if kld_limit > 0 else 1.0
    expected = math.fsum(p * size for p, size in zip(online, sizes, strict=True))
    data_risk = max(0.0, 1 - expected / data_limit) if data_limit > 0 else 0.0
    return nobody + (1 - nobody) * ratio, data_risk


def _u(share: float, q: float) -> float:
    """U of the derivation of (11f), continued by its limit at 0."""
    return share * math.log(share / q) if share > 0 else 0.0


def uncertain(scenario: "Scenario", members: Sequence[int]) -> list[int]:
    return [i for i in members if 0 < scenario.clients.online_probability[i] < 1]


def exact_risk(scenario: "Scenario", members: Sequence[int]) -> tuple[float, float]:
    """The probabilities of (11a) and (11b): all 2^n patterns of the n uncertain members."""
    probability = scenario.clients.online_probability
    free = uncertain(scenario, members)
    always = [i for i in members if probability[i] >= 1]
    patterns = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1 == 1
    likelihood = np.where(patterns, probability[free], 1 - probability[free]).prod(axis=1)
    online = np.hstack([patterns, np.ones((len(patterns), len(always)), dtype=bool)])
    unbalanced, short = _broken_patterns(scenario, [*free, *always], online)
    return math.fsum(likelihood[unbalanced]), math.fsum(likelihood[short])


def sampled_risk(
    scenario: "Scenario", members: Sequence[int], draws: "Mapping[int, BoolArray]"
) -> tuple[float, float]:
    """The share of the drawn rounds in which each limit is broken."""
    online = np.array([draws[i] for i in members]).T
    unbalanced, short = _broken_patterns(scenario, members, online)
    return int(unbalanced.sum()) / len(online), int(short.sum()) / len(online)


def sampled_rounds(
    scenario: "Scenario", members: Sequence[int], seed: int, samples: int
) -> "dict[int, BoolArray]":
    """In which of the common random rounds each of `members` is online."""
    probability = scenario.clients.online_probability
    drawn = {}
    width = 64 * -(-samples // 64)
    by_block: dict[int, list[int]] = {}
    for i in members:
        by_block.setdefault(i // _BLOCK, []).append(i)
    for block, rows in by_block.items():
        height = min(_BLOCK, len(probability) - block * _BLOCK)
        draws = generator(seed, "risk samples", block).random((height, width), dtype=np.float32)
        for i in rows:
            drawn[i] = draws[i - block * _BLOCK, :samples] < probability[i : i + 1]
    return drawn


def _broken_patterns(
    scenario: "Scenario", members: Sequence[int], online: "BoolArray"
) -> "tuple[BoolArray, BoolArray]":
    """Which patterns (rows of `online`, a column for each member) break (11a), and which (11b)."""
    kld_limit, data_limit = limits_of(scenario)
    sums = online.astype(np.int64) @ scenario.clients.label_counts[list(members)]
    total = sums.sum(axis=1)
    kld = np.full(len(total), np.inf)  # nobody online: the derivation takes it as infinite
    some = total > 0
    kld[some] = _divergences(sums[some] / total[some, None], scenario.target)
    return kld > kld_limit + LIMIT_TOLERANCE, total < data_limit


def _divergences(shares: "FloatArray", target: "FloatArray") -> "FloatArray":
    ratio = np.where(shares > 0, shares / target, 1.0)
    return np.asarray((shares * np.log(ratio)).sum(axis=1))
