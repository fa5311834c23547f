"""Means over seeds and their 95% intervals."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """What some seeds say of one quantity."""

    mean: float
    """inf where any seed's value is."""
    half_width: float | None
    """Of the 95% interval (Student's t); None for one seed, and where the mean is infinite."""
    count: int
    """Seeds behind it."""
    missed: int = 0
    """Seeds with an infinite value: the target was not reached."""
    reached_mean: float | None = None
    """The mean of the finite values, where only some are."""

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)


def estimate(values: Iterable[float]) -> Estimate | None:
    """The mean of `values` with its interval; None where there are none."""
    known = np.array(list(values), dtype=np.float64)
    if not len(known):
        return None
    finite = known[np.isfinite(known)]
    missed = len(known) - len(finite)
    if missed:
        reached = float(finite.mean()) if len(finite) else None
        return Estimate(math.inf, None, len(known), missed, reached)
    return Estimate(float(known.mean()), half_width(known), len(known))


def half_width(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float | None:
    """Half the 95% interval of the mean of `values`: Student's t times the standard error."""
    count = len(values)
    if count < 2:
        return None
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    return quantile * float(values.std(ddof=1)) / math.sqrt(count)
