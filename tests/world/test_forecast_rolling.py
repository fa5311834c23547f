"""Eq. 6 kept up to date round by round."""

import numpy as np
import pytest

from stagewise.world.estimator import rolling_estimate
from stagewise.world.forecasts import RollingForecast


def after(forecast: RollingForecast, bits: tuple[int, ...]) -> RollingForecast:
    for bit in bits:
        forecast.observe([bool(bit)])
    return forecast


def test_it_starts_from_what_was_known():
    forecast = RollingForecast([0.2, 0.9], window=2)
    assert forecast.probabilities().tolist() == [0.2, 0.9]
    forecast.observe([True, False])
    assert forecast.probabilities().tolist() == [0.2, 0.9]
    forecast.observe([True, True])
    # One window beside the prior: weights 1/3 and 2/3.
    expected = [0.2 / 3 + 2 / 3 * 1.0, 0.9 / 3 + 2 / 3 * 0.5]
    np.testing.assert_allclose(forecast.probabilities(), expected)
    assert forecast.rounds == 2


def test_full_windows_only_counted_from_the_newest():
    forecast = after(RollingForecast([0.5], window=2), (0, 1, 1))
    np.testing.assert_allclose(forecast.probabilities(), [0.5 / 3 + 2 / 3])


def test_it_is_eq_6_with_the_prior_as_the_oldest_window():
    rng = np.random.default_rng(1)
    seen = rng.random((23, 5)) < 0.4
    prior = rng.random(5)
    forecast = RollingForecast(prior, window=4)
    for online in seen:
        forecast.observe(online)
    history = np.vstack([np.tile(prior, (4, 1)), seen[3:]])
    np.testing.assert_allclose(forecast.probabilities(), rolling_estimate(history, 4))


def test_it_comes_close_to_a_steady_truth():
    rng = np.random.default_rng(4)
    truth = np.array([0.0, 0.3, 0.8, 1.0])
    forecast = RollingForecast(np.full(4, 0.5), window=10)
    for _ in range(1000):
        forecast.observe(rng.random(4) < truth)
    np.testing.assert_allclose(forecast.probabilities(), truth, atol=0.06)


def test_all_rounds_to_come_are_alike():
    forecast = after(RollingForecast([0.5], window=2), (0, 1, 1, 1))
    now = forecast.probabilities().tolist()
    assert forecast.probabilities(ahead=50).tolist() == now
    assert forecast.mean_probability(horizon=7).tolist() == now


def test_an_estimate_is_never_above_1():
    """The weights of 29 windows sum to a little more."""
    forecast = RollingForecast([1.0, 0.5], window=2)
    for _ in range(100):
        forecast.observe([True, False])
        assert forecast.probabilities().max() <= 1


def test_a_window_that_cannot_be():
    with pytest.raises(ValueError, match="window = 0: must be at least 1"):
        RollingForecast([0.5], window=0)
