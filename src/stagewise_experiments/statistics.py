"""Means over seeds, their 95% intervals, and what an interval decides."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
SLACK = 1e-9
"""A value on the border counts as within it, whichever way it is rounded."""


@dataclass(frozen=True)
class Estimate:
    """What some seeds say of one number."""

    mean: float
    """Infinite where any seed's value is."""
    interval: tuple[float, float] | None
    """Student's t; both ends infinite where every value is. None where there is none: with one seed,
    and where some values are infinite and others are not."""
    count: int
    """Seeds behind it."""
    missed: int = 0
    """Seeds with an infinite value: the target was not reached."""
    reached_mean: float | None = None
    """The mean of the finite values, where only some are."""

    @property
    def low(self) -> float:
        return self.interval[0] if self.interval else self.mean

    @property
    def high(self) -> float:
        return self.interval[1] if self.interval else self.mean

    @property
    def half_width(self) -> float | None:
        """Half of the interval; None where there is none."""
        if self.interval is None:
            return None
        return 0.0 if self.low == self.high else (self.high - self.low) / 2

    def side_of(self, line: float, tolerance: float = 0.0) -> int:
        """1 where all of the interval is above `line` by more than `tolerance`, -1 below, else 0."""
        if self.interval is None:
            return 0
        reach = tolerance + SLACK
        return int(self.low - reach > line) - int(self.high + reach < line)

    def within(self, line: float, tolerance: float) -> bool:
        """Whether all of the interval is apart from `line` by no more than `tolerance`."""
        if self.interval is None:
            return False
        reach = tolerance + SLACK
        return self.low >= line - reach and self.high <= line + reach

    def widened(self, by: float) -> "Estimate":
        """With an interval that is longer by so much at either end."""
        if self.interval is None:
            return self
        return replace(self, interval=(self.low - by, self.high + by))

    def mapped(self, change: Callable[[float], float]) -> "Estimate":
        """On another scale, by a function that rises."""
        ends = None if self.interval is None else (change(self.low), change(self.high))
        reached = None if self.reached_mean is None else change(self.reached_mean)
        return Estimate(change(self.mean), ends, self.count, self.missed, reached)


def estimate(values: Iterable[float]) -> Estimate | None:
    """The mean of `values` with its interval; None where there are none."""
    known = list(values)
    finite = np.array([value for value in known if math.isfinite(value)])
    count, missed = len(known), len(known) - len(finite)
    if not known:
        return None
    if missed:
        alike = count > 1 and len(set(known)) == 1
        reached = float(finite.mean()) if len(finite) else None
        return Estimate(sum(known), (known[0], known[0]) if alike else None, count, missed, reached)
    mean = float(finite.mean())
    if count == 1:
        return Estimate(mean, None, count)
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = quantile * float(finite.std(ddof=1)) / math.sqrt(count)
    return Estimate(mean, (mean - half, mean + half), count)
