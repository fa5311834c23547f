"""What a claim in words comes down to: one comparison for each point and each other policy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stagewise.experiments.experiment import Claim, Point
from stagewise.experiments.names import policy_name
from stagewise.experiments.quantities import estimate_text, quantity, rounded
from stagewise.experiments.series import BySeed, Series, differences, value_text
from stagewise.experiments.statistics import Estimate, estimate

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
    here = _at(series, point)
    text = f"{_estimate_text(found, claim)}{here}"
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
    """Over the seeds that both have; targets missed count before what was spent on reaching them."""
    common = sorted(ours.keys() & theirs.keys())
    missed = sum(math.isinf(ours[seed]) for seed in common)
    their_missed = sum(math.isinf(theirs[seed]) for seed in common)
    here = f"{policy_name(other)}{_at(series, point)}"
    if missed != their_missed:
        short = sign * (missed - their_missed) / len(common)
        text = f"target missed in {missed} of {len(common)} against {their_missed} of {here}"
        return Finding(math.copysign(math.inf, short), text, other)
    finite = [s for s in common if math.isfinite(ours[s]) and math.isfinite(theirs[s])]
    if 2 * len(finite) < len(common):
        return Finding(None, FEW if finite else NEVER)
    mine, its = (_known(estimate(v[seed] for seed in finite)) for v in (ours, theirs))
    scale = 1.0 if claim.absolute else abs(its.mean) or 1.0
    short = sign * (mine.mean - its.mean) / scale - claim.margin
    if claim.strict:
        short = _strictly(short)
    # What must exceed the noise is how far the pairs are from the line the claim draws.
    noisy = _within_noise(ours, theirs, finite, sign * claim.margin * scale)
    few = f" over {len(finite)} of {len(common)} seeds" if len(finite) < len(common) else ""
    text = f"{_gap_text(mine.mean, its.mean, claim)} {here}{few}"
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


def _between(claim: Claim, first: BySeed, last: BySeed, sign: int, here: str) -> Finding:
    """Over the seeds that both ends have, as between two policies."""
    common = sorted(first.keys() & last.keys())
    if not common:
        return Finding(None, NO_VALUE)
    before, after = (_known(estimate(v[seed] for seed in common)) for v in (first, last))
    text = f"from {_estimate_text(before, claim)} to {_estimate_text(after, claim)}{here}"
    if before.missed != after.missed:
        return Finding(math.copysign(math.inf, sign * (after.missed - before.missed)), text)
    finite = [s for s in common if math.isfinite(first[s]) and math.isfinite(last[s])]
    if 2 * len(finite) < len(common):
        return Finding(None, FEW if finite else NEVER)
    start, end = (_known(estimate(v[seed] for seed in finite)) for v in (first, last))
    if len(finite) < len(common):
        seeds = f" over {len(finite)} of {len(common)} seeds"
        text = f"from {_estimate_text(start, claim)} to {_estimate_text(end, claim)}{here}{seeds}"
    short = sign * (end.mean - start.mean) / (abs(start.mean) or 1.0)
    noisy = _within_noise(last, first, finite, 0.0)
    return Finding(_strictly(short), text + _noise(noisy), noisy=noisy)


def _strictly(short: float) -> float:
    """`short`, where to be equal is to miss it."""
    return _JUST_MISSED if abs(short) <= SLACK else short


def _within_noise(ours: BySeed, theirs: BySeed, seeds: list[int], line: float) -> bool:
    """Whether the interval of the pairs' differences holds the `line` that a claim draws."""
    apart = estimate(differences(ours, theirs)[seed] for seed in seeds)
    if apart is None or not apart.half_width:
        return False
    return abs(apart.mean - line) <= apart.half_width


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
    wanted = quantity(claim.quantity)
    unit = f" {wanted.unit}" if wanted.unit and not found.missed else ""
    return estimate_text(found, wanted.share) + unit


def _at(series: Series, point: Point) -> str:
    place = series.place_text(point)
    return f" at {place}" if place else ""


def _known(found: Estimate | None) -> Estimate:
    if found is None:
        raise AssertionError("there is at least one seed")
    return found
