"""Accuracy by round: a line for each policy, the mean over seeds with its band."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from stagewise.report.style import FAINT, LINES
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import Style, policy_name, style_of
from stagewise_experiments.pictures.axes import number_axis
from stagewise_experiments.quantities import quantity
from stagewise_experiments.series import Curve, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = 9
"""On a line, about; those of one policy stand beside those of the others."""


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """Lines end where the first of the seeds' runs ended; thin lines go on with the others."""
    policies = [panel.policy] if panel.policy else series.policies
    points = series.points_at(panel.where)
    last, heights = 1, []
    for order, policy in reversed(list(enumerate(policies))):  # the first on top
        for number, point in enumerate(points):
            curve = series.curve(policy, point)
            if curve is not None:
                several = len(points) > 1
                stroke = LINES[number % len(LINES)] if several else style_of(policy).line
                label = _label(series, policy, point)
                _line(axes, curve, style_of(policy), stroke, label, order / len(policies))
                heights += curve.mean + [value for rest in curve.rests for value in rest[1]]
                last = max([last, *curve.rounds, *(rest[0][-1] for rest in curve.rests)])
    for target in sorted({_target(series, point) for point in points} - {0.0}):
        heights.append(target)
        axes.axhline(target, color=FAINT, ls="--", lw=1, zorder=0)
        axes.annotate(
            f"target {100 * target:g}%",
            (0.005, target),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=8,
            color="#666666",
        )
    axes.set(xlabel="round", ylabel=panel.label or quantity(panel.quantity).label)
    if heights:
        room = 0.08 * (max(heights) - min(heights)) + 0.01
        axes.set_ylim(max(min(heights) - room, 0), min(max(heights) + room, 1.01))
    number_axis(axes.yaxis, panel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(1 - 0.02 * last, last * 1.02)
    axes.grid(alpha=0.3)


def _line(axes: "Axes", curve: Curve, style: Style, stroke: str, label: str, shift: float) -> None:
    rounds, mean = np.array(curve.rounds), np.array(curve.mean)
    every = max(1, round(len(rounds) / MARKERS))
    spread = np.array([width or 0.0 for width in curve.half_width])
    if spread.any():
        axes.fill_between(
            rounds, mean - spread, mean + spread, color=style.colour, alpha=0.13, lw=0
        )
    axes.plot(
        rounds,
        mean,
        color=style.colour,
        ls=stroke,
        lw=style.width,
        marker=style.marker,
        ms=style.size,
        markevery=(int(shift * every), every),
        label=label,
    )
    for numbers, values in curve.rests:
        axes.plot(numbers, values, color=style.colour, lw=0.8, alpha=0.5)


def _label(series: Series, policy: str, point: Point) -> str:
    place = series.place_text(point)
    return f"{policy_name(policy)}, {place}" if place else policy_name(policy)


def _target(series: Series, point: Point) -> float:
    cells = (c for c in series.result.cells if c.point == point)
    return next((c.setting.target_accuracy or 0.0 for c in cells), 0.0)
