"""Availability models: the means, sessions and independence they promise, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.participation import bernoulli, markov, markov_rates, trace
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario
from stagewise.world.trace import Trace


def scenario_with(probability: list[float] | np.ndarray) -> Scenario:
    values = np.asarray(probability, dtype=np.float64)
    return random_scenario(0, clients=len(values)).as_of(online_probability=values)


def masks(rounds: list[Round]) -> np.ndarray:
    return np.array([round_.online for round_ in rounds])


def small_trace() -> Trace:
    """Device 0 is on in [1000, 2000), device 1 in [0, 1500), device 2 from 2500 on."""
    return Trace(
        devices=("a", "b", "c"),
        start=np.array([0, 3, 5, 7]),
        time_s=np.array([0.0, 1000, 2000, 0, 1500, 2500, 3000]),
        online=np.array([False, True, False, True, False, True, True]),
    )


def sessions(online: np.ndarray) -> list[int]:
    """The lengths of the runs of True in one client's rounds that begin and end inside."""
    edges = np.flatnonzero(np.diff(online.astype(int)))
    runs = np.diff(edges)
    return runs[0 if online[edges[0] + 1] else 1 :: 2].tolist()


def test_bernoulli_keeps_each_probability():
    probability = np.array([0.0, 0.1, 0.5, 0.93, 1.0])
    online = masks(bernoulli(scenario_with(probability), 20_000, seed=1))
    assert not online[:, 0].any()
    assert online[:, 4].all()
    error = 5 * np.sqrt(probability * (1 - probability) / 20_000)
    assert (np.abs(online.mean(axis=0) - probability) <= error).all()
    # Independent over rounds and clients.
    middle = online[:, 1:4].astype(float)
    between = np.corrcoef(np.hstack([middle[1:], middle[:-1]]).T) - np.eye(6)
    assert np.abs(between).max() < 0.035


@pytest.mark.parametrize("mean_session", [1.0, 3.0, 20.0])
def test_markov_keeps_probability_and_session(mean_session):
    probability = np.array([0.0, 0.1, 0.45, 0.9, 1.0])
    online = masks(markov(scenario_with(probability), 60_000, 2, mean_session))
    assert not online[:, 0].any()
    assert online[:, 4].all()
    for client in (1, 2, 3):
        p = probability[client]
        expected = max(mean_session, p / (1 - p))
        found = sessions(online[:, client])
        assert np.mean(found) == pytest.approx(expected, rel=0.12)
        assert online[:, client].mean() == pytest.approx(p, abs=0.02)


def test_markov_is_stationary_from_the_first_round():
    probability = np.tile([0.15, 0.5, 0.9], 4000)
    online = masks(markov(scenario_with(probability), 12, seed=3, mean_session=6))
    by_round = online.reshape(12, 4000, 3).mean(axis=1)
    assert np.abs(by_round - [0.15, 0.5, 0.9]).max() < 0.04


def test_markov_with_the_sessions_of_independent_rounds_has_no_memory():
    leave, enter = markov_rates(np.array([0.75]), 4.0)
    assert (leave[0], enter[0]) == (pytest.approx(0.25), pytest.approx(0.75))


@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=20),
    st.floats(1, 1e6),
)
def test_markov_rates_are_probabilities_that_keep_p(probability, mean_session):
    p = np.array(probability)
    leave, enter = markov_rates(p, mean_session)
    for rate in (leave, enter):
        assert ((rate >= 0) & (rate <= 1)).all()
    # In balance as many leave as come; and nobody leaves more often than asked for.
    np.testing.assert_allclose(p * leave, (1 - p) * enter, rtol=1e-9, atol=1e-15)
    assert (leave <= 1 / mean_session).all()
    possible = (p < 1) & (p <= mean_session * (1 - p))
    np.testing.assert_allclose(leave[possible], 1 / mean_session, rtol=1e-12)


@pytest.mark.parametrize("model", [bernoulli, markov])
def test_rounds_do_not_depend_on_how_many_follow(model):
    scenario = random_scenario(5, clients=30)
    few, many = masks(model(scenario, 5, 7)), masks(model(scenario, 9, 7))
    np.testing.assert_array_equal(many[:5], few)
    assert few.shape == (5, 30)
    assert few.dtype == np.bool_
    assert (masks(model(scenario, 5, 8)) != few).any()
    assert len({row.tobytes() for row in many}) > 5


def test_trace_deals_every_device_and_deals_again():
    rounds = trace(scenario_with([0.5] * 7), small_trace(), 3, 4, round_seconds=1000, start_s=500)
    online = masks(rounds)
    # At 500 s only b is on, at 1500 only a, at 2500 only c.
    columns = {(False, True, False): 0, (True, False, False): 1, (False, False, True): 2}
    device = [columns[tuple(column)] for column in online.T.tolist()]
    assert sorted(device[:3]) == sorted(device[3:6]) == [0, 1, 2]
    assert device[:3] == device[3:6]
    assert device[6] == device[0]


def test_trace_deals_in_an_order_of_the_seed():
    scenario = scenario_with([0.5] * 3)
    orders = {
        masks(trace(scenario, small_trace(), 3, seed, 1000, 500)).tobytes() for seed in range(60)
    }
    assert len(orders) == 6


def test_trace_starts_after_the_artificial_beginning():
    online = masks(trace(scenario_with([0.5] * 3), small_trace(), 1, 0))
    assert online.sum() == 1


def test_trace_must_cover_the_rounds():
    scenario = scenario_with([0.5])
    assert len(trace(scenario, small_trace(), 28, 0, round_seconds=100)) == 28
    with pytest.raises(StagewiseError, match=r"rounds = 29: the trace ends at 3000 s.* at most 28"):
        trace(scenario, small_trace(), 29, 0, round_seconds=100)
    with pytest.raises(StagewiseError, match="at most 0"):
        trace(scenario, small_trace(), 1, 0, start_s=4000)


@pytest.mark.parametrize("rounds", [0, -1, 10**9, 2.5])
def test_impossible_numbers_of_rounds_are_refused(rounds):
    scenario = scenario_with([0.5])
    for draw in (
        lambda: bernoulli(scenario, rounds, 0),
        lambda: markov(scenario, rounds, 0),
        lambda: trace(scenario, small_trace(), rounds, 0),
    ):
        with pytest.raises(StagewiseError, match="rounds = "):
            draw()


@pytest.mark.parametrize("value", [0.5, 0, -1, float("nan"), float("inf")])
def test_an_impossible_session_is_refused(value):
    with pytest.raises(StagewiseError, match=r"mean_session = .* of at least 1"):
        markov(scenario_with([0.5]), 3, 0, value)


@pytest.mark.parametrize("value", [0, -5, float("nan"), float("inf")])
def test_impossible_round_seconds_are_refused(value):
    with pytest.raises(StagewiseError, match=r"round_seconds = .* above 0"):
        trace(scenario_with([0.5]), small_trace(), 1, 0, value)


def test_a_negative_seed_is_refused():
    with pytest.raises(StagewiseError, match="seed = -1"):
        bernoulli(scenario_with([0.5]), 1, -1)


def test_the_scenario_of_a_round_is_the_one_given():
    scenario = replace(random_scenario(1), window=4)
    assert all(round_.scenario is scenario for round_ in bernoulli(scenario, 2, 0))
