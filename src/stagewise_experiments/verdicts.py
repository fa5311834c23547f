"""Our numbers compared with the paper's numbers, and with what it and we claim in words."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stagewise_experiments.claims import (
    NO_VALUE,
    Finding,
    comparison_text,
    findings,
    tally,
)
from stagewise_experiments.experiment import Better, Claim, PaperValue, Point
from stagewise_experiments.names import dataset_name, policy_name
from stagewise_experiments.quantities import estimate_text, quantity, range_text, rounded
from stagewise_experiments.series import Comparison, Pair, Series, undecidable, value_text
from stagewise_experiments.statistics import Estimate, holm

Kind = Literal["agrees", "better", "differs", "undecided", "not comparable", "not run"]
KINDS: tuple[Kind, ...] = (
    "agrees",
    "better",
    "differs",
    "undecided",
    "not comparable",
    "not run",
)
"""`undecided`: the interval allows for both answers, or there is none; `not comparable`: measured,
but not what the paper measured, or there was nothing to measure; `not run`: nothing to judge by."""

TOLERANCE = 0.10
"""In parts of our mean, for values and for growth."""
POINTS_OF_INCREASE = 0.05
"""For increases over another policy."""
POINTS_OF_SHARE = 0.01
"""For differences between accuracies and other shares."""
BY_CHANCE = "among so many comparisons some are decided by chance"
ACROSS = "our interval is neither within the tolerance nor outside of it"


@dataclass(frozen=True)
class Verdict:
    """What came of one number or claim."""

    kind: Kind
    ours: str
    paper: str
    why: str
    found: tuple[Finding, ...] = ()
    """The comparisons behind a claim's."""


def judge_value(series: Series, printed: PaperValue) -> Verdict:
    """Where the interval decides it `agrees`, or else `better` or `differs`, by direction."""
    paper, other = printed_text(printed), printed.relative_to or printed.minus
    compared = _compared(series, printed, other)
    if compared is None:
        points = series.points_at(printed.at)
        found = series.estimate_over(printed.quantity, printed.policy, points)
        ours = "" if found is None else estimate_text(found, quantity(printed.quantity).share)
        measured, unclear = found is not None, undecidable(found)
    else:
        found, ours = compared.estimate, _measured_text(series, printed, compared)
        measured, unclear = compared.runs > 0, compared.obstacle
    if not measured:
        policies = [printed.policy, *([other] if other else [])]
        return _without_value(series, printed.quantity, printed.at, policies, paper)
    obstacle = (
        _other_data(series)
        or _too_small(series)
        or ("" if printed.comparable else printed.why)
        or _weights_of_our_own(series, printed)
        or ("" if compared else _part_of_the_data(series, printed))
    )
    if obstacle:
        return Verdict("not comparable", ours, paper, obstacle)
    if unclear or found is None:
        return Verdict("undecided", ours, paper, unclear)
    kind = _judged(_on_the_paper_s_scale(found, printed), printed)
    reason = ACROSS if kind == "undecided" else ""
    if kind == "differs":
        reason = _why(series, printed.why)
    elif kind == "better" and other is not None:
        named = policy_name(other)
        reason = f"against {named} it does better than in the paper; {named} may be weaker here"
    return Verdict(kind, ours, paper, reason)


def judge_claim(series: Series, claim: Claim) -> Verdict:
    """`agrees` where every comparison holds, `differs` where one fails, otherwise `undecided`.

    What a model learned is not judged where the profile trains too little to be compared.
    """
    obstacle = _too_small(series) if quantity(claim.quantity).learned else ""
    every = list(findings(series, claim))
    found = tuple(finding for finding in every if finding.cells)
    left_out = Counter(finding.text for finding in every if not finding.cells)
    absent = [p for p in (*claim.at_most, *claim.at_least) if p not in series.policies]
    if not found:
        policies = [claim.policy, *claim.at_most, *claim.at_least]
        reasons = [text for text in left_out if text != NO_VALUE]
        if reasons:
            return Verdict("not run", "", "", reasons[0])
        return _without_value(series, claim.quantity, claim.at, policies)
    ours = _clauses(
        *_told(found),
        *(f"{count} left out: {reason}" for reason, count in left_out.items()),
        f"not run: {', '.join(map(policy_name, absent))}" if absent else "",
    )
    if obstacle:
        return Verdict("not comparable", ours, "", obstacle)
    outcomes = _beyond_chance(claim, found)
    holds = _settled(claim, found, outcomes)
    if holds is None:
        reasons = list(dict.fromkeys(finding.why for finding in found if finding.holds is None))
        if outcomes != [finding.holds for finding in found]:
            reasons.insert(0, BY_CHANCE)
        return Verdict("undecided", ours, "", _clauses(*reasons), found)
    if holds:
        return Verdict("agrees", ours, "", "", found)
    return Verdict("differs", ours, "", _why(series, claim.why), found)


def _beyond_chance(claim: Claim, found: Sequence[Finding]) -> list[bool | None]:
    """Whether each comparison holds, when all are judged at once.

    Where all must hold, one that fails may do so by chance among so many; where one is enough, one
    that holds may. That leaves it open.
    """
    telling = claim.somewhere
    stands = holm([finding.chance if finding.holds is telling else 1.0 for finding in found])
    return [
        None if finding.holds is telling and not certain else finding.holds
        for finding, certain in zip(found, stands, strict=True)
    ]


def _settled(
    claim: Claim, found: Sequence[Finding], outcomes: Sequence[bool | None]
) -> bool | None:
    """Of every comparison; or, for each other policy, of any point."""
    by_policy: dict[str, list[bool | None]] = {}
    for finding, holds in zip(found, outcomes, strict=True):
        by_policy.setdefault(finding.against, []).append(holds)
    return _all(_any(each) if claim.somewhere else _all(each) for each in by_policy.values())


def _all(outcomes: Iterable[bool | None]) -> bool | None:
    known = set(outcomes)
    return False if False in known else None if None in known else True


def _any(outcomes: Iterable[bool | None]) -> bool | None:
    known = set(outcomes)
    return True if True in known else None if None in known else False


def _told(found: tuple[Finding, ...]) -> Iterator[str]:
    """How many comparisons hold, and those that matter most: failed, undecided, or nearest to it."""
    if len(found) == 1:
        yield found[0].text
        return
    yield tally(found)
    holds = next(holds for holds in (False, None, True) if holds in {f.holds for f in found})
    chosen = sorted((f for f in found if f.holds is holds), key=lambda f: -f.short_by)
    if holds is False:  # of each policy that it fails against, the worst point
        worst = {finding.against: finding.text for finding in reversed(chosen)}
        yield f"worst: {', '.join(worst[a] for a in dict.fromkeys(f.against for f in chosen))}"
    else:
        yield f"{'closest:' if holds else 'such as'} {chosen[0].text}"


def printed_text(printed: PaperValue) -> str:
    """The paper's number, with the digits that it prints."""
    share = quantity(printed.quantity).share
    if printed.relative_to is not None:
        more = f"{_sign(printed.value)}{_digits(100 * printed.value)}%"
        return f"{more} over {policy_name(printed.relative_to)}"
    if printed.growth_from is not None:
        return f"{_digits(printed.value)} times that at {_place_text(printed.growth_from)}"
    if printed.minus is not None:
        number = f"{_digits(100 * printed.value)} points" if share else _digits(printed.value)
        return f"{_sign(printed.value)}{number} against {policy_name(printed.minus)}"
    if math.isinf(printed.value):
        return "not reached"
    return f"{_digits(100 * printed.value)}%" if share else _digits(printed.value)


def _digits(value: float) -> str:
    return f"{abs(value):,.10g}"


def _sign(value: float) -> str:
    return "+" if value > 0 else "−" if value < 0 else ""


def _compared(series: Series, printed: PaperValue, other: str | None) -> Comparison | None:
    """Ours against another policy's, or against our own at another point, as the paper counts it."""
    if other is None and printed.growth_from is None:
        return None
    pairs = _pairs(series, printed, other)
    return series.compare(printed.quantity, pairs, differences=printed.minus is not None)


def _pairs(series: Series, printed: PaperValue, other: str | None) -> list[Pair]:
    elsewhere = printed.growth_from or {}
    return [
        ((printed.policy, point), (other or printed.policy, {**point, **elsewhere}))
        for point in series.points_at(printed.at)
    ]


def _on_the_paper_s_scale(found: Estimate, printed: PaperValue) -> Estimate:
    if printed.relative_to is not None:
        return found.mapped(math.expm1)
    return found if printed.growth_from is None else found.mapped(math.exp)


def _judged(found: Estimate, printed: PaperValue) -> Kind:
    """`agrees`: all of the interval is within the tolerance of the paper's number; `better` or
    `differs`: all of it is outside, on one side; otherwise `undecided`."""
    tolerance = _tolerance(found, printed)
    side = found.side_of(printed.value, tolerance)
    if side:
        better = _better(printed)
        return "better" if better == ("higher" if side > 0 else "lower") else "differs"
    return "agrees" if found.within(printed.value, tolerance) else "undecided"


def _better(printed: PaperValue) -> Better:
    return printed.better or quantity(printed.quantity).better


def _tolerance(found: Estimate, printed: PaperValue) -> float:
    if printed.relative_to is not None:
        return POINTS_OF_INCREASE
    if printed.minus is not None and quantity(printed.quantity).share:
        return POINTS_OF_SHARE
    return TOLERANCE * abs(found.mean) if math.isfinite(found.mean) else 0.0


def _measured_text(series: Series, printed: PaperValue, compared: Comparison) -> str:
    found = compared.estimate
    if printed.growth_from is not None and found is not None and not found.missed:
        return range_text(found.mapped(math.exp), rounded) + " times"
    name, other = printed.quantity, printed.relative_to or printed.minus
    whose = f"of {policy_name(other or printed.policy)}'s"
    if printed.growth_from is not None:
        whose = f"at {_place_text(printed.growth_from)}"
    return _clauses(
        comparison_text(compared, name, printed.minus is not None, whose),
        series.feasible_text(name, _pairs(series, printed, other)),
    )


def _other_data(series: Series) -> str:
    """That a stand-in ran; empty where none did."""
    for real, ran in series.result.stand_ins.items():
        return f"ran on {dataset_name(ran)}, not on {dataset_name(real)}"
    return ""


def _weights_of_our_own(series: Series, printed: PaperValue) -> str:
    """Costs as such are the paper's only where its weights were fitted."""
    of = quantity(printed.quantity)
    weighted = of.cost and not of.unit and math.isfinite(printed.value)
    ratio = printed.relative_to or printed.growth_from
    regimes = {cell.setting.scenario.regime for cell in series.result.cells}
    if not weighted or ratio or regimes == {"calibrated"}:
        return ""
    return "in the literal regime the weights are not the paper's"


def _part_of_the_data(series: Series, printed: PaperValue) -> str:
    """That a model learned from a part of the paper's data, where that is what is measured."""
    for real, ran in series.replaced.items():
        if quantity(printed.quantity).learned:
            return f"ran on {dataset_name(ran)}, a part of {dataset_name(real)}"
    return ""


def _too_small(series: Series) -> str:
    """Why a profile of this size cannot be compared; empty where it can."""
    size = series.result.size
    return "" if size.comparable else size.note or f"the {series.result.profile} profile is smaller"


def _why(series: Series, known: str) -> str:
    """What the file says, and that the size may be the reason where it is not the paper's."""
    smaller = series.result.profile != "full" and series.result.size.note
    return _sentences(known or "not known", "See also the note on this size" if smaller else "")


def _without_value(
    series: Series, name: str, at: Point, policies: Iterable[str], paper: str = ""
) -> Verdict:
    """Of what has no value: it was left out, its cells failed, or they ran and gave none."""
    points = series.points_at(at)
    if not points:
        left_out = f"the {series.result.profile} profile leaves out {_place_text(at)}"
        return Verdict("not run", "", paper, left_out)
    compared = list(dict.fromkeys(policies))
    cells = [c for c in series.result.cells if c.policy in compared and c.point in points]
    failed = [cell for cell in cells if cell.outputs is None]
    if failed:
        return Verdict("not run", "", paper, f"{len(failed)} cells failed: {failed[0].error}")
    if waiting := [p for p in compared if p not in {cell.policy for cell in cells}]:
        return Verdict("not run", "", paper, f"not run: {', '.join(map(policy_name, waiting))}")
    return Verdict("not comparable", quantity(name).absent, paper, "there is no value of ours")


def _place_text(at: Point) -> str:
    return ", ".join(f"{name} = {value_text(value)}" for name, value in at.items())


def _clauses(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _sentences(*parts: str) -> str:
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())
