"""Intervals, what they decide, and what stands among many."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from stagewise_experiments.statistics import estimate, holm

numbers = st.floats(-10, 10).map(lambda value: round(value, 3))


@given(st.lists(numbers, min_size=3, max_size=8), numbers)
def test_the_chance_is_that_of_a_t_test(values: list[float], line: float) -> None:
    found = estimate(values)
    assert found is not None
    if max(values) - min(values) < 1e-3:
        return
    known = float(ttest_1samp(values, line).pvalue)
    if known < 0.049:
        assert found.chance(line) == pytest.approx(known, rel=1e-6)
    if known > 0.051:
        assert found.chance(line) == 1.0


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_rejects_what_every_bonferroni_of_a_part_does(chances: list[float]) -> None:
    """Closed testing: one stands if in every subset that it is in, the least is below 5% of its part."""
    stands = holm(chances)
    for number in range(len(chances)):
        others = [n for n in range(len(chances)) if n != number]
        parts = [
            (number, *some) for size in range(len(chances)) for some in combinations(others, size)
        ]
        every = all(min(chances[n] for n in part) <= 0.05 / len(part) + 1e-15 for part in parts)
        assert stands[number] == every


@given(
    st.lists(st.tuples(numbers, st.booleans(), st.floats(0, 5)), min_size=2, max_size=6),
    st.sampled_from([1.0, -1.0]),
)
def test_bounds_never_decide_what_the_truth_would_not(
    drawn: list[tuple[float, bool, float]], side: float
) -> None:
    """Whatever lies beyond a bound, the mean is beyond that of the bounds."""
    bounds = [value for value, *_ in drawn]
    values = [side * math.inf if missed else value for value, missed, _ in drawn]
    truth = [value + side * beyond * missed for value, missed, beyond in drawn]
    found, finite = estimate(values, bounds), estimate(bounds)
    assert found is not None
    assert finite is not None
    missed = sum(map(math.isinf, values))
    assert found.missed == missed
    if 0 < missed < len(values):
        near = found.low if side > 0 else found.high
        assert near == (finite.low if side > 0 else finite.high)
        assert (found.high if side > 0 else found.low) == side * math.inf
        for line in (-5.0, 0.0, 5.0):
            decided = found.side_of(line)
            assert decided in (0, side)
            assert not decided or decided * (sum(truth) / len(truth) - line) > 0


def test_without_bounds_some_that_missed_leave_no_interval() -> None:
    found = estimate([1.0, math.inf, 3.0])
    assert found is not None
    assert (found.mean, found.interval, found.missed, found.reached_mean) == (
        math.inf,
        None,
        1,
        2.0,
    )
    both = estimate([math.inf, -math.inf, 1.0], [5.0, -5.0, 1.0])
    assert both is not None
    assert both.interval is None


def test_nothing_is_below_what_nothing_can_be_below() -> None:
    found = estimate([0.0, 0.0, 0.04])
    assert found is not None
    assert found.low < 0
    bounded = found.bounded_below(0.0)
    assert (bounded.low, bounded.high, bounded.mean) == (0.0, found.high, found.mean)
