"""Eq. 6 by hand, on histories, and kept up to date round by round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.world.estimator import (
    ParticipationEstimator,
    estimate_from_history,
    rolling_estimate,
    window_weights,
)


def by_hand(history: str, window: int) -> float:
    """Eq. 6 written out: windows counted back from the newest, weight 2k / (Y (Y + 1))."""
    windows = len(history) // window
    if windows == 0:
        return history.count("1") / len(history)
    total = 0.0
    for k in range(1, windows + 1):
        last = len(history) - (windows - k) * window
        part = history[last - window : last]
        total += 2 * k / (windows * (windows + 1)) * part.count("1") / window
    return total


@given(st.integers(1, 50))
def test_weights_sum_to_one_and_favour_the_newest(windows):
    weights = window_weights(windows)
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(weights) > 0).all()


def test_two_windows_by_hand():
    # Window means 1/2 and 1, weights 1/3 and 2/3.
    assert estimate_from_history("0111", 2) == pytest.approx(1 / 3 * 1 / 2 + 2 / 3)


def test_what_fills_no_window_is_left_out_at_the_old_end():
    # The leading 1 fills no window: only 00 and 11 count.
    assert estimate_from_history("10011", 2) == pytest.approx(2 / 3)
    assert estimate_from_history("00011", 2) == pytest.approx(2 / 3)


def test_a_history_shorter_than_a_window_is_averaged():
    assert estimate_from_history("110", 10) == pytest.approx(2 / 3)


@given(st.text(alphabet="01", min_size=1, max_size=60), st.integers(1, 12))
def test_any_history_by_hand(history, window):
    value = estimate_from_history(history, window)
    assert value == pytest.approx(by_hand(history, window))
    assert -1e-12 <= value <= 1 + 1e-12


def test_many_clients_at_once():
    histories = ["1011011", "0000000", "1111111", "0101010"]
    seen = np.array([[int(bit) for bit in history] for history in histories]).T
    expected = [by_hand(history, 3) for history in histories]
    np.testing.assert_allclose(rolling_estimate(seen, 3), expected)


def test_the_estimator_starts_from_what_was_known():
    estimator = ParticipationEstimator([0.2, 0.9], window=2)
    assert estimator.probabilities().tolist() == [0.2, 0.9]
    estimator.observe(np.array([True, False]))
    assert estimator.probabilities().tolist() == [0.2, 0.9]
    estimator.observe(np.array([True, True]))
    # One window beside the prior: weights 1/3 and 2/3.
    expected = [0.2 / 3 + 2 / 3 * 1.0, 0.9 / 3 + 2 / 3 * 0.5]
    np.testing.assert_allclose(estimator.probabilities(), expected)
    assert estimator.rounds == 2


def test_the_estimator_uses_full_windows_only_counted_from_the_newest():
    estimator = ParticipationEstimator([0.5], window=2)
    for bit in (0, 1, 1):
        estimator.observe(np.array([bool(bit)]))
    np.testing.assert_allclose(estimator.probabilities(), [0.5 / 3 + 2 / 3])


def test_the_estimator_comes_close_to_a_steady_truth():
    rng = np.random.default_rng(4)
    truth = np.array([0.0, 0.3, 0.8, 1.0])
    estimator = ParticipationEstimator(np.full(4, 0.5), window=10)
    for _ in range(1000):
        estimator.observe(rng.random(4) < truth)
    np.testing.assert_allclose(estimator.probabilities(), truth, atol=0.06)


def test_the_recent_mean_is_that_of_the_newest_window():
    estimator = ParticipationEstimator([0.5], window=3)
    for bit in (1, 1, 0, 0, 1):
        estimator.observe(np.array([bool(bit)]))
    assert estimator.recent_mean()[0] == pytest.approx(1 / 3)


def test_observations_are_copied_and_their_shape_checked():
    estimator = ParticipationEstimator([0.5, 0.5], window=1)
    mask = np.array([True, True])
    estimator.observe(mask)
    mask[:] = False
    assert estimator.recent_mean().tolist() == [1, 1]
    with pytest.raises(ValueError, match="online must have shape"):
        estimator.observe(np.array([True]))


def test_an_estimate_is_never_above_1():
    """The weights of 29 windows sum to a little more."""
    estimator = ParticipationEstimator([1.0, 0.5], window=2)
    for _ in range(100):
        estimator.observe(np.array([True, False]))
        assert estimator.probabilities().max() <= 1
