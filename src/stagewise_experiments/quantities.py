"""What can be read off a cell's outputs: the columns of tables and the axes of pictures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stagewise.errors import StagewiseError, shown
from stagewise.runs.target import EVALUATIONS, rounds_to_target
from stagewise_experiments.experiment import Better
from stagewise_experiments.statistics import SLACK, Estimate

Outputs = Mapping[str, Any]
_Value = Callable[[Outputs], float | None]
_Spent = Callable[[Mapping[str, Any]], float]
"""Of one round's record."""
OPTIMUM = "exact"
"""The policy whose cells `over_optimum` is measured against."""
HARD_TARGET_OF = "kld-minimization"
"""The policy whose accuracy sets the hard target."""
HARD_TARGET_BELOW = 0.005
"""By how much the hard target is below that accuracy."""
HARD_TARGET_AFTER = 2 / 3
"""Of its rounds: the others have half as many more to get there."""
HUNDRED = 100
"""Values that a 99th percentile takes."""
BESIDE = "beside"
"""Among a cell's outputs: those of another policy at the same point and seed."""


@dataclass(frozen=True)
class Quantity:
    """A number of one cell, and how it is written."""

    name: str
    label: str
    value: _Value
    """None where the cell has no such number; inf where a target was not reached."""
    unit: str = ""
    better: Better = "neither"
    share: bool = False
    """A fraction, written in percent."""
    learned: bool = False
    """It depends on how far the model has learned, so that a few rounds say nothing of it."""
    absent: str = "no value"
    """What is written where there is none."""
    beside: str = ""
    """The policy it is measured against, whose outputs are given as `BESIDE`."""
    cost: bool = False
    """Breaking limits makes it less: never compared without the share of feasible rounds."""
    rounds: _Value | None = None
    """The rounds it is the sum of, where it is one: it is known to one round."""
    spent: _Value | None = None
    """Of a run that missed the target: what it had spent, and would at least have had to spend."""
    least: float | None = None
    """What it cannot be less than, however few values an interval comes from."""
    every: Callable[[Outputs], list[float]] | None = None
    """The values it is the mean of, where the tail of these is to be told beside it."""
    by_round: bool = False
    """It is a mean over rounds: two runs are compared by those that both have."""

    @property
    def title(self) -> str:
        """The label with its unit."""
        unit = "%" if self.share else self.unit
        return f"{self.label} ({unit})" if unit else self.label

    def text(self, value: float) -> str:
        """One value, without its unit but for percent."""
        if math.isinf(value):
            return "not reached"
        return f"{rounded(100 * value)}%" if self.share else rounded(value)


def quantity(name: str) -> Quantity:
    """The quantity called `name`."""
    if name not in QUANTITIES:
        raise StagewiseError(
            f"quantity = {shown(name)}: must be one of {', '.join(sorted(QUANTITIES))}"
        )
    return QUANTITIES[name]


def rounded(value: float, spread: float | None = None) -> str:
    """Three significant digits; or as many decimals as two digits of the `spread` have, up to five."""
    if spread:
        limit = 4 - math.floor(math.log10(max(abs(value), spread)))
        decimals = min(1 - math.floor(math.log10(spread)), limit)
    elif value:
        decimals = 2 - math.floor(math.log10(abs(value)))
    else:
        return "0"
    decimals = min(max(decimals, 0), 6)
    text = f"{value:,.{decimals}f}"
    return text[1:] if text.startswith("-") and float(text.replace(",", "")) == 0 else text


def estimate_text(of: Estimate, share: bool = False) -> str:
    """`12.3 ± 0.4`, in percent for shares; a target that was missed says by how many seeds.

    An interval that is cut off has its two ends: `12.3 (12.0 to 12.7)`.
    """
    factor, sign = (100.0, "%") if share else (1.0, "")
    if of.missed:
        if of.count == of.missed:
            return "not reached" if of.count == 1 else f"not reached in any of {of.count}"
        others = "" if of.reached_mean is None else f"{rounded(factor * of.reached_mean)}{sign}"
        counted = f"not reached in {of.missed} of {of.count}"
        return f"{counted} ({others} in the others)" if others else counted
    if of.half_width is None:
        return f"{rounded(factor * of.mean)}{sign}"
    below, above = factor * (of.mean - of.low), factor * (of.high - of.mean)
    spread = max(below, above)
    mean = rounded(factor * of.mean, spread)
    decimals = len(mean.partition(".")[2])
    if not math.isclose(below, above, rel_tol=1e-6, abs_tol=1e-12):
        low, high = (f"{factor * end:,.{decimals}f}{sign}" for end in (of.low, of.high))
        return f"{mean}{sign} ({low} to {high})"
    return f"{mean}{sign} ± {f'{spread:,.{decimals}f}' if spread else '0'}"


def range_text(of: Estimate, write: Callable[[float], str]) -> str:
    """`+13.2% (−5.00% to +35.1%)`: the mean and the ends of its interval as `write` has them."""
    ends = f" ({write(of.low)} to {write(of.high)})" if of.interval else ""
    return f"{write(of.mean)}{ends}"


def signed(value: float, unit: str = "") -> str:
    """`+13.2%`, `−0.340 points`."""
    if abs(value) < SLACK:
        return f"0{unit}"
    return f"{'+' if value > 0 else '−'}{rounded(abs(value))}{unit}"


def accuracy_curve(outputs: Outputs) -> list[tuple[int, float]]:
    """Round (from 1) and test accuracy, for the rounds in which it was measured."""
    return [
        (number, record["accuracy"])
        for number, record in enumerate(outputs.get("rounds", ()), start=1)
        if record.get("accuracy") is not None
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _rounds_mean(field: str) -> _Value:
    """The mean over rounds; for a plan, which has no rounds, the plan's own."""

    def value(outputs: Outputs) -> float | None:
        if "rounds" not in outputs:
            return _own(field)(outputs)
        return _mean(record.get(field) for record in outputs["rounds"])

    return value


def _own(field: str) -> _Value:
    def value(outputs: Outputs) -> float | None:
        found = outputs.get(field)
        return None if found is None else float(found)

    return value


def _of_feasible(name: str) -> _Value:
    """The same of a plan that keeps its limits; of one that says it does not, nothing."""
    own = _own(name)
    return lambda outputs: own(outputs) if outputs.get("feasible") else None


def _decision_times(outputs: Outputs) -> list[float]:
    return [float(record["decision_ms"]) for record in outputs.get("rounds", ())]


def _decisions_within(share: float, least: int = 1) -> _Value:
    """The time that this share of a run's decisions does not exceed; None for less than `least`."""

    def value(outputs: Outputs) -> float | None:
        times = _decision_times(outputs)
        return _quantile(times, share) if len(times) >= least else None

    return value


def _quantile(values: Sequence[float], share: float) -> float:
    """The least of the values that this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def tail_text(values: Sequence[float]) -> str:
    """`; 99% 3.40, longest 5.20`; of fewer than a hundred values the longest alone."""
    if not values:
        return ""
    most = f"99% {rounded(_quantile(values, 0.99))}, " if len(values) >= HUNDRED else ""
    return f"; {most}longest {rounded(max(values))}"


def _final_accuracy(outputs: Outputs) -> float | None:
    """The mean of the last evaluations, as many as a target takes."""
    return _accuracy_after(len(outputs.get("rounds", ())))(outputs)


def _accuracy_after(rounds: int) -> _Value:
    """The mean of the last evaluations up to that round; None where the run ended before."""

    def value(outputs: Outputs) -> float | None:
        if len(outputs.get("rounds", ())) < rounds:
            return None
        curve = [accuracy for number, accuracy in accuracy_curve(outputs) if number <= rounds]
        return _mean(curve[-EVALUATIONS:])

    return value


def _hard_target(outputs: Outputs) -> float | None:
    """A little less than what `HARD_TARGET_OF` has after two thirds of its rounds."""
    other = outputs.get(BESIDE, {})
    rounds = max(1, round(HARD_TARGET_AFTER * len(other.get("rounds", ()))))
    found = _accuracy_after(rounds)(other)
    return None if found is None else found - HARD_TARGET_BELOW


def _to_target(spent: _Spent, target_of: _Value) -> _Value:
    """What is spent up to and including the round that reaches the target; inf if none does."""

    def value(outputs: Outputs) -> float | None:
        target = target_of(outputs)
        if target is None:
            return None
        rounds = outputs["rounds"]
        last = rounds_to_target([record.get("accuracy") for record in rounds], target)
        return math.inf if last is None else math.fsum(map(spent, rounds[:last]))

    return value


def _whole_run(spent: _Spent) -> _Value:
    """Over all rounds that were run."""
    return lambda outputs: math.fsum(map(spent, outputs["rounds"]))


def _plan_seconds(outputs: Outputs) -> float | None:
    """Of one plan: the mean where a run made several."""
    times = outputs.get("plan_ms")
    mean = _mean(times if isinstance(times, list) else [times])
    return None if mean is None else mean / 1000


def _over_optimum(outputs: Outputs) -> float | None:
    """The mean over rounds of the objective over the optimum's, 1 where they are equal.

    A round counts if both decisions keep every limit: one that breaks them may cost less. It is
    compared with the proven bound, or else with the best that is known.
    """
    ratios = []
    optimum = outputs.get(BESIDE, {}).get("rounds", ())
    for ours, best in zip(outputs.get("rounds", ()), optimum, strict=False):
        least = best.get("lower_bound") or best.get("objective")
        if ours.get("feasible") and best.get("feasible") and least:
            ratios.append(ours["objective"] / least)
    return _mean(ratios)


def _lower(name: str, label: str, value: _Value, unit: str = "", **fields: Any) -> Quantity:
    return Quantity(name, label, value, unit, "lower", **fields)


def _share(
    name: str, label: str, value: _Value, better: Better = "lower", **fields: Any
) -> Quantity:
    return Quantity(name, label, value, "", better, share=True, **fields)


def _to(what: str, spent: _Spent, unit: str = "", hard: bool = False) -> Quantity:
    """What it takes until the target is reached."""
    target, target_of = "target", _own("target_accuracy")
    if hard:
        target, target_of = "hard target", _hard_target
    return _lower(
        f"{what}_to_{target.replace(' ', '_')}",
        f"{what} to {target}",
        _to_target(spent, target_of),
        unit,
        learned=True,
        absent=f"ended before {EVALUATIONS} evaluations could pass",
        cost=what != "rounds",
        rounds=_to_target(lambda _: 1.0, target_of),
        spent=_whole_run(spent),
        beside=HARD_TARGET_OF if hard else "",
    )


_SPENT: dict[str, tuple[_Spent, str]] = {
    "rounds": (lambda _: 1.0, ""),
    "cost": (lambda record: record["objective"], ""),
    "delay": (lambda record: record["delay_s"], "s"),
    "energy": (lambda record: record["energy_j"], "J"),
}


_WORST, _FEASIBLE = (
    "violations of the worst edge",
    "violations of the worst edge of a feasible plan",
)

QUANTITIES: dict[str, Quantity] = {
    entry.name: entry
    for entry in (
        _share("accuracy", "test accuracy", _final_accuracy, "higher", learned=True),
        _share("final_accuracy", "final test accuracy", _final_accuracy, "higher", learned=True),
        _share(
            "accuracy_after_30",
            "test accuracy after 30 rounds",
            _accuracy_after(30),
            "higher",
            learned=True,
            absent="ended before",
        ),
        *(_to(what, *spent) for what, spent in _SPENT.items()),
        *(_to(what, *spent, hard=True) for what, spent in _SPENT.items()),
        _share("clients_trained", "clients that ever trained", _own("clients_trained"), "higher"),
        _share(
            "worst_tenth",
            "accuracy of the worst tenth of clients",
            _own("worst_tenth"),
            "higher",
            learned=True,
        ),
        _lower(
            "decision_ms",
            "decision time",
            _rounds_mean("decision_ms"),
            "ms",
            by_round=True,
            every=_decision_times,
        ),
        _lower("decision_ms_median", "median decision", _decisions_within(0.5), "ms"),
        _lower(
            "decision_ms_p99",
            "99th percentile of decisions",
            _decisions_within(0.99, least=HUNDRED),
            "ms",
            absent="fewer than 100 rounds",
        ),
        _lower("decision_ms_max", "slowest decision", _decisions_within(1.0), "ms"),
        *(
            _lower(name, label, _rounds_mean(name), unit, cost=True, by_round=True)
            for name, label, unit in (
                ("objective", "cost of a round", ""),
                ("delay_s", "delay of a round", "s"),
                ("energy_j", "energy of a round", "J"),
            )
        ),
        _share(
            "feasible_share", "feasible rounds", _rounds_mean("feasible"), "higher", by_round=True
        ),
        _lower("kld", "KLD of an edge", _rounds_mean("kld"), "nats", by_round=True),
        Quantity("clients", "clients", _rounds_mean("clients"), by_round=True),
        _lower(
            "over_optimum",
            "cost over the optimum's",
            _over_optimum,
            absent="never feasible",
            beside=OPTIMUM,
            least=1.0,
        ),
        _lower("plan_s", "time of Plan A", _plan_seconds, "s"),
        _share("kld_violation", "KLD violations", _own("kld_violation")),
        _share("data_violation", "data violations", _own("data_violation")),
        _share("kld_violation_worst", f"KLD {_WORST}", _own("kld_violation_worst")),
        _share("data_violation_worst", f"data {_WORST}", _own("data_violation_worst")),
        _share("kld_violation_kept", f"KLD {_FEASIBLE}", _of_feasible("kld_violation_worst")),
        _share("data_violation_kept", f"data {_FEASIBLE}", _of_feasible("data_violation_worst")),
        _share(
            "data_violation_feasible",
            "data violations of feasible plans",
            _of_feasible("data_violation"),
            absent="no plan is feasible",
        ),
        _share("planned_feasible", "feasible plans", _own("feasible"), "higher"),
    )
}
