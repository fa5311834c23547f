"""What a reader should know first: three sentences, and the numbers of one picture."""

import math
from collections import Counter
from collections.abc import Sequence

from stagewise_experiments.catalogue import experiments
from stagewise_experiments.claims import distinct_outcomes
from stagewise_experiments.names import OURS, PAPER_METHODS, policy_name
from stagewise_experiments.quantities import OPTIMUM, range_text, rounded
from stagewise_experiments.series import Comparison, Series
from stagewise_experiments.statistics import Estimate
from stagewise_experiments.table import Judged, counted
from stagewise_experiments.verdicts import KINDS, Kind

_GAP, _COST = "over_optimum", "cost_to_target"
_NOTHING = "0%"
_VERBS: dict[Kind, tuple[str, str]] = {
    "agrees": ("agrees", "agree"),
    "better": ("is better here", "are better here"),
    "differs": ("differs", "differ"),
    "undecided": ("is undecided", "are undecided"),
    "not comparable": ("cannot be compared", "cannot be compared"),
    "not run": ("was not run", "were not run"),
}


def sentences(judged: Sequence[Judged]) -> list[str]:
    """How much of the paper was confirmed, how far from the optimum we are, and what training costs."""
    return [_confirmed(judged), _gap_sentence(judged), _cost_sentence(judged)]


def kinds_of_the_paper(judged: Sequence[Judged]) -> Counter[Kind]:
    """The verdicts on the paper's numbers and claims."""
    kinds: Counter[Kind] = Counter()
    for one in judged:
        kinds.update(verdict.kind for _, verdict in one.values)
        kinds.update(verdict.kind for claim, verdict in one.claims if not claim.ours)
    return kinds


def with_optimum(judged: Sequence[Judged]) -> Series | None:
    """The result that compares methods with the certified optimum."""
    return next((one.series for one in judged if gap(one.series, OURS) is not None), None)


def with_cost(judged: Sequence[Judged]) -> Series | None:
    """The first result with costs to a target that are worth comparing."""
    for one in judged:
        measured = _COST in one.result.experiment.quantities and OURS in one.series.policies
        if measured and one.result.size.comparable and cost_ratio(one.series, OURS).by_seed:
            return one.series
    return None


def gap(series: Series, policy: str) -> Estimate | None:
    """How far a policy is above the optimum, as a fraction of it, in the mean over points."""
    if OPTIMUM not in series.policies or _GAP not in series.experiment.quantities:
        return None
    found = series.estimate_over(_GAP, policy, series.points)
    return None if found is None else found.mapped(lambda value: value - 1)


def cost_ratio(series: Series, policy: str) -> Comparison:
    """The logarithm of a policy's cost to the target over ours, over all points."""
    pairs = [((policy, point), (OURS, point)) for point in series.points]
    return series.compare(_COST, pairs)


def cost_outcomes(judged: Sequence[Judged]) -> Counter[bool | None]:
    """All comparisons of our pool's cost with the paper's methods': how many hold, fail, or are
    undecided (None)."""
    return Counter(
        distinct_outcomes(
            finding
            for one in judged
            for claim, verdict in one.claims
            if (claim.policy, claim.quantity, claim.margin, claim.ours) == (OURS, _COST, 0, True)
            for finding in verdict.found
            if finding.against in PAPER_METHODS
        )
    )


def _confirmed(judged: Sequence[Judged]) -> str:
    kinds = kinds_of_the_paper(judged)
    told = [f"{kinds[k]} {_VERBS[k][kinds[k] != 1]}" for k in KINDS if kinds[k]]
    if not told:
        return "Nothing that was run can be compared with the paper."
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
    ran = {one.result.experiment.id for one in judged}
    where = f"in {len(ran)} of {len(ran | set(experiments()))} experiments"
    return f"Of {kinds.total()} numbers and claims of the paper {where} {listed}."


def _gap_sentence(judged: Sequence[Judged]) -> str:
    series = with_optimum(judged)
    ours = gap(series, OURS) if series is not None else None
    if series is None or ours is None:
        return "No method was compared with the certified optimum."
    theirs = [(found.mean, p) for p in PAPER_METHODS if (found := gap(series, p)) is not None]
    best = ""
    if theirs:
        mean, policy = min(theirs)
        best = f"; the closest method of the paper, {policy_name(policy)}, is {_percent(mean)} above it"
    how = "one scenario" if ours.count == 1 else f"{ours.count} scenarios"
    told = gap_text(ours)
    told = "less than 0.001%" if told == _NOTHING else told
    return f"Our pool is {told} above the certified optimum in {how}{best}."


def gap_text(found: Estimate) -> str:
    """`0.18% (0.01% to 0.35%)`."""
    same = len({_percent(value) for value in (found.mean, found.low, found.high)}) == 1
    return _percent(found.mean) if same else range_text(found, _percent)


def _percent(value: float) -> str:
    """Less than a thousandth of a percent is rounding."""
    if abs(100 * value) < 1e-3:
        return _NOTHING
    return f"{'−' if value < 0 else ''}{rounded(abs(100 * value))}%"


def _cost_sentence(judged: Sequence[Judged]) -> str:
    outcomes = cost_outcomes(judged)
    if not outcomes:
        return "No cost of training to a target was compared."
    parts = [
        f"{words} in {outcomes[holds]}"
        for words, holds in (
            ("it costs no more", True), ("it costs more", False), ("the interval decides nothing", None)
        )
        if outcomes[holds]
    ]  # fmt: skip
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return (
        f"Of {counted(outcomes.total(), 'comparison')} of our pool with a method of the paper in the "
        f"cost up to the target accuracy, {listed}."
    )


def ratio(found: Comparison) -> Estimate | None:
    """The cost over ours as people read it; None where no seed tells."""
    return None if found.estimate is None else found.estimate.mapped(math.exp)
