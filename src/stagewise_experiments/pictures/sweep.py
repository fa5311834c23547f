"""A line for each policy along an axis, with markers and intervals."""

from typing import TYPE_CHECKING

import numpy as np

from stagewise.report.style import style_of
from stagewise_experiments.experiment import Panel, Value
from stagewise_experiments.pictures.axes import (
    PAPER,
    at_chance,
    mark_missed,
    note_chance,
    note_nothing,
    only_point,
    panel_label,
    policy_label,
    scaled,
    vague,
    whisker,
)
from stagewise_experiments.pictures.paper import draw_mark, paper_mark
from stagewise_experiments.series import Series, value_text
from stagewise_experiments.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_APART = 0.005
"""Parts of the axis that policies stand apart, so that intervals do not hide each other."""


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """Other axes than `x` must be pinned by `where`; a mean that is infinite is a mark at the top."""
    if panel.x is None:
        raise AssertionError("a sweep has an axis")
    values = series.axis_values(panel.x, panel.where)
    points = [only_point(series, panel, {**panel.where, panel.x: value}) for value in values]
    places = _places(values)
    missed: list[tuple[float, str]] = []
    shown: list[Estimate | None] = []
    unlearned: list[str] = []
    marks: list[float] = []
    policies = [panel.policy] if panel.policy else series.policies
    for number, policy in reversed(list(enumerate(policies))):  # the first on top
        found = [
            None
            if at_chance(series, panel, policy, point)
            else series.estimate(panel.quantity, policy, point, panel.relative_to)
            for point in points
        ]
        unlearned += [policy for point in points if at_chance(series, panel, policy, point)]
        if not any(found):
            continue
        shown += found
        style = style_of(policy)
        mean = [e.mean if e and not e.missed else np.nan for e in found]
        spread = np.array(
            [
                (e.mean - e.low, e.high - e.mean) if e and whisker(e, panel.log) else (np.nan,) * 2
                for e in found
            ]
        ).T
        apart = _APART if np.nansum(spread) > 0 else 0.0
        beside = apart * (number - (len(policies) - 1) / 2) * (places[-1] - places[0])
        axes.errorbar(
            [place + beside for place in places], mean, yerr=spread if np.nansum(spread) > 0 else None,
            color=style.colour, ls=style.line, lw=style.width, marker=style.marker,
            ms=style.size, capsize=0, elinewidth=1.1,
            label=policy_label(series, policy),
        )  # fmt: skip
        for place, point, e in zip(places, points, found, strict=True):
            if e is not None and vague(e, panel.log):
                axes.plot(
                    [place + beside], [e.mean], marker=style.marker, ms=style.size, mfc=PAPER,
                    mec=style.colour, zorder=3,
                )  # fmt: skip
            mark = paper_mark(series, panel, policy, point)
            if mark is not None:
                draw_mark(axes, place + beside, *mark, policy)
                marks.append(mark[0])
        missed += [
            (place, policy) for place, e in zip(places, found, strict=True) if e and e.missed
        ]
    if not any(shown) and not unlearned:
        note_nothing(axes, panel)
        return
    axes.set_xticks(places, [value_text(value) for value in values])
    axes.set(xlabel=series.axis(panel.x).label, ylabel=panel_label(panel))
    scaled(axes, panel, shown, marks)
    note_chance(axes, series, unlearned, everyone=not any(shown))
    mark_missed(axes, missed)
    axes.grid(alpha=0.3)


def _places(values: list[Value]) -> list[float]:
    """Numbers where they are, unless they are so uneven that labels would meet; else evenly."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if len(numbers) == len(values) and len(values) > 1:
        steps = np.abs(np.diff(numbers))
        if steps.min() >= abs(numbers[-1] - numbers[0]) / 14 and steps.min() > 0:
            return numbers
    return [float(place) for place in range(len(values))]
