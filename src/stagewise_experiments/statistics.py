"""Means over seeds, their 95% intervals, and what an interval decides."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
SLACK = 1e-9
"""A value on the border counts as within it, whichever way it is rounded."""


@dataclass(frozen=True)
class Estimate:
    """What some seeds say of one number."""

    mean: float
    """Infinite where any seed's value is."""
    interval: tuple[float, float] | None
    """Student's t; both ends infinite where every value is, and one where some are. None where there is
    none: with one seed, and where some values are infinite of which no bound is known."""
    count: int
    """Seeds behind it."""
    missed: int = 0
    """Seeds with an infinite value: the target was not reached."""
    reached_mean: float | None = None
    """The mean of the finite values, where only some are."""
    error: float = 0.0
    """The standard error that the interval comes from; 0 where there is none, NaN on another scale."""

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

    def chance(self, line: float) -> float:
        """How probable an interval as far from `line` is, on either side, where the truth is on it.

        1 where the interval holds the line, 0 where seeds do not differ at all.
        """
        side = self.side_of(line)
        if not side:
            return 1.0
        beyond = self.low - line if side > 0 else line - self.high
        if not self.error or math.isinf(beyond):
            return 0.0
        degrees = self.count - 1
        return float(2 * stdtr(degrees, -(beyond / self.error + _quantile(degrees))))

    def bounded_below(self, least: float) -> "Estimate":
        """Where nothing can be less than `least`, nor can the interval."""
        if self.interval is None:
            return self
        return replace(self, interval=(max(self.low, least), max(self.high, least)))

    def widened(self, by: float) -> "Estimate":
        """With an interval that is longer by so much at either end."""
        if self.interval is None:
            return self
        return replace(self, interval=(self.low - by, self.high + by))

    def mapped(self, change: Callable[[float], float]) -> "Estimate":
        """On another scale, by a function that rises."""
        ends = None if self.interval is None else (change(self.low), change(self.high))
        reached = None if self.reached_mean is None else change(self.reached_mean)
        return Estimate(change(self.mean), ends, self.count, self.missed, reached, math.nan)


def estimate(values: Iterable[float], bounds: Sequence[float] | None = None) -> Estimate | None:
    """The mean of `values` with its interval; None where there are none.

    Where only some are infinite, and all of these on one side, `bounds` may say what is known of
    each: of +inf what it is at least, of -inf at most, of others the value. The interval is then that
    of the bounds, without an end on that side.
    """
    known = list(values)
    if not known:
        return None
    endless = {value for value in known if math.isinf(value)}
    if not endless:
        return _finite(known)
    finite = [value for value in known if math.isfinite(value)]
    reached = float(np.mean(finite)) if finite else None
    found = Estimate(sum(known), None, len(known), len(known) - len(finite), reached)
    if len(endless) > 1 or len(known) == 1:
        return found
    (end,) = endless
    if not finite:
        return replace(found, interval=(end, end))
    if bounds is None or not all(map(math.isfinite, bounds)):
        return found
    least = _finite(bounds)
    interval = (least.low, end) if end > 0 else (end, least.high)
    return replace(found, interval=interval, error=least.error)


def holm(chances: Sequence[float]) -> list[bool]:
    """Which of several findings stand when all are judged at once, by Holm's step-down rule."""
    stands, order = [False] * len(chances), np.argsort(chances, kind="stable")
    for place, number in enumerate(order):
        if chances[number] > (1 - CONFIDENCE) / (len(chances) - place):
            break
        stands[number] = True
    return stands


def _finite(values: Sequence[float]) -> Estimate:
    mean, count = float(np.mean(values)), len(values)
    if count == 1:
        return Estimate(mean, None, count)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    half = _quantile(count - 1) * error
    return Estimate(mean, (mean - half, mean + half), count, error=error)


def _quantile(degrees: int) -> float:
    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
