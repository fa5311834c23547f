"""What a claim in words comes down to: one comparison for each point and each other policy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from stagewise_experiments.experiment import Claim, Point
from stagewise_experiments.names import policy_name
from stagewise_experiments.quantities import estimate_text, quantity, rounded
from stagewise_experiments.series import BySeed, Series, differences, value_text
from stagewise_experiments.statistics import Estimate, estimate

NEVER = "no seed reached the target"
FEW = "fewer than half of the seeds reached the target"
NO_VALUE = "no value"
SLACK = 1e-9
"""A value on the border agrees, whichever way it is rounded."""
_JUST_MISSED = 2 * SLACK
"""For what must be above or below, and is equal."""


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim asks for."""

    short_by: float | None
    """How far it is missed, in parts or absolute; at most 0 where it holds. None: undecided."""
    text: str
    """What was found and where, or why nothing can be said."""
    against: str = ""
    """The policy it is a comparison with, if it is one."""
    noisy: bool = False
    """Whether other seeds might turn it."""

    @property
    def holds(self) -> bool:
        return self.short_by is not None and self.short_by <= SLACK


def findings(series: Series, claim: Claim) -> Iterator[Finding]:
    """Every comparison at every point of the axes that the claim leaves open."""
    for point in series.points_at(claim.at):
        ours = series.values(claim.quantity, claim.policy, point)
        if not ours and claim.rises_with is None and claim.falls_with is None:
            yield Finding(None, NO_VALUE)
        if not ours:
            continue
        for limit, sign in ((claim.below, 1), (claim.above, -1)):
            if limit is not None:
                yield _against_limit(series, claim, point, ours, limit, sign)
        for others, sign in ((claim.at_most, 1), (claim.at_least, -1)):
            for other in others:
                theirs = series.values(claim.quantity, other, point)
                if ours.keys() & theirs.keys():
                    yield _against_policy(series, claim, point, ours, other, theirs, sign)
                elif other in series.policies:
                    yield Finding(None, NO_VALUE)
    for axis, sign in ((claim.rises_with, -1), (claim.falls_with, 1)):
        if axis is not None:
            yield from _along(series, claim, axis, sign)


def _against_limit(
    series: Series, claim: Claim, point: Point, ours: BySeed, limit: float, sign: int
) -> Finding:
    found = _known(estimate(ours.values()))
    text = f"{_estimate_text(found, claim)}{_at(series, point)}"
    if math.isinf(found.mean):
        return Finding(math.inf if sign > 0 else -math.inf, text)
    # Strict, as "below" says: a mean that equals the limit misses it by the least that counts.
    short = sign * (found.mean - limit) / (abs(limit) or 1.0)
    noisy = found.half_width is not None and abs(found.mean - limit) <= found.half_width
    return Finding(_strictly(short), text + _noise(noisy), noisy=noisy)


def _against_policy(
    series: Series,
    claim: Claim,
    point: Point,
    ours: BySeed,
    other: str,
    theirs: BySeed,
    sign: int,
) -> Finding:
    """Targets missed count before what was spent on reaching them."""
    pair = _Pair(ours, theirs)
    missed, their_missed = pair.missed
    whose = f"{policy_name(other)}{_at(series, point)}"
    if missed != their_missed:
        count = len(pair.seeds)
        text = f"target missed in {missed} of {count} against {their_missed} of {whose}"
        return Finding(math.copysign(math.inf, sign * (missed - their_missed)), text, other)
    if pair.undecided:
        return Finding(None, pair.undecided)
    mine, its = pair.over(pair.reached)
    scale = 1.0 if claim.absolute else abs(its.mean) or 1.0
    short = sign * (mine.mean - its.mean) / scale - claim.margin
    if claim.strict:
        short = _strictly(short)
    # What must exceed the noise is how far the pairs are from the line the claim draws.
    noisy = pair.within_noise(sign * claim.margin * scale)
    text = f"{_gap_text(mine.mean, its.mean, claim)} {whose}{pair.few}"
    return Finding(short, text + _noise(noisy), other, noisy)


def _along(series: Series, claim: Claim, axis: str, sign: int) -> Iterator[Finding]:
    """The mean at one value of the axis against that at another, for every other axis's values."""
    values = series.axis_values(axis, claim.at)
    if not values:
        return
    first, last = claim.ends or (values[0], values[-1])
    left_out = [value for value in (first, last) if value not in values]
    for value in left_out:
        profile = series.result.profile
        yield Finding(None, f"the {profile} profile leaves out {axis} = {value_text(value)}")
    if left_out or first == last:
        return
    for point in series.points_at({**claim.at, axis: first}):
        at_first, at_last = (
            series.values(claim.quantity, claim.policy, {**point, axis: value})
            for value in (first, last)
        )
        rest = {name: value for name, value in point.items() if name != axis}
        yield _between(claim, at_first, at_last, sign, _at(series, rest))


def _between(claim: Claim, first: BySeed, last: BySeed, sign: int, place: str) -> Finding:
    """One end of an axis against the other, as one policy against another."""
    pair = _Pair(last, first)
    if not pair.seeds:
        return Finding(None, NO_VALUE)
    missed, missed_first = pair.missed
    if missed == missed_first and pair.undecided:
        return Finding(None, pair.undecided)
    end, start = pair.over(pair.seeds if missed != missed_first else pair.reached)
    text = f"from {_estimate_text(start, claim)} to {_estimate_text(end, claim)}{place}"
    if missed != missed_first:
        return Finding(math.copysign(math.inf, sign * (missed - missed_first)), text)
    short = sign * (end.mean - start.mean) / (abs(start.mean) or 1.0)
    noisy = pair.within_noise(0.0)
    return Finding(_strictly(short), text + pair.few + _noise(noisy), noisy=noisy)


def _strictly(short: float) -> float:
    """`short`, where to be equal is to miss it."""
    return _JUST_MISSED if abs(short) <= SLACK else short


@dataclass(frozen=True)
class _Pair:
    """Values to be compared with others, over the seeds that both have."""

    ours: BySeed
    theirs: BySeed

    @cached_property
    def seeds(self) -> list[int]:
        return sorted(self.ours.keys() & self.theirs.keys())

    @cached_property
    def reached(self) -> list[int]:
        """The seeds in which both reached the target."""
        both = (self.ours, self.theirs)
        return [seed for seed in self.seeds if all(math.isfinite(v[seed]) for v in both)]

    @property
    def missed(self) -> tuple[int, int]:
        """In how many seeds each missed the target."""
        ours, theirs = self.over(self.seeds)
        return ours.missed, theirs.missed

    @property
    def undecided(self) -> str:
        """Why what was spent cannot be compared; empty where it can."""
        if 2 * len(self.reached) >= len(self.seeds):
            return ""
        return FEW if self.reached else NEVER

    @property
    def few(self) -> str:
        """Over how many seeds, where it is not all."""
        reached, every = len(self.reached), len(self.seeds)
        return f" over {reached} of {every} seeds" if reached < every else ""

    def over(self, seeds: list[int]) -> tuple[Estimate, Estimate]:
        ours, theirs = (estimate(v[seed] for seed in seeds) for v in (self.ours, self.theirs))
        return _known(ours), _known(theirs)

    def within_noise(self, line: float) -> bool:
        """Whether the interval of the differences, seed by seed, holds the `line` of a claim."""
        apart = differences(self.ours, self.theirs)
        found = estimate(apart[seed] for seed in self.reached)
        if found is None or not found.half_width:
            return False
        return abs(found.mean - line) <= found.half_width


def _noise(noisy: bool) -> str:
    return " (within noise)" if noisy else ""


def _gap_text(mine: float, its: float, claim: Claim) -> str:
    share = quantity(claim.quantity).share
    apart = mine - its
    word = "above" if apart > 0 else "below"
    if share:
        size = f"{rounded(100 * abs(apart))} points"
    elif claim.absolute or not its:
        size = rounded(abs(apart))
    elif mine / its >= 3:
        return f"{rounded(mine / its)} times"
    else:
        size = f"{rounded(100 * abs(apart) / abs(its))}%"
    return f"{size} {word}" if apart else "equal to"


def _estimate_text(found: Estimate, claim: Claim) -> str:
    claimed = quantity(claim.quantity)
    unit = f" {claimed.unit}" if claimed.unit and not found.missed else ""
    return estimate_text(found, claimed.share) + unit


def _at(series: Series, point: Point) -> str:
    place = series.place_text(point)
    return f" at {place}" if place else ""


def _known(found: Estimate | None) -> Estimate:
    if found is None:
        raise AssertionError("there is at least one seed")
    return found
