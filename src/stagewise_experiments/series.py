"""A result by policy, point and seed: values, and comparisons that are paired within a seed."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from stagewise_experiments.experiment import Axis, Experiment, Point, Value
from stagewise_experiments.names import dataset_name
from stagewise_experiments.quantities import BESIDE, Outputs, accuracy_curve, quantity
from stagewise_experiments.results import CellResult, Result
from stagewise_experiments.statistics import Estimate, estimate

BySeed = dict[int, float]
Place = tuple[str, Point]
"""A policy at a point."""
Pair = tuple[Place, Place]
"""Two that are compared."""
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
    bounds: BySeed = field(default_factory=dict)
    """The same, where a run that missed has what it had spent: the truth is at least as far from it."""
    contradictory: bool = False
    """Whether only one missed the target in some pairs, and only the other in others."""
    resolution: float = 0.0
    """By how much the interval is longer at either end, since targets are reached in whole rounds."""

    @cached_property
    def estimate(self) -> Estimate | None:
        if self.contradictory:
            return None
        bounds = [self.bounds[seed] for seed in self.by_seed] if self.bounds else None
        found = estimate(self.by_seed.values(), bounds)
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

    def _value(self, name: str, cell: CellResult, first: int | None = None) -> float | None:
        """Of all rounds of the cell, or of the `first` ones."""
        outputs = self._outputs(name, cell)
        if outputs is None:
            return None
        if first is not None:
            outputs = {**outputs, "rounds": outputs["rounds"][:first]}
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
            return self.estimate_over(name, policy, [point])
        found = self.compare(name, [((policy, point), (relative_to, point))]).estimate
        return None if found is None else found.mapped(math.exp)

    def estimate_over(self, name: str, policy: str, points: Iterable[Point]) -> Estimate | None:
        """The mean over seeds of the mean over these points."""
        collected: dict[int, list[float]] = {}
        for point in points:
            for seed, value in self.values(name, policy, point).items():
                collected.setdefault(seed, []).append(value)
        found, least = estimate(map(_mean, collected.values())), quantity(name).least
        return found if found is None or least is None else found.bounded_below(least)

    def every(self, name: str, policy: str, point: Point) -> list[float]:
        """The values that those of all seeds are the means of, where their tail matters."""
        every = quantity(name).every
        cells = (self._cells.get(_place(policy, point, seed)) for seed in self.result.seeds)
        return [value for cell in cells if every and cell for value in every(cell.outputs or {})]

    def compare(self, name: str, pairs: Iterable[Pair], differences: bool = False) -> Comparison:
        """The log-ratios of the first place of each pair to the second, or their `differences`.

        Means over rounds are taken over those that both runs have. To a target, runs of as many
        rounds are compared exactly. Others are known to one round, and the interval is longer by it.
        """
        compared = [
            (ours.seed, found)
            for ours, theirs in self._runs(pairs)
            if (found := self._compared(name, ours, theirs, differences)) is not None
        ]
        missed = [found.missed for _, found in compared]
        told: dict[int, list[_Compared]] = {}
        for seed, found in compared:
            if found.missed != (True, True):
                told.setdefault(seed, []).append(found)
        apart = {seed: _mean([found.apart for found in some]) for seed, some in told.items()}
        clear = {seed: some for seed, some in told.items() if not math.isnan(apart[seed])}
        steps = [_mean([found.step for found in some]) for some in clear.values()]
        return Comparison(
            {seed: apart[seed] for seed in clear},
            len(compared),
            (sum(first for first, _ in missed), sum(second for _, second in missed)),
            missed.count((True, True)),
            bounds={seed: _mean([found.bound for found in some]) for seed, some in clear.items()},
            contradictory=(True, False) in missed and (False, True) in missed,
            resolution=_mean(steps) if steps else 0.0,
        )

    def _runs(self, pairs: Iterable[Pair]) -> Iterator[tuple[CellResult, CellResult]]:
        """The runs at both places of each pair, on every seed that has both."""
        for pair in pairs:
            for seed in self.result.seeds:
                ours, theirs = (self._cells.get(_place(*place, seed)) for place in pair)
                if ours is not None and theirs is not None:
                    yield ours, theirs

    def _compared(
        self, name: str, ours: CellResult, theirs: CellResult, differences: bool
    ) -> "_Compared | None":
        """Two runs on one seed; None where either has no value or there is no ratio."""
        shared = _shared_rounds(ours, theirs) if quantity(name).by_round else None
        a, b = self._value(name, ours, shared), self._value(name, theirs, shared)
        if a is None or b is None or (not differences and min(a, b) <= 0 and a != b):
            return None
        missed, apart = (math.isinf(a), math.isinf(b)), _apart(a, b, differences)
        if any(missed):
            least_a = self._spent(name, ours) if missed[0] else a
            least_b = self._spent(name, theirs) if missed[1] else b
            return _Compared(missed, apart, _apart(least_a, least_b, differences))
        of_a, of_b = self._rounds(name, ours), self._rounds(name, theirs)
        if of_a == of_b:
            return _Compared(missed, apart, apart)
        step = max(a / of_a, b / of_b) if differences else math.log1p(1 / min(of_a, of_b))
        return _Compared(missed, apart, apart, step)

    def _rounds(self, name: str, cell: CellResult) -> float:
        """To the target; 0 for quantities that have none."""
        rounds, outputs = quantity(name).rounds, self._outputs(name, cell)
        return (rounds(outputs) or 0.0) if rounds and outputs else 0.0

    def _spent(self, name: str, cell: CellResult) -> float:
        """What a run had spent when it ended without its target."""
        spent = quantity(name).spent
        assert spent is not None, "only targets are missed"
        return spent(cell.outputs or {}) or 0.0

    def feasible_share(self, policy: str, points: Iterable[Point]) -> float | None:
        """Of the rounds at these points."""
        kept = [self.values("feasible_share", policy, point).values() for point in points]
        return _mean_of_known(share for by_seed in kept for share in by_seed)

    def feasible_text(self, name: str, pairs: Iterable[Pair]) -> str:
        """`feasible rounds: 100% against 31%`, where a cost is compared and either breaks a limit.

        Of the rounds that both runs have.
        """
        if not quantity(name).cost:
            return ""
        kept = [
            [self._value("feasible_share", run, _shared_rounds(*runs)) for run in runs]
            for runs in self._runs(pairs)
        ]
        shares = [_mean_of_known(both[side] for both in kept) for side in (0, 1)]
        if all(share in (None, 1) for share in shares):
            return ""
        told = ("unknown" if share is None else f"{100 * share:.3g}%" for share in shares)
        return f"feasible rounds: {' against '.join(told)}"

    def settings(self, places: Iterable[Place]) -> frozenset[bytes]:
        """Of the cells at these places: the same in every experiment that has them."""
        wanted = [_place(*place, seed) for place in places for seed in self.result.seeds]
        return frozenset(
            msgspec.json.encode(self._cells[place].setting, order="deterministic")
            for place in wanted
            if place in self._cells
        )

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


@dataclass(frozen=True)
class _Compared:
    """Two runs compared."""

    missed: tuple[bool, bool]
    """Whether they missed the target."""
    apart: float
    bound: float
    """The same by what a run that missed had spent."""
    step: float = 0.0
    """What one round makes."""


def _shared_rounds(ours: CellResult, theirs: CellResult) -> int | None:
    """How many rounds both have; None for what has no rounds."""
    mine, others = ((cell.outputs or {}).get("rounds") for cell in (ours, theirs))
    return None if mine is None or others is None else min(len(mine), len(others))


def _apart(a: float, b: float, differences: bool) -> float:
    if a == b:  # which may both be 0
        return 0.0
    if not differences and min(a, b) == 0:
        return math.inf if b == 0 else -math.inf
    return a - b if differences else math.log(a) - math.log(b)


def _mean(values: list[float]) -> float:
    """NaN where infinities of both signs are among them."""
    return sum(values) / len(values)


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


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
