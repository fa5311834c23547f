"""What a claim in words comes down to: one comparison for each point and each other policy."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from stagewise_experiments.experiment import Claim, Point
from stagewise_experiments.names import policy_name
from stagewise_experiments.quantities import estimate_text, quantity, range_text, signed
from stagewise_experiments.series import Comparison, Pair, Series, undecidable, value_text
from stagewise_experiments.statistics import SLACK, Estimate

NO_VALUE = "no value"
TOO_WIDE = "the interval does not decide it"


@dataclass(frozen=True)
class Finding:
    """One comparison that a claim asks for."""

    text: str
    """What was found and where, or why nothing can be said."""
    holds: bool | None = None
    """None: undecided."""
    why: str = ""
    """Why it is undecided."""
    short_by: float = 0.0
    """How far the mean is on the wrong side; negative where it is on the right one."""
    chance: float = 1.0
    """Of one that is decided: how probable such an interval is where the truth is on the border."""
    against: str = ""
    """The policy it is a comparison with, if it is one."""
    cells: frozenset[bytes] = frozenset()
    """The settings of what was compared; empty where nothing was measured."""
    question: tuple[str, str, float, int] = ("", "", 0.0, 0)
    """What was asked of them: the quantity, the other policy, the limit or margin and its side."""


def findings(series: Series, claim: Claim) -> Iterator[Finding]:
    """Every comparison at every point of the axes that the claim leaves open."""
    never = math.inf if claim.missed else None
    for point in series.points_at(claim.at):
        for limit, sign in ((claim.below, 1), (claim.above, -1), (never, -1)):
            if limit is not None:
                yield _against_limit(series, claim, point, limit, sign)
    for others, sign in ((claim.at_most, 1), (claim.at_least, -1)):
        points = series.points_at(claim.at)
        for some in [points] if claim.together else [[point] for point in points]:
            for other in others:
                if other in series.policies:
                    yield _against_policy(series, claim, some, other, sign)
    within = [(_line(claim, sign), sign) for sign in (1, -1)] if claim.same_along else []
    for axis, sides in (
        (claim.rises_with, [(0.0, -1)]), (claim.falls_with, [(0.0, 1)]), (claim.same_along, within)
    ):  # fmt: skip
        if axis is not None:
            yield from _along(series, claim, axis, sides)


def distinct_outcomes(found: Iterable[Finding]) -> list[bool | None]:
    """Whether each comparison holds; one that several experiments share is one, by the first of them."""
    outcomes: dict[tuple[object, object], bool | None] = {}
    for one in found:
        outcomes.setdefault((one.cells, one.question), one.holds)
    return list(outcomes.values())


def tally(found: Iterable[Finding]) -> str:
    """`holds in 80, undecided in 4 of 84 comparisons`."""
    outcomes = distinct_outcomes(found)
    words = {"holds": True, "fails": False, "undecided": None}
    told = [f"{word} in {outcomes.count(o)}" for word, o in words.items() if o in outcomes]
    return f"{', '.join(told)} of {len(outcomes)} comparisons"


def comparison_text(
    found: Comparison, name: str, differences: bool, whose: str, link: str = ""
) -> str:
    """`+13.2% (−5.00% to +35.1%)` and the `link`, after the targets that were missed on either side."""
    parts, known = [], found.estimate
    if any(found.missed):
        ours, theirs = found.missed
        parts.append(f"target missed in {ours} of {found.runs} runs against {theirs} {whose}")
    if known is not None and known.missed and known.reached_mean is not None:
        reached = Estimate(known.reached_mean, None, known.count - known.missed)
        parts.append(f"in the others {apart_text(reached, name, differences)}{link}")
        parts += [f"{end} by what was spent" for end in _bound_text(known, name, differences)]
    elif known is not None and math.isfinite(known.mean):
        parts.append(apart_text(known, name, differences) + link)
    return "; ".join(parts)


def apart_text(known: Estimate, name: str, differences: bool = False) -> str:
    """An estimate of log-ratios or of differences as people read it."""
    scale, write = _reading(name, differences)
    return range_text(known.mapped(scale), write)


def _bound_text(known: Estimate, name: str, differences: bool) -> Iterator[str]:
    """`−12.0% or less`: the one end of an interval that has no other; nothing where it has two."""
    scale, write = _reading(name, differences)
    if math.isinf(known.high) and math.isfinite(known.low):
        yield f"{write(scale(known.low))} or more"
    if math.isinf(known.low) and math.isfinite(known.high):
        yield f"{write(scale(known.high))} or less"


def _reading(
    name: str, differences: bool
) -> tuple[Callable[[float], float], Callable[[float], str]]:
    """The scale on which log-ratios or differences are read, and how a number on it is written."""
    if not differences:
        return math.expm1, lambda value: signed(100 * value, "%")
    factor, unit = (100, " points") if quantity(name).share else (1, "")
    return lambda value: value, lambda value: signed(factor * value, unit)


def by_differences(claim: Claim) -> bool:
    """Shares are compared by their difference: they may be 0, and a point is what people read."""
    return claim.absolute or quantity(claim.quantity).share


def _against_limit(series: Series, claim: Claim, point: Point, limit: float, sign: int) -> Finding:
    found = series.estimate(claim.quantity, claim.policy, point)
    if found is None:
        return Finding(NO_VALUE)
    claimed = quantity(claim.quantity)
    unit = f" {claimed.unit}" if claimed.unit and not found.missed else ""
    text = f"{estimate_text(found, claimed.share)}{unit}{_at(series, point)}"
    outcome = _outcome(found, limit, sign, undecidable(found), equal=math.isinf(limit))
    cells = series.settings([(claim.policy, point)])
    return Finding(text, *outcome, cells=cells, question=(claim.quantity, "", limit, sign))


def _against_policy(
    series: Series, claim: Claim, points: list[Point], other: str, sign: int
) -> Finding:
    """At one point, or in the mean over several."""
    differences = by_differences(claim)
    pairs: list[Pair] = [((claim.policy, p), (other, p)) for p in points]
    found = series.compare(claim.quantity, pairs, differences)
    if not found.runs:
        return Finding(NO_VALUE)
    link = f" {'against' if differences else 'over'} {policy_name(other)}"
    whose = f"of {policy_name(other)}'s"
    text = comparison_text(found, claim.quantity, differences, whose, link)
    text += _at(series, points[0]) if len(points) == 1 else f" over {len(points)} points"
    text += _beside(series, claim, pairs)
    line = _line(claim, sign)
    equal = not claim.strict and not found.resolution  # a round apart, either may be the less
    outcome = _outcome(found.estimate, line, sign, found.obstacle, equal)
    question = (claim.quantity, other, line, sign)
    cells = series.settings(place for pair in pairs for place in pair)
    return Finding(text, *outcome, against=other, cells=cells, question=question)


def _along(
    series: Series, claim: Claim, axis: str, sides: list[tuple[float, int]]
) -> Iterator[Finding]:
    """One value of the axis against another, for every other axis's values.

    `sides` are lines with the sides of them that are claimed, all of which must hold.
    """
    values = series.axis_values(axis, claim.at)
    if not values:
        return
    first, last = claim.ends or (values[0], values[-1])
    left_out = [value for value in (first, last) if value not in values]
    for value in left_out:
        profile = series.result.profile
        yield Finding(f"the {profile} profile leaves out {axis} = {value_text(value)}")
    if left_out or first == last:
        return
    differences = by_differences(claim)
    start = f"{axis} = {value_text(first)}"
    for point in series.points_at({**claim.at, axis: first}):
        pair: Pair = (claim.policy, {**point, axis: last}), (claim.policy, point)
        found = series.compare(claim.quantity, [pair], differences)
        if not found.runs:
            yield Finding(NO_VALUE)
            continue
        link = f" from {start} to {value_text(last)}"
        text = comparison_text(found, claim.quantity, differences, f"at {start}", link)
        text += _at(series, {name: value for name, value in point.items() if name != axis})
        text += _beside(series, claim, [pair])
        outcomes = [_outcome(found.estimate, *side, found.obstacle, equal=False) for side in sides]
        decisive = min(outcomes, key=lambda one: (_ORDER.index(one[0]), -one[3]))
        question = (claim.quantity, "", *sides[0])
        yield Finding(text, *decisive, cells=series.settings(pair), question=question)


_ORDER = (False, None, True)
"""Which of several outcomes decides: one that fails, or else one that is undecided."""


def _line(claim: Claim, sign: int) -> float:
    """Where the claim's margin ends, as a difference or a logarithm of ratios."""
    margin = sign * claim.margin
    return margin if by_differences(claim) else math.log1p(margin)


def _outcome(
    found: Estimate | None, line: float, sign: int, obstacle: str, equal: bool
) -> tuple[bool | None, str, float, float]:
    """Whether all of the interval is on the side that is claimed: below the line for `sign` 1.

    Also why it is undecided, how far the mean is on the wrong side, and, where it is decided, how
    probable that is if the truth is on the line. `equal`: an interval that only touches the line
    holds, too.
    """
    if found is None:
        return None, obstacle, 0.0, 1.0
    apart = sign * (found.mean - line)
    short_by = 0.0 if math.isnan(apart) else apart
    if obstacle:
        return None, obstacle, short_by, 1.0
    side = sign * found.side_of(line)
    end = found.high if sign > 0 else found.low
    if side < 0 or (equal and sign * end <= sign * line + SLACK):
        return True, "", short_by, found.chance(line)
    if side > 0:
        return False, "", short_by, found.chance(line)
    return None, TOO_WIDE, short_by, 1.0


def _beside(series: Series, claim: Claim, pairs: list[Pair]) -> str:
    shares = series.feasible_text(claim.quantity, pairs)
    return f" ({shares})" if shares else ""


def _at(series: Series, point: Point) -> str:
    place = series.place_text(point)
    return f" at {place}" if place else ""
