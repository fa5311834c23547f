"""A result by policy, point and seed: values, paired comparisons, and their means."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stagewise_experiments.experiment import Axis, Experiment, Point, Value
from stagewise_experiments.names import dataset_name
from stagewise_experiments.quantities import OPTIMUM, accuracy_curve, quantity
from stagewise_experiments.results import CellResult, Result
from stagewise_experiments.statistics import Estimate, estimate, half_width

BySeed = dict[int, float]
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
class Pairs:
    """One policy compared with another, by seed: the mean over points."""

    by_seed: BySeed
    """inf where the policy missed the target and the other did not."""
    all: int
    """Pairs of runs, those included that say nothing since the other missed the target."""
    usable: int
    """Those in which the other reached it."""
    reached: int
    """Those in which both did."""
    ours_reached: int
    """Those in which the policy itself reached it."""


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
        measured = quantity(name)
        found: BySeed = {}
        for seed in self.result.seeds:
            cell = self._cells.get(_place(policy, point, seed))
            if cell is None or cell.outputs is None:
                continue
            if measured.against_optimum is None:
                value = measured.value(cell.outputs)
            else:
                best = self._cells.get(_place(OPTIMUM, point, seed))
                if best is None or best.outputs is None:
                    continue
                value = measured.against_optimum(cell.outputs, best.outputs)
            if value is not None:
                found[seed] = value
        return found

    def estimate(
        self, name: str, policy: str, point: Point, relative_to: str | None = None
    ) -> Estimate | None:
        """The mean over seeds; `relative_to` another policy: of each seed's ratio to it."""
        values = self.values(name, policy, point)
        if relative_to is not None:
            values = ratios(values, self.values(name, relative_to, point))
        return estimate(values.values())

    def against(
        self,
        name: str,
        policy: str,
        other: str,
        at: Point,
        pair: Callable[[BySeed, BySeed], BySeed],
    ) -> Pairs:
        """The `increases` or `differences` of two policies at every point that has the values `at`."""
        collected: list[BySeed] = []
        every = usable = ours_reached = 0
        for point in self.points_at(at):
            ours, theirs = self.values(name, policy, point), self.values(name, other, point)
            common = ours.keys() & theirs.keys()
            every += len(common)
            usable += sum(math.isfinite(theirs[seed]) for seed in common)
            ours_reached += sum(math.isfinite(ours[seed]) for seed in common)
            collected.append(pair(ours, theirs))
        found = [value for by_seed in collected for value in by_seed.values()]
        reached = sum(math.isfinite(value) for value in found)
        return Pairs(mean_by_seed(collected), every, usable, reached, ours_reached)

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
        together = [np.array([run[number] for run in runs]) for number in shared]
        last = shared[-1] if shared else 0
        rests = [
            {number: run[number] for number in sorted(run) if number >= last}
            for run in runs
            if max(run) > last
        ]
        return Curve(
            rounds=shared,
            mean=[float(values.mean()) for values in together],
            half_width=[half_width(values) for values in together],
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


def mean_by_seed(several: Iterable[BySeed]) -> BySeed:
    """Of each seed, over those of `several` that have it."""
    collected: dict[int, list[float]] = {}
    for by_seed in several:
        for seed, value in by_seed.items():
            collected.setdefault(seed, []).append(value)
    return {seed: sum(values) / len(values) for seed, values in collected.items()}


def ratios(values: BySeed, others: BySeed) -> BySeed:
    """Seed by seed. A seed in which the other missed the target says nothing and is left out."""
    return _paired(values, others, lambda value, other: value / other, lambda other: other != 0)


def increases(values: BySeed, others: BySeed) -> BySeed:
    """Seed by seed, as `ratios`: 0.1 is a tenth more than the other's."""
    return {seed: ratio - 1 for seed, ratio in ratios(values, others).items()}


def differences(values: BySeed, others: BySeed) -> BySeed:
    """Seed by seed, as `ratios`."""
    return _paired(values, others, lambda value, other: value - other, lambda _: True)


def value_text(value: Value) -> str:
    """An axis value as people write it."""
    if isinstance(value, str):
        return dataset_name(value)
    return f"{value:,g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _paired(
    values: BySeed,
    others: BySeed,
    pair: Callable[[float, float], float],
    usable: Callable[[float], bool],
) -> BySeed:
    return {
        seed: pair(value, others[seed])
        for seed, value in values.items()
        if seed in others and math.isfinite(others[seed]) and usable(others[seed])
    }


def _whole(name: str) -> str:
    return rf"(?<![\w-]){re.escape(name)}(?![\w-])"


def _names(name: str, text: str) -> bool:
    return re.search(_whole(name), text) is not None


def _place(policy: str, point: Point, seed: int) -> _Place:
    return policy, tuple(sorted(point.items())), seed


def _different(points: Iterable[Point]) -> list[Point]:
    return list({tuple(sorted(point.items())): point for point in points}.values())
