"""Accuracy by round: a line for each policy, the mean over seeds with its band."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from stagewise.report.style import FAINT, LINES, Style, style_of
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import policy_name
from stagewise_experiments.pictures.axes import (
    GREY,
    at_chance,
    note_chance,
    note_nothing,
    number_axis,
)
from stagewise_experiments.quantities import quantity
from stagewise_experiments.series import Curve, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG_ENOUGH = 12
CLOSE = 0.3
"""Curves that end within this part of all they rose by are drawn again, larger."""
WIDE = 0.25
"""A band with a half wider than this would hide everything."""
MARKERS = 9
"""On a line, about; those of one policy stand beside those of the others."""


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """Lines end where the first of the seeds' runs ended; thin lines go on with the others."""
    policies = [panel.policy] if panel.policy else series.policies
    points = series.points_at(panel.where)
    last, heights, unlearned = 1, list[float](), list[str]()
    inset = _inset(series, policies, points, panel, axes)
    for order, policy in reversed(list(enumerate(policies))):  # the first on top
        for number, point in enumerate(points):
            curve = series.curve(policy, point)
            if at_chance(series, panel, policy, point):
                unlearned.append(policy)
            elif curve is not None:
                several = len(points) > 1
                stroke = LINES[number % len(LINES)] if several else style_of(policy).line
                label = _label(series, policy, point)
                _spread(axes, curve, style_of(policy))
                for place in (axes, inset) if inset else (axes,):
                    _line(place, curve, style_of(policy), stroke, label, order / len(policies))
                heights += [end for ends in _band(curve) for end in ends]
                heights += [value for rest in curve.rests for value in rest[1]]
                last = max([last, *curve.rounds, *(rest[0][-1] for rest in curve.rests)])
    if not heights and not unlearned:
        note_nothing(axes, panel)
    note_chance(axes, series, unlearned, everyone=not heights)
    if not heights:
        return
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
            color=GREY,
        )
    axes.set(xlabel="round", ylabel=panel.label or quantity(panel.quantity).label)
    room = 0.08 * (max(heights) - min(heights)) + 0.01
    axes.set_ylim(max(min(heights) - room, 0), min(max(heights) + room, 1.01))
    number_axis(axes.yaxis, panel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(1 - 0.02 * last, last * 1.02)
    axes.grid(alpha=0.3)


def _line(axes: "Axes", curve: Curve, style: Style, stroke: str, label: str, shift: float) -> None:
    rounds, mean = np.array(curve.rounds), np.array(curve.mean)
    every = max(1, round(len(rounds) / MARKERS))
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


def _spread(axes: "Axes", curve: Curve, style: Style) -> None:
    """The intervals, and the runs that went on when others had ended."""
    low, high = _band(curve)
    if low != high:
        axes.fill_between(curve.rounds, low, high, color=style.colour, alpha=0.13, lw=0)
    for numbers, values in curve.rests:
        axes.plot(numbers, values, color=style.colour, lw=0.8, alpha=0.5)


def _band(curve: Curve) -> tuple[list[float], list[float]]:
    """The ends of the intervals, which for a share are within 0 and 1."""
    spread = [width or 0.0 for width in curve.half_width]
    wide = any(
        width > WIDE for width in spread
    )  # two seeds can be so far apart that nothing is said
    pairs = [(m, 0.0 if wide else width) for m, width in zip(curve.mean, spread, strict=True)]
    return [max(m - w, 0.0) for m, w in pairs], [min(m + w, 1.0) for m, w in pairs]


def _inset(
    series: Series, policies: Sequence[str], points: list[Point], panel: Panel, axes: "Axes"
) -> "Axes | None":
    """The last rounds of curves that end close together, larger; None where they do not."""
    found = [
        curve
        for policy, point in product(policies, points)
        if not at_chance(series, panel, policy, point) and (curve := series.curve(policy, point))
    ]
    ends = [curve.mean[-1] for curve in found if len(curve.rounds) >= LONG_ENOUGH]
    if len(ends) < 3 or len({tuple(curve.rounds) for curve in found}) > 1:
        return None
    whole = max(ends) - min(min(curve.mean) for curve in found)
    if max(ends) - min(ends) > CLOSE * whole:
        return None
    last = found[0].rounds[-1]
    first = last - last // 4
    inset = axes.inset_axes((0.5, 0.1, 0.47, 0.48))
    shown = [m for c in found for n, m in zip(c.rounds, c.mean, strict=True) if n >= first]
    room = 0.05 * (max(shown) - min(shown)) or 0.01
    inset.set(xlim=(first - 0.3, last + 0.3), ylim=(min(shown) - room, max(shown) + room))
    inset.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    number_axis(inset.yaxis, panel)
    inset.tick_params(labelsize=7.5, length=2, pad=1.5)
    inset.grid(alpha=0.3)
    for side in inset.spines.values():
        side.set(visible=True, color=FAINT)
    return inset


def _label(series: Series, policy: str, point: Point) -> str:
    place = series.place_text(point)
    return f"{policy_name(policy)}, {place}" if place else policy_name(policy)


def _target(series: Series, point: Point) -> float:
    cells = (c for c in series.result.cells if c.point == point)
    return next((c.setting.target_accuracy or 0.0 for c in cells), 0.0)
