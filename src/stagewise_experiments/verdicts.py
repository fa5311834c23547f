"""Our numbers compared with the paper's numbers, and with what it and we claim in words."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from stagewise_experiments.claims import NO_VALUE, SLACK, Finding, findings
from stagewise_experiments.experiment import Better, Claim, PaperValue, Point
from stagewise_experiments.names import dataset_name, policy_name
from stagewise_experiments.quantities import estimate_text, interval_text, quantity, rounded
from stagewise_experiments.series import (
    BySeed,
    Pairs,
    Series,
    differences,
    increases,
    mean_by_seed,
)
from stagewise_experiments.statistics import Estimate, estimate

Kind = Literal["agrees", "better", "differs", "not comparable", "not run"]
KINDS: tuple[Kind, ...] = ("agrees", "better", "differs", "not comparable", "not run")
"""`not comparable`: measured, but not what the paper measured; `not run`: nothing to judge by."""

TOLERANCE = 0.10
"""In parts of our mean, for values."""
POINTS_OF_INCREASE = 0.05
"""For increases over another policy."""
POINTS_OF_SHARE = 0.01
"""For differences between accuracies and other shares."""
WIDE = "within our interval, which is wider than the tolerance"


@dataclass(frozen=True)
class Verdict:
    """What came of one number or claim."""

    kind: Kind
    ours: str
    paper: str
    why: str
    wide: bool = False
    """It agrees only because our interval is wider than the tolerance."""


def judge_value(series: Series, printed: PaperValue) -> Verdict:
    """`agrees` within our interval or the tolerance; else `better` or `differs`, by direction."""
    paper = printed_text(printed)
    other = printed.relative_to or printed.minus
    pairs = None if other is None else _pairs(series, printed, other)
    found = estimate((_alone(series, printed) if pairs is None else pairs.by_seed).values())
    obstacle = (
        _other_data(series)
        or _too_small(series)
        or ("" if printed.comparable else printed.why)
        or ("" if other else _part_of_the_data(series, printed))
    )
    if other is not None and pairs is not None and 2 * pairs.usable < pairs.all:
        return _other_missed(series, printed, other, pairs, obstacle)
    if found is None:
        policies = [printed.policy, *([other] if other else [])]
        return Verdict("not run", "", paper, _missing(series, printed.at, policies))
    ours = _measured_text(found, printed, pairs)
    if obstacle:
        return Verdict("not comparable", ours, paper, obstacle)
    kind, reason = _compare(found, printed)
    if kind == "differs":
        reason = _sentences(reason, _why(series, printed.why))
    elif kind == "better" and other is not None:
        named = policy_name(other)
        reason = f"against {named} it does better than in the paper; {named} may be weaker here"
    return Verdict(kind, ours, paper, reason, wide=reason == WIDE)


def _other_missed(
    series: Series, printed: PaperValue, other: str, pairs: Pairs, obstacle: str
) -> Verdict:
    """Where the method compared with missed the target more often than not: there is no ratio."""
    paper = printed_text(printed)
    ours = (
        f"{policy_name(other)} reached the target in {pairs.usable} of {pairs.all} runs, "
        f"{policy_name(printed.policy)} in {pairs.ours_reached}"
    )
    if obstacle:
        return Verdict("not comparable", ours, paper, obstacle)
    if pairs.ours_reached <= pairs.usable:
        return Verdict("not comparable", ours, paper, "too few runs reached the target")
    if _better(printed) == "lower":
        reason = f"{policy_name(other)} is the weaker one here"
        return Verdict("better", ours, paper, reason)
    return Verdict("differs", ours, paper, _why(series, printed.why))


def judge_claim(series: Series, claim: Claim) -> Verdict:
    """`agrees` where every point keeps it; else `differs`, naming the worst point of each policy.

    What a model learned is not judged where the profile trains too little to be compared.
    """
    obstacle = _too_small(series) if quantity(claim.quantity).learned else ""
    found = list(findings(series, claim))
    absent = [p for p in (*claim.at_most, *claim.at_least) if p not in series.policies]
    decided = [finding for finding in found if finding.short_by is not None]
    undecided = Counter(finding.text for finding in found if finding.short_by is None)
    if not decided:
        reasons = [text for text in undecided if text != NO_VALUE]
        if reasons and obstacle:
            return Verdict("not comparable", reasons[0], "", obstacle)
        policies = [claim.policy, *claim.at_most, *claim.at_least]
        reason = reasons[0] if reasons else _missing(series, claim.at, policies)
        return Verdict("not run", "", "", reason)
    kept = sum(finding.holds for finding in decided)
    ours = _clauses(
        *_counted(decided),
        *(f"{count} left out: {reason}" for reason, count in undecided.items()),
        f"not run: {', '.join(map(policy_name, absent))}" if absent else "",
    )
    if obstacle:
        return Verdict("not comparable", ours, "", obstacle)
    kind: Kind = "agrees" if kept == len(decided) else "differs"
    return Verdict(kind, ours, "", "" if kind == "agrees" else _why(series, claim.why))


def _counted(decided: list[Finding]) -> Iterator[str]:
    """How many comparisons hold, and the closest of them, or where it fails by most."""
    by_need = sorted(decided, key=lambda finding: -(finding.short_by or 0.0))
    if len(decided) == 1:
        yield decided[0].text
        return
    kept = sum(finding.holds for finding in decided)
    unsure = sum(finding.noisy for finding in decided)
    noise = f", {unsure} within noise" if unsure else ""
    yield f"holds in {kept} of {len(decided)} comparisons{noise}"
    if kept == len(decided):
        yield f"closest: {by_need[0].text}"
        return
    # Of each policy that it fails against, the worst point.
    worst = {f.against: f.text for f in reversed(by_need) if not f.holds}
    order = dict.fromkeys(finding.against for finding in by_need if not finding.holds)
    yield f"worst: {', '.join(worst[against] for against in order)}"


def printed_text(printed: PaperValue) -> str:
    """The paper's number, with the digits that it prints."""
    share = quantity(printed.quantity).share
    if printed.relative_to is not None:
        more = f"{_sign(printed.value)}{_digits(100 * printed.value)}%"
        return f"{more} over {policy_name(printed.relative_to)}"
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


def _alone(series: Series, printed: PaperValue) -> BySeed:
    """Ours by seed: the mean over the points that `at` leaves open."""
    points = series.points_at(printed.at)
    return mean_by_seed(series.values(printed.quantity, printed.policy, p) for p in points)


def _pairs(series: Series, printed: PaperValue, other: str) -> Pairs:
    """Ours against the other's as the paper counts it."""
    pair = increases if printed.relative_to is not None else differences
    return series.against(printed.quantity, printed.policy, other, printed.at, pair)


def _compare(found: Estimate, printed: PaperValue) -> tuple[Kind, str]:
    better = _better(printed)
    if math.isinf(printed.value):
        if 2 * found.missed >= found.count:
            return "agrees", ""
        return ("better" if better == "lower" else "differs"), ""
    if math.isinf(found.mean):
        return "differs", "the target was not always reached"
    apart = abs(printed.value - found.mean)
    if apart <= _tolerance(found, printed) + SLACK:
        return "agrees", ""
    if found.half_width is not None and apart <= found.half_width:
        return "agrees", WIDE
    side = "lower" if found.mean < printed.value else "higher"
    return ("better" if side == better else "differs"), ""


def _better(printed: PaperValue) -> Better:
    return printed.better or quantity(printed.quantity).better


def _tolerance(found: Estimate, printed: PaperValue) -> float:
    if printed.relative_to is not None:
        return POINTS_OF_INCREASE
    if printed.minus is not None and quantity(printed.quantity).share:
        return POINTS_OF_SHARE
    return TOLERANCE * abs(found.mean)


def _measured_text(found: Estimate, printed: PaperValue, pairs: Pairs | None) -> str:
    """Of two policies: also over how many of their runs, where a target was missed in some."""
    share = quantity(printed.quantity).share
    if pairs is None:
        return estimate_text(found, share)
    missed = f"not reached in {found.missed} of {found.count}" if found.missed else ""
    mean = found.reached_mean if found.missed else found.mean
    if mean is None:
        return missed
    in_percent = share or printed.relative_to is not None
    factor = 100.0 if in_percent else 1.0
    spread = None if found.half_width is None else factor * found.half_width
    unit = "%" if printed.relative_to is not None else " points" if share else ""
    around = f" ± {interval_text(factor * mean, spread)}" if spread else ""
    number = f"{_sign(mean)}{rounded(factor * abs(mean), spread)}{unit}{around}"
    few = f" over {pairs.reached} of {pairs.all} runs" if pairs.reached < pairs.all else ""
    return _clauses(missed, number + few)


def _other_data(series: Series) -> str:
    """That a stand-in ran; empty where none did."""
    for real, ran in series.result.stand_ins.items():
        return f"ran on {dataset_name(ran)}, not on {dataset_name(real)}"
    return ""


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


def _missing(series: Series, at: Point, policies: Iterable[str]) -> str:
    if not series.points_at(at):
        place = ", ".join(f"{name} = {value}" for name, value in at.items())
        return f"the {series.result.profile} profile leaves out {place}"
    compared, points = set(policies), series.points_at(at)
    failed = [c for c in series.result.failed if c.policy in compared and c.point in points]
    if failed:
        return f"{len(failed)} cells failed: {failed[0].error}"
    return "there is no value"


def _clauses(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _sentences(*parts: str) -> str:
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())
