"""Eqs. 4, 5, 7 and 10 worked out by hand, and against the checker's own arithmetic."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from references import (
    members_of,
    plain_kld,
    plain_scenario,
    random_assignment,
    random_round,
    serving_of,
)
from stagewise.checker.equations import continuity as checked_continuity
from stagewise.checker.equations import divergence, figures
from stagewise.problem.evaluation import continuity, evaluate, round_violations
from stagewise.world.rounds import everybody_online
from stagewise.world.scenario import Limits, Weights

SEEDS = st.integers(0, 2**32 - 1)

# By hand. A client with d samples takes 1e6 * 0.1 * d = 1e5 d cycles a step: 1e-4 d s at 1 GHz, and
# 1e-28 * (1e9)^2 * 1e5 d = 1e-5 d J. Sending takes 6e5 bit / (1e6 Hz * log2(1 + 7)) = 0.2 s and
# 0.5 W * 0.2 s = 0.1 J. With five local steps T_ij = 5e-4 d + 0.2 s and E_ij = 5e-5 d + 0.1 J:
#   c0, d = 400: T = 0.40 s, E = 0.120 J        c1, d = 200: T = 0.30 s, E = 0.110 J
#   c2, d = 100: T = 0.25 s, E = 0.105 J
LABELS = [[300, 100], [100, 100], [25, 75]]
LINKS = [[0, 1], [0, 1], [0, 1]]
# c0 and c1 at es0, c2 at es1, nobody at es2.
ASSIGNMENT = np.array([0, 0, 1])


def three_clients(**changes):
    return plain_scenario(LABELS, LINKS, online=[0.9, 0.4, 0.6], capacity=[2, 2, 2], **changes)


def test_delay_by_hand():
    """Eq. 4: es0 3 * max(0.40, 0.30) + 0.1 = 1.3 s, es1 3 * 0.25 + 0.2 = 0.95 s, es2 nothing."""
    scenario = three_clients()
    evaluation = evaluate(everybody_online(scenario), ASSIGNMENT)
    assert evaluation.edge_delay_s.tolist() == pytest.approx([1.3, 0.95, 0.0], rel=1e-12)
    assert evaluation.delay_s == pytest.approx(1.3, rel=1e-12)
    assert figures(scenario, serving_of(scenario, ASSIGNMENT)).delay_s == pytest.approx(
        1.3, rel=1e-12
    )


def test_energy_by_hand():
    """Eq. 5: 3 * (0.120 + 0.110) + 0.01 and 3 * 0.105 + 0.02, es2 nothing: 0.70 + 0.335 J."""
    scenario = three_clients()
    evaluation = evaluate(everybody_online(scenario), ASSIGNMENT)
    assert evaluation.energy_j == pytest.approx(1.035, rel=1e-12)
    assert figures(scenario, serving_of(scenario, ASSIGNMENT)).energy_j == pytest.approx(
        1.035, rel=1e-12
    )


def test_cost_by_hand():
    """0.25 * 1.3 + 2 * 1.035 = 0.325 + 2.07."""
    scenario = three_clients(weights=Weights(delay=0.25, energy=2.0))
    assert evaluate(everybody_online(scenario), ASSIGNMENT).cost == pytest.approx(2.395, rel=1e-12)


def test_divergence_by_hand():
    """Eqs. 7, 8: es0 holds (400, 200), so P = (2/3, 1/3); es1 holds (25, 75), P = (1/4, 3/4).

    Against Q = (1/2, 1/2): 2/3 ln(4/3) + 1/3 ln(2/3) = 0.19178805 - 0.13515504 = 0.05663301 and
    1/4 ln(1/2) + 3/4 ln(3/2) = -0.17328680 + 0.30409883 = 0.13081204.
    Against Q = (1/4, 3/4): 2/3 ln(8/3) + 1/3 ln(4/9) = 0.65388617 - 0.27031007 = 0.38357610 and 0.
    """
    for reference, kld in ((None, (0.05663301, 0.13081204)), ((0.25, 0.75), (0.38357610, 0.0))):
        scenario = three_clients(reference=reference)
        evaluation = evaluate(everybody_online(scenario), ASSIGNMENT)
        assert evaluation.kld[:2].tolist() == pytest.approx(kld, abs=1e-8)
        assert evaluation.kld[2] == math.inf
        assert evaluation.clients.tolist() == [2, 1, 0]
        assert evaluation.data.tolist() == [600, 100, 0]


def test_continuity_by_hand():
    """Eq. 10: (0.9 * 0.4)^(1/2) = 0.6; of c1 and c2 (0.4 * 0.6)^(1/2) = 0.48989795."""
    scenario = three_clients()
    assert continuity(scenario, np.array([0, 1, -1])) == pytest.approx(0.6, rel=1e-12)
    assert continuity(scenario, np.array([-1, 1, 0])) == pytest.approx(0.4898979486, abs=1e-10)


def test_continuity_at_its_ends():
    scenario = plain_scenario([[5, 5]] * 3, [[0]] * 3, online=[0.0, 1.0, 0.5])
    assert continuity(scenario, np.array([-1, -1, -1])) == 0.0
    assert continuity(scenario, np.array([0, 0, -1])) == 0.0
    assert continuity(scenario, np.array([-1, 0, -1])) == 1.0


def test_violations_by_hand():
    """es0 is over its capacity, es1 short and unbalanced, es2 empty; es0's KLD is within the limit."""
    scenario = plain_scenario(
        LABELS, LINKS, capacity=[1, 2, 2], limits=Limits(kld_max=0.1, data_min=101)
    )
    assert round_violations(scenario, evaluate(everybody_online(scenario), ASSIGNMENT)) == [
        "es0: clients 2 > capacity 1",
        "es1: data 100 < data_min 101",
        "es1: kld 0.130812 > kld_max 0.1",
        "es2: no clients",
    ]
    easier = replace(scenario, limits=Limits(kld_max=0.131, data_min=100))
    assert round_violations(easier, evaluate(everybody_online(easier), ASSIGNMENT)) == [
        "es0: clients 2 > capacity 1",
        "es2: no clients",
    ]


@given(SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_against_the_checker(seed, reference, fluctuating, keep_capacity):
    """Two independent implementations of the same equations agree on any assignment."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=12, edges=4, labels=5, reference=reference)
    round_ = random_round(scenario, rng, fluctuating)
    assignment = random_assignment(scenario, rng, share=rng.random(), keep_capacity=keep_capacity)
    evaluation = evaluate(round_, assignment)
    true = figures(scenario, serving_of(scenario, assignment), round_)
    assert evaluation.delay_s == pytest.approx(true.delay_s, rel=1e-12)
    assert evaluation.energy_j == pytest.approx(true.energy_j, rel=1e-12)
    assert evaluation.cost == pytest.approx(true.cost, rel=1e-12)
    for number, edge in enumerate(true.edges):
        assert edge.members == members_of(scenario, assignment)[number]
        assert evaluation.clients[number] == len(edge.members)
        assert evaluation.data[number] == edge.data
        kld = divergence(edge.label_sums, scenario.target.tolist())
        assert evaluation.kld[number] == pytest.approx(math.inf if kld is None else kld, abs=1e-13)
        assert evaluation.kld[number] == pytest.approx(
            plain_kld(edge.label_sums, scenario.target.tolist()), abs=1e-13
        )
    online = scenario.clients.online_probability[assignment >= 0].tolist()
    assert continuity(scenario, assignment) == pytest.approx(checked_continuity(online), rel=1e-12)


@given(SEEDS)
def test_violations_name_exactly_what_is_broken(seed):
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=12, edges=4)
    assignment = random_assignment(scenario, rng, share=rng.random(), keep_capacity=False)
    limits, expected = scenario.limits, []
    for number, members in enumerate(members_of(scenario, assignment)):
        sums = scenario.clients.label_counts[members].sum(axis=0).tolist()
        if not members:
            expected.append((number, "no"))
            continue
        if len(members) > scenario.edges.capacity[number]:
            expected.append((number, "clients"))
        if sum(sums) < limits.data_min:
            expected.append((number, "data"))
        if plain_kld(sums, scenario.target.tolist()) > limits.kld_max + 1e-9:
            expected.append((number, "kld"))
    texts = round_violations(scenario, evaluate(everybody_online(scenario), assignment))
    words = [text.split() for text in texts]
    assert [(int(first.strip("es:")), word) for first, word, *_ in words] == expected
