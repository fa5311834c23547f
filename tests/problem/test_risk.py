"""The three risk measures against plain enumeration and a literal transcription of (11f), (11g)."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from references import plain_kld, plain_scenario
from stagewise.checker.risks import exact_risk, markov_risk, sampled_risk, sampled_rounds
from stagewise.errors import StagewiseError
from stagewise.problem.risk import risk_measure
from stagewise.problem.risk_kernels import EXACT_MEMBERS
from stagewise.world.scenario import Limits, Scenario

SEEDS = st.integers(0, 2**32 - 1)


def enumerated(scenario: Scenario, members: list[int]) -> tuple[float, float]:
    """Pr of (11a) and (11b) broken: every pattern of who is online, weighted by its probability."""
    limits, clients = scenario.limits, scenario.clients
    kld_limit = limits.kld_max - limits.kld_margin
    kld_risk = data_risk = 0.0
    for pattern in itertools.product([False, True], repeat=len(members)):
        likelihood = 1.0
        sums = [0] * scenario.labels
        for client, online in zip(members, pattern, strict=True):
            p = float(clients.online_probability[client])
            likelihood *= p if online else 1 - p
            if online:
                row = clients.label_counts[client].tolist()
                sums = [a + b for a, b in zip(sums, row, strict=True)]
        if plain_kld(sums, scenario.target.tolist()) > kld_limit + 1e-9:
            kld_risk += likelihood
        if sum(sums) < limits.data_min + limits.data_margin:
            data_risk += likelihood
    return kld_risk, data_risk


def literal_markov(scenario: Scenario, members: list[int]) -> tuple[float, float]:
    """(11f)'s left side with G as the appendix defines it, and 1 - sum p d / (D_min + Delta_d)."""
    limits, clients = scenario.limits, scenario.clients
    d = {i: int(clients.label_counts[i].sum()) for i in members}
    p = {i: float(clients.online_probability[i]) for i in members}

    def u(share: float, q: float) -> float:
        return share * math.log(share / q) if share > 0 else 0.0

    def g(h: int) -> float:
        q = float(scenario.target[h])
        low = min(clients.label_counts[i, h] / d[i] for i in members)
        high = max(clients.label_counts[i, h] / d[i] for i in members)
        if q / math.e >= high:
            return u(low, q)
        if q / math.e <= low:
            return u(high, q)
        return max(u(low, q), u(high, q))

    nobody = math.prod(1 - p[i] for i in members)
    bound = sum(g(h) / (limits.kld_max - limits.kld_margin) for h in range(scenario.labels))
    short = 1 - sum(p[i] * d[i] for i in members) / (limits.data_min + limits.data_margin)
    return nobody + (1 - nobody) * bound, max(0.0, short)


def drawn(seed: int, **changes) -> tuple[Scenario, list[int]]:
    """A scenario with margins, probabilities of 0 and 1 among others, and the members of one edge."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(
        seed,
        clients=9,
        labels=4,
        certain=0.3,
        reference=bool(seed % 2),
        limits=Limits(kld_max=0.5, data_min=150, kld_margin=0.1, data_margin=20),
        labels_per_client=(1, 4),
        **changes,
    )
    return scenario, rng.permutation(9)[: rng.integers(1, 9)].tolist()


@given(SEEDS)
def test_exact_is_the_enumerated_probability(seed):
    scenario, members = drawn(seed)
    found = risk_measure(scenario, "exact").of(np.array(members))
    assert found == pytest.approx(enumerated(scenario, members), abs=1e-12)
    assert exact_risk(scenario, members) == pytest.approx(found, abs=1e-12)


def test_exact_by_hand():
    """Two balanced clients of 100 samples and one of 100 with a single label, p = 0.9, 0.8, 0.5.

    At least 200 samples: two of three online. 0.9*0.8 + 0.5*(0.9*0.2 + 0.1*0.8) = 0.72 + 0.13 = 0.85,
    so the data risk is 0.15. With the third client's label share s the KLD is at most 0.1 for the
    first two in any number without it (0), and with it for both of them: (200, 100) has 0.0566.
    With one of them (150, 50) it has 0.1308, and alone ln 2. So the KLD holds if the third is
    offline and another online, 0.5 * (1 - 0.1*0.2) = 0.49, or if all are online, 0.9*0.8*0.5 = 0.36.
    """
    scenario = plain_scenario(
        [[50, 50], [50, 50], [100, 0]],
        [[0]] * 3,
        online=[0.9, 0.8, 0.5],
        limits=Limits(kld_max=0.1, data_min=200),
    )
    members = np.arange(3)
    assert risk_measure(scenario, "exact").of(members) == pytest.approx((0.15, 0.15), abs=1e-12)
    alone = risk_measure(scenario, "exact").of(np.array([2]))
    assert alone == pytest.approx((1.0, 1.0), abs=1e-12)
    tighter = replace(scenario, limits=Limits(kld_max=0.1, data_min=150, data_margin=51))
    # 201 samples: all three must be online.
    assert risk_measure(tighter, "exact").of(members)[1] == pytest.approx(0.64, abs=1e-12)
    margin = replace(scenario, limits=Limits(kld_max=0.1, data_min=200, kld_margin=0.05))
    # 0.0566 is too much now: only without the third.
    assert risk_measure(margin, "exact").of(members)[0] == pytest.approx(0.51, abs=1e-12)


def test_exact_counts_certain_members_out():
    """Members with p of 0 and 1 do not count towards the number that can be enumerated."""
    certain = [1.0] * 20 + [0.0] * 10
    scenario = plain_scenario(
        [[10, 10]] * 35,
        [[0]] * 35,
        online=[*certain, 0.5, 0.5, 0.5, 0.5, 0.5],
        limits=Limits(kld_max=0.1, data_min=20 * 20 + 3 * 20),
    )
    # Three of the five must come: 1 - (10 + 5 + 1)/32 = 1/2 for fewer than three.
    risk = risk_measure(scenario, "exact").of(np.arange(35))
    assert risk == pytest.approx((0.0, 0.5), abs=1e-12)


def test_beyond_enumeration_exact_is_sampled():
    count = EXACT_MEMBERS + 1
    scenario = plain_scenario(
        [[10, 10]] * count, [[0]] * count, limits=Limits(kld_max=0.1, data_min=20 * 8)
    )
    members = np.arange(count)
    exact = risk_measure(scenario, "exact", seed=3, samples=500)
    sampled = risk_measure(scenario, "sampled", seed=3, samples=500)
    assert exact.of(members) == sampled.of(members)
    # With one fewer it is 1/2 of all patterns and half of those in which exactly 7 of 14 come.
    half = 0.5 + 0.5 * math.comb(14, 7) / 2**14
    assert exact.of(members[:-1])[1] == pytest.approx(half, abs=1e-12)


@given(SEEDS)
def test_sampled_is_the_share_of_the_drawn_rounds(seed):
    scenario, members = drawn(seed)
    measure = risk_measure(scenario, "sampled", seed=seed, samples=100)
    draws = sampled_rounds(scenario, members, seed, 100)
    assert measure.of(np.array(members)) == sampled_risk(scenario, members, draws)
    for client in members:  # certain clients are certain in every draw
        p = scenario.clients.online_probability[client]
        if p in (0.0, 1.0):
            assert draws[client].mean() == p


def test_sampled_converges_to_exact():
    """With n draws the standard deviation is at most 1 / (2 sqrt n); six of them are allowed."""
    for seed in range(10):
        scenario, members = drawn(seed)
        exact = enumerated(scenario, members)
        for samples in (1_000, 30_000):
            found = risk_measure(scenario, "sampled", seed=seed, samples=samples).of(
                np.array(members)
            )
            assert found == pytest.approx(exact, abs=3 / math.sqrt(samples))


def test_sampled_rounds_depend_on_the_seed_alone():
    scenario, _ = drawn(4)
    one, same, other = (risk_measure(scenario, "sampled", seed=seed) for seed in (1, 1, 2))
    assert (one.samples == same.samples).all()
    assert (one.samples != other.samples).any()


@given(SEEDS)
def test_markov_is_the_papers_bound(seed):
    scenario, members = drawn(seed)
    found = risk_measure(scenario, "markov").of(np.array(members))
    assert found == pytest.approx(literal_markov(scenario, members), rel=1e-12, abs=1e-12)
    assert markov_risk(scenario, members) == pytest.approx(found, rel=1e-12, abs=1e-12)


@given(SEEDS)
def test_markov_bounds_the_true_probabilities(seed):
    """(11f) bounds the KLD risk from above, (11g) the data risk from below."""
    scenario, members = drawn(seed)
    kld_bound, data_bound = risk_measure(scenario, "markov").of(np.array(members))
    kld_risk, data_risk = enumerated(scenario, members)
    assert kld_risk <= kld_bound + 1e-12
    assert data_risk >= data_bound - 1e-12


MARKOV_BY_HAND = {
    # One member (30, 10), Q = (1/2, 1/2), 1/(2e) = 0.184 <= both shares, which are min and max at
    # once: G = U(3/4) + U(1/4) = 3/4 ln(3/2) + 1/4 ln(1/2) = 0.13081204, its own KLD; over 0.2 that
    # is 0.65406018. p = 0.8: 0.2 + 0.8 * 0.65406018 = 0.72324814; 1 - 0.8 * 40 / 50 = 0.36.
    "one member": ([[30, 10]], [0.8], (0.72324814, 0.36)),
    # The same, certain to be there: no term for nobody online; 1 - 40 / 50.
    "one member, p = 1": ([[30, 10]], [1.0], (0.65406018, 0.2)),
    # Never there: the product is 1 and nothing else remains.
    "one member, p = 0": ([[30, 10]], [0.0], (1.0, 1.0)),
    # A second member with one label alone: shares 3/4 and 1, 1/4 and 0. For the second label the
    # smallest, 0, is below 1/(2e), so G = max(U(0), U(1/4)) = max(0, -0.1733) = 0; for the first
    # G = U(1) = ln 2. ln 2 / 0.2 = 3.46573590, and somebody is always there as p = 1 for one.
    # Expected data: 0.5 * 40 + 20 = 40.
    "two members": ([[30, 10], [20, 0]], [0.5, 1.0], (3.46573590, 0.2)),
    # A label that nobody holds: Q = 1/3 each, its G is U(0) = 0. The others have a share of 1/2:
    # 2 * 1/2 ln(3/2) = 0.40546511, over 0.2: 2.02732554. p = 0.5: 0.5 + 0.5 * 2.02732554.
    "a label nobody holds": ([[25, 25, 0]], [0.5], (1.51366277, 0.5)),
    # More data than needed is a risk of 0, not a negative one.
    "plenty": ([[500, 500]], [0.5], (0.5, 0.0)),
}


@pytest.mark.parametrize("name", MARKOV_BY_HAND)
def test_markov_by_hand(name):
    labels, online, expected = MARKOV_BY_HAND[name]
    scenario = plain_scenario(
        labels, [[0]] * len(labels), online=online, limits=Limits(kld_max=0.2, data_min=50)
    )
    members = list(range(len(labels)))
    assert risk_measure(scenario, "markov").of(np.array(members)) == pytest.approx(
        expected, abs=1e-8
    )
    assert literal_markov(scenario, members) == pytest.approx(expected, abs=1e-8)


@given(SEEDS)
def test_markov_rejects_every_edge_of_clients_with_few_labels(seed):
    """1-3 labels of 10 in equal parts: every label has a share of 1/3 or more somewhere, so an edge
    that holds all ten has a bound of at least 10 U(1/3) = 4.0, and 4.0 / 0.2 = 20 is no probability.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for first in range(10):  # together they hold every label
        held = {first, *rng.choice(10, rng.integers(0, 3), replace=False).tolist()}
        size = int(rng.integers(80, 120))
        rows.append([size if h in held else 0 for h in range(10)])
    scenario = plain_scenario(
        rows, [[0]] * 10, online=[1.0] * 10, capacity=[10], limits=Limits(kld_max=0.2, data_min=1)
    )
    kld_bound, _ = risk_measure(scenario, "markov").of(np.arange(10))
    assert kld_bound >= 10 * (1 / 3) * math.log(10 / 3) / 0.2 - 1e-9
    assert kld_bound > 20
    assert risk_measure(scenario, "exact").of(np.arange(10))[0] <= 1


def test_an_edge_without_clients_breaks_both_limits():
    scenario, _ = drawn(1)
    nobody = np.zeros(0, dtype=np.int64)
    for name in ("exact", "sampled", "markov"):
        assert risk_measure(scenario, name).of(nobody) == (1.0, 1.0)


def test_an_unknown_measure():
    scenario, _ = drawn(1)
    with pytest.raises(
        StagewiseError, match="risk = 'guess': must be one of exact, sampled, markov"
    ):
        risk_measure(scenario, "guess")
