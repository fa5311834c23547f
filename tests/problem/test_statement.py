"""P0, P1 and P2: who may serve, who must, what is minimised and what is broken."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from references import members_of, plain_scenario, plain_value, random_assignment, violations
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import edge_risks, p0, p1, p2, plan_violations
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Weights

SEEDS = st.integers(0, 2**32 - 1)


def four_clients(**changes):
    limits = Limits(kld_max=0.1, data_min=40, kld_risk=0.3, data_risk=0.3)
    return plain_scenario(
        [[20, 20], [20, 20], [25, 25], [10, 0]],
        [[0, 1]] * 4,
        online=[1.0, 0.8, 0.9, 0.5],
        limits=limits,
        **changes,
    )


def test_p0_is_over_the_online_clients():
    scenario = four_clients()
    problem = p0(Round(scenario, np.array([True, True, True, False])))
    assert violations(problem, np.array([0, 1, -1, -1])) == []
    assert violations(problem, np.array([0, 1, -1, 1])) == ["c3: serves but may not"]
    assert violations(problem, np.array([0, 0, -1, -1])) == ["es1: no clients"]


def test_p0_costs_what_the_round_costs():
    """Half the CPU frequency: two seconds for one, and a quarter of the joules."""
    scenario = four_clients(weights=Weights(delay=1.0, energy=0.0))
    online = np.ones(4, dtype=bool)
    slow = Round(scenario, online, cpu_hz=scenario.clients.cpu_hz / 2)
    assignment = np.array([0, 1, -1, -1])
    # 40 samples: 5 * 0.004 s of computing and 0.2 s of sending; three rounds, and 0.2 s for es1.
    assert p0(Round(scenario, online)).objective(assignment) == pytest.approx(3 * 0.22 + 0.2)
    assert p0(slow).objective(assignment) == pytest.approx(3 * 0.24 + 0.2)


def test_p1_rewards_continuity():
    """lambda_c C is taken off: sqrt(1.0 * 0.8) at a weight of 10."""
    scenario = four_clients(weights=Weights(delay=1.0, energy=0.0, continuity=10.0))
    problem = p1(scenario, risk_measure(scenario))
    found = problem.objective(np.array([0, 1, -1, -1]))
    assert found == pytest.approx(3 * 0.22 + 0.2 - 10 * 0.8**0.5, rel=1e-12)


def test_p1_limits_the_risks():
    """Alone at es1, c1 is missing in one round of five: within 0.3; c3 in every second one."""
    scenario = four_clients()
    problem = p1(scenario, risk_measure(scenario))
    assert violations(problem, np.array([0, 1, -1, -1])) == []
    assert violations(problem, np.array([0, -1, -1, 1])) == [
        "es1: kld risk 1 > kld_risk 0.3",
        "es1: data risk 1 > data_risk 0.3",
    ]
    kld_risk, data_risk = edge_risks(problem.risk, np.array([0, 1, -1, -1]))
    assert kld_risk.tolist() == pytest.approx([0.0, 0.2])
    assert data_risk.tolist() == pytest.approx([0.0, 0.2])


def test_p2_pins_the_online_long_term_clients():
    """(12d) holds for c0 and c1, not for c2, which is offline; `flexible` drops it."""
    scenario = four_clients()
    long_term = np.array([0, 1, 1, -1])
    round_ = Round(scenario, np.array([True, True, False, True]))
    strict = p2(round_, long_term)
    assert strict.pinned.tolist() == [0, 1, -1, -1]
    assert violations(strict, np.array([0, 1, -1, -1])) == []
    assert violations(strict, np.array([1, 0, -1, -1])) == [
        "c0: must serve es0",
        "c1: must serve es1",
    ]
    assert violations(strict, np.array([0, -1, -1, -1])) == [
        "c1: must serve es1",
        "es1: no clients",
    ]
    flexible = p2(round_, long_term, "flexible")
    assert violations(flexible, np.array([1, 0, -1, -1])) == []
    assert flexible.round is round_
    assert violations(flexible, np.array([1, 0, 1, -1])) == ["c2: serves but may not"]


def test_plan_violations_by_hand():
    scenario = four_clients(capacity=[1, 9])
    texts = plan_violations(
        scenario, np.array([2, 3]), np.array([0.3, 0.30001]), np.array([0.31, 0.3 + 1e-10])
    )
    assert texts == [
        "es0: clients 2 > capacity 1",
        "es0: data risk 0.31 > data_risk 0.3",
        "es1: kld risk 0.30001 > kld_risk 0.3",
    ]
    empty = plan_violations(scenario, np.array([0, 1]), np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert empty == ["es0: no clients"]


@given(SEEDS, st.sampled_from(["exact", "sampled", "markov"]))
def test_p1_on_random_assignments(seed, name):
    """The objective against plain arithmetic, the risks of every edge against its own members'."""
    rng = np.random.default_rng(seed)
    scenario = random_scenario(seed, clients=10, weights=Weights(0.3, 0.7, 2.5))
    assignment = random_assignment(scenario, rng, share=rng.random())
    measure = risk_measure(scenario, name, seed=seed % 100, samples=100)
    problem = p1(scenario, measure)
    assert problem.objective(assignment) == pytest.approx(
        plain_value(problem, assignment), abs=1e-12
    )
    found = np.array(edge_risks(measure, assignment)).T.tolist()
    for risks, members in zip(found, members_of(scenario, assignment), strict=True):
        assert tuple(risks) == measure.of(np.array(members, dtype=np.int64))
