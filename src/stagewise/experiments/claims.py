"""What a claim in words comes down to: one comparison for each point and each other policy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stagewise.experiments.experiment import Claim, Point
from stagewise.experiments.names import policy_name
from stagewise.experiments.quantities import estimate_text, quantity, rounded
from stagewise.experiments.series import BySeed, Series, differences
from stagewise.experiments.statistics import Estimate, estimate

NEVER = "no seed reached the target"
FEW = "fewer than half of the seeds reached the target"
NO_VALUE = "no value"
SLACK = 1e-9
"""A value on the border agrees, whichever way it is rounded."""


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim asks for."""

    short_by: float | None
    """How far it is missed, in parts or absolute; at most 0 where it holds. None: undecided."""
    text: str
    """What was found and where, or why nothing can be said."""

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
    return Finding(short if short else 2 * SLACK, text + (" (within noise)" if noisy else ""))


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
        return Finding(math.copysign(math.inf, short), text)
    finite = [s for s in common if math.isfinite(ours[s]) and math.isfinite(theirs[s])]
    if 2 * len(finite) < len(common):
        return Finding(None, FEW if finite else NEVER)
    mine, its = (_known(estimate(v[seed] for seed in finite)) for v in (ours, theirs))
    scale = 1.0 if claim.absolute else abs(its.mean) or 1.0
    short = sign * (mine.mean - its.mean) / scale - claim.margin
    apart = estimate(differences(ours, theirs)[seed] for seed in finite)
    # What must exceed the noise is how far the pairs are from the line the claim draws.
    line = sign * claim.margin * scale
    noisy = (
        apart is not None
        and apart.half_width is not None
        and apart.half_width > 0
        and abs(apart.mean - line) <= apart.half_width
    )
    few = f" over {len(finite)} of {len(common)} seeds" if len(finite) < len(common) else ""
    text = f"{_gap_text(mine.mean, its.mean, claim)} {here}{few}"
    return Finding(short, text + (" (within noise)" if noisy else ""))


def _along(series: Series, claim: Claim, axis: str, sign: int) -> Iterator[Finding]:
    """The mean at the axis's last value against that at its first, for every other axis's values."""
    values = series.axis_values(axis, claim.at)
    if len(values) < 2:
        return
    for point in series.points_at({**claim.at, axis: values[0]}):
        ends = [
            estimate(series.values(claim.quantity, claim.policy, {**point, axis: v}).values())
            for v in (values[0], values[-1])
        ]
        first, last = ends
        if first is None or last is None:
            yield Finding(None, NO_VALUE)
            continue
        if math.isinf(first.mean) and math.isinf(last.mean):
            yield Finding(None, NEVER)
            continue
        rest = {name: value for name, value in point.items() if name != axis}
        text = f"from {_estimate_text(first, claim)} to {_estimate_text(last, claim)}"
        if math.isinf(first.mean) or math.isinf(last.mean):
            yield Finding(sign * (last.mean - first.mean), text + _at(series, rest))
            continue
        short = sign * (last.mean - first.mean) / (abs(first.mean) or 1.0)
        widths = (first.half_width, last.half_width)
        noisy = None not in widths and abs(last.mean - first.mean) <= sum(w or 0.0 for w in widths)
        noise = " (within noise)" if noisy else ""
        yield Finding(short if short else 2 * SLACK, text + _at(series, rest) + noise)


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
