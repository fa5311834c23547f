"""Eq. 6 by hand, on histories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.world.estimator import (
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
