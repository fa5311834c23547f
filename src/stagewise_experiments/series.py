"""A result by policy, point and seed: values, and comparisons that are paired within a seed."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from stagewise_experiments.experiment import Axis, Experiment, Point, Value
from stagewise_experiments.names import dataset_name
from stagewise_experiments.quantities import BESIDE, Outputs, accuracy_curve, quantity
from stagewise_experiments.results import CellResult, Result
from stagewise_experiments.statistics import Estimate, estimate

BySeed = dict[int, float]
Place = tuple[str, Point]
"""A policy at a point."""
ONE_SEED = "one seed"
_Place = tuple[str, tuple[tuple[str, Value], ...], int]


@dataclass(frozen=True)
class Curve:
    """The accuracy of one policy by round: the mean over seeds as far as every seed has it."""

    rounds: list[int]
    mean: list[float]
    half_width: list[float | None]
    rests: list[tuple[list[int], list[float]]]
    """The rounds and accuracies of runs that went on when others had ended, from where they had."""


@dataclass(frozen=True)
class Comparison:
    """A quantity at some places compared with that at others, each pair on the same seed."""

    by_seed: BySeed
    """The mean over pairs of places of log-ratios or of differences; infinite where only one of the
    two reached its target. Seeds in which both always missed it are left out."""
    runs: int
    """Pairs of runs."""
    missed: tuple[int, int]
    """How many of them missed the target, on either side."""
    both_missed: int
    contradictory: int = 0
    """Seeds that are left out because only one missed the target in some pairs, only the other in
    others."""
    resolution: float = 0.0
    """By how much the interval is longer at either end, since targets are reached in whole rounds."""

    @cached_property
    def estimate(self) -> Estimate | None:
        found = estimate(self.by_seed.values())
        return None if found is None else found.widened(self.resolution)

    @property
    def obstacle(self) -> str:
        """Why there is no interval that could decide anything; empty where there is one."""
        if self.both_missed == self.runs:
            return "no run reached the target"
        if 2 * self.both_missed > self.runs:
            return "fewer than half of the runs reached the target"
        if self.contradictory:
            return "targets missed on both sides"
        return undecidable(self.estimate)


class Series:
    """Reads the cells of one result; those that failed are as if they had not been run."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._cells: dict[_Place, CellResult] = {
            _place(cell.policy, cell.point, cell.seed): cell
            for cell in result.cells
            if cell.outputs is not None
        }

    @property
    def experiment(self) -> Experiment:
        return self.result.experiment

    @cached_property
    def points(self) -> list[Point]:
        """In the order of the cells."""
        return _different(cell.point for cell in self.result.cells)

    @cached_property
    def policies(self) -> list[str]:
        ran = {cell.policy for cell in self.result.cells}
        return [policy for policy in self.experiment.policies if policy in ran]

    def axis(self, name: str) -> Axis:
        return next(axis for axis in self.experiment.axes if axis.name == name)

    def axis_values(self, name: str, at: Point | None = None) -> list[Value]:
        """Those that ran, in order."""
        return list(dict.fromkeys(point[name] for point in self.points_at(at or {})))

    def open_axes(self, at: Point | None = None) -> list[Axis]:
        """Axes along which there is more than one value."""
        return [a for a in self.experiment.axes if len(self.axis_values(a.name, at)) > 1]

    def points_at(self, at: Point) -> list[Point]:
        """The points that have these values."""
        return [p for p in self.points if all(p.get(name) == v for name, v in at.items())]

    def values(self, name: str, policy: str, point: Point) -> BySeed:
        """By seed; seeds without such a value are left out."""
        cells = ((seed, self._cells.get(_place(policy, point, seed))) for seed in self.result.seeds)
        found = {seed: self._value(name, cell) for seed, cell in cells if cell is not None}
        return {seed: value for seed, value in found.items() if value is not None}

    def _value(self, name: str, cell: CellResult) -> float | None:
        outputs = self._outputs(name, cell)
        if outputs is None:
            return None
        value = quantity(name).value(outputs)
        if value == math.inf and not outputs.get("stopped"):
            # A run that ended early without diverging was ended by a looser rule for the target.
            return value if len(outputs["rounds"]) >= cell.setting.rounds else None
        return value

    def _outputs(self, name: str, cell: CellResult) -> Outputs | None:
        """What the quantity is read off; None where the cell it is measured against is missing."""
        outputs, policy = cell.outputs or {}, quantity(name).beside
        if not policy:
            return outputs
        other = self._cells.get(_place(policy, cell.point, cell.seed))
        return None if other is None else {**outputs, BESIDE: other.outputs or {}}

    def estimate(
        self, name: str, policy: str, point: Point, relative_to: str | None = None
    ) -> Estimate | None:
        """The mean over seeds; `relative_to` another policy: the geometric mean of the ratios to it."""
        if relative_to is None:
            return estimate(self.values(name, policy, point).values())
        found = self.compare(name, [((policy, point), (relative_to, point))]).estimate
        return None if found is None else found.mapped(math.exp)

    def compare(
        self, name: str, pairs: Iterable[tuple[Place, Place]], differences: bool = False
    ) -> Comparison:
        """The log-ratios of the first place of each pair to the second, or their `differences`.

        To a target, runs of as many rounds are compared exactly. Others are known to one round, and
        the interval is longer by it.
        """
        collected: dict[int, list[float]] = {}
        steps: dict[int, list[float]] = {}
        runs = first = second = both = 0
        for ours_at, theirs_at in pairs:
            ours, theirs = self.values(name, *ours_at), self.values(name, *theirs_at)
            for seed in sorted(ours.keys() & theirs.keys()):
                a, b = ours[seed], theirs[seed]
                if not differences and min(a, b) <= 0 and a != b:
                    continue  # there is no ratio
                runs, first, second = runs + 1, first + math.isinf(a), second + math.isinf(b)
                if math.isinf(a) and math.isinf(b):
                    both += 1
                    continue
                of_a, of_b = (self._rounds(name, at, seed) for at in (ours_at, theirs_at))
                collected.setdefault(seed, []).append(_apart(a, b, differences))
                step = 0.0
                if of_a != of_b and math.isfinite(a - b):
                    step = max(a / of_a, b / of_b) if differences else 1 / min(of_a, of_b)
                steps.setdefault(seed, []).append(step if differences else math.log1p(step))
        means = {seed: _mean(values) for seed, values in collected.items()}
        told = {seed: mean for seed, mean in means.items() if not math.isnan(mean)}
        return Comparison(
            told,
            runs,
            (first, second),
            both,
            contradictory=len(means) - len(told),
            resolution=_mean([_mean(steps[seed]) for seed in told]) if told else 0.0,
        )

    def _rounds(self, name: str, place: Place, seed: int) -> float:
        """To the target; 0 for quantities that have none."""
        rounds = quantity(name).rounds
        outputs = self._outputs(name, self._cells[_place(*place, seed)])
        return (rounds(outputs) or 0.0) if rounds and outputs else 0.0

    def feasible_share(self, policy: str, points: Iterable[Point]) -> float | None:
        """Of the rounds at these points."""
        kept = [self.values("feasible_share", policy, point).values() for point in points]
        found = estimate(share for by_seed in kept for share in by_seed)
        return None if found is None else found.mean

    def feasible_text(self, name: str, policies: Iterable[str], points: list[Point]) -> str:
        """`feasible rounds: 100% against 31%`, where a cost is compared and any breaks a limit."""
        shares = [self.feasible_share(policy, points) for policy in policies]
        if not quantity(name).cost or all(share in (None, 1) for share in shares):
            return ""
        told = ("unknown" if share is None else f"{100 * share:.3g}%" for share in shares)
        return f"feasible rounds: {' against '.join(told)}"

    def keys(self, places: Iterable[Place]) -> frozenset[str]:
        """Of the cells at these places: the same in every experiment that has them."""
        wanted = [_place(*place, seed) for place in places for seed in self.result.seeds]
        return frozenset(self._cells[place].key for place in wanted if place in self._cells)

    def curve(self, policy: str, point: Point) -> Curve | None:
        """The accuracy by round; None where no seed has one."""
        runs = []
        for seed in self.result.seeds:
            cell = self._cells.get(_place(policy, point, seed))
            measured = accuracy_curve(cell.outputs) if cell and cell.outputs else []
            if measured:
                runs.append(dict(measured))
        if not runs:
            return None
        shared = sorted(set(runs[0]).intersection(*runs[1:]))
        together = [estimate(run[number] for run in runs) for number in shared]
        last = shared[-1] if shared else 0
        rests = [
            {number: run[number] for number in sorted(run) if number >= last}
            for run in runs
            if max(run) > last
        ]
        return Curve(
            rounds=shared,
            mean=[found.mean for found in together if found],
            half_width=[found.half_width for found in together if found],
            rests=[(list(rest), list(rest.values())) for rest in rests],
        )

    def place_text(self, point: Point) -> str:
        """`kld_max = 0.2, data_min = 2,500`: the axes that have more than one value."""
        axes = [axis.name for axis in self.open_axes() if axis.name in point]
        return ", ".join(f"{name} = {value_text(point[name])}" for name in axes)

    @cached_property
    def replaced(self) -> dict[str, str]:
        """The data sets of the experiment that did not run, to those that did."""
        declared = self.experiment.setting.get("dataset")
        ran = {cell.setting.dataset for cell in self.result.cells}
        if isinstance(declared, str) and declared not in ran and len(ran) == 1:
            return {declared: next(iter(ran))}
        return self.result.stand_ins

    def renamed(self, text: str) -> str:
        """`text` with the data set that ran in place of the one it names, unless it names both."""
        for real, ran in self.replaced.items():
            if not _names(dataset_name(ran), text):
                text = re.sub(_whole(dataset_name(real)), dataset_name(ran), text)
        return text


def _apart(a: float, b: float, differences: bool) -> float:
    if a == b:  # which may both be 0
        return 0.0
    return a - b if differences else math.log(a) - math.log(b)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def undecidable(found: Estimate | None) -> str:
    """Why there is no interval; empty where there is one."""
    if found is not None and found.interval is not None:
        return ""
    one = found is not None and found.count == 1
    return ONE_SEED if one else "only some seeds reached the target"


def value_text(value: Value) -> str:
    """An axis value as people write it."""
    if isinstance(value, str):
        return dataset_name(value)
    return f"{value:,g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _whole(name: str) -> str:
    return rf"(?<![\w-]){re.escape(name)}(?![\w-])"


def _names(name: str, text: str) -> bool:
    return re.search(_whole(name), text) is not None


def _place(policy: str, point: Point, seed: int) -> _Place:
    return policy, tuple(sorted(point.items())), seed


def _different(points: Iterable[Point]) -> list[Point]:
    return list({tuple(sorted(point.items())): point for point in points}.values())
