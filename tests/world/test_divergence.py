"""KLD of Eqs. 7 and 8 against plain arithmetic and its known properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.world.divergence import kl_divergence

counts = st.lists(st.integers(0, 5000), min_size=2, max_size=8)


def by_hand(row, target):
    total = sum(row)
    if total == 0:
        return math.inf
    return sum(n / total * math.log(n / total / q) for n, q in zip(row, target, strict=True) if n)


@given(counts, st.data())
def test_any_counts_by_hand(row, data):
    raw = data.draw(st.lists(st.integers(1, 9), min_size=len(row), max_size=len(row)))
    target = np.array(raw) / sum(raw)
    value = float(kl_divergence(np.array([row]), target)[0])
    assert value == pytest.approx(by_hand(row, target.tolist()), abs=1e-12)
    assert value >= -1e-12


def test_known_values():
    uniform = np.full(4, 0.25)
    rows = np.array([[5, 5, 5, 5], [8, 0, 0, 0], [3, 3, 0, 0], [0, 0, 0, 0]])
    expected = [0, math.log(4), math.log(2), math.inf]
    np.testing.assert_allclose(kl_divergence(rows, uniform), expected, atol=1e-15)


def test_rows_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    rows, target = rng.integers(0, 50, (30, 5)), np.full(5, 0.2)
    together = kl_divergence(rows, target)
    alone = [kl_divergence(row[None], target)[0] for row in rows]
    np.testing.assert_array_equal(together, alone)


@given(counts.filter(any), st.integers(2, 50))
def test_only_the_shares_count(row, factor):
    target = np.full(len(row), 1 / len(row))
    once, often = np.array([row]), np.array([row]) * factor
    np.testing.assert_allclose(
        kl_divergence(once, target), kl_divergence(often, target), atol=1e-12
    )
