"""Coloured cells along two axes for one policy or along one for all, the paper's numbers below ours."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.patches import Rectangle

from stagewise.report.style import PALE
from stagewise.world.scenario import FloatArray
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import policy_name
from stagewise_experiments.pictures.axes import INK, NOT_REACHED, only_point
from stagewise_experiments.quantities import quantity
from stagewise_experiments.series import Series, value_text
from stagewise_experiments.statistics import Estimate
from stagewise_experiments.verdicts import printed_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = LinearSegmentedColormap.from_list("depth", ["#eef3f7", "#7fb2d6", "#1f5f8f"])
_DARK = 0.72
"""Above this part of the scale, white is easier to read than black."""


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """The mean of every cell; a target not reached is grey. Panels of one quantity share a scale."""
    columns, rows = series.axis_values(str(panel.x), panel.where), _rows(series, panel)
    found = _cells(series, panel)
    values = _means(found)
    others = [
        _means(_cells(series, other)).ravel()
        for other in series.experiment.panels
        if other.form == "matrix" and other.quantity == panel.quantity
        and other.relative_to == panel.relative_to
    ]  # fmt: skip
    ends = _range(np.concatenate([values.ravel(), *others]))
    scale = LogNorm(*ends) if panel.relative_to and ends[0] > 0 else Normalize(*ends)
    axes.imshow(values, cmap=_COLOURS, norm=scale, aspect="auto")
    for row, column in np.ndindex(values.shape):
        policy, at = rows[row]
        told = _paper(series, panel, policy, {**at, str(panel.x): columns[column]})
        text = "\n".join(filter(None, [_text(found[row][column], panel), told]))
        value = values[row, column]
        if np.isnan(value):
            axes.add_patch(
                Rectangle((column - 0.5, row - 0.5), 1, 1, fc=PALE, ec="white", hatch="////", lw=0)
            )
        deep = not np.isnan(value) and float(scale(value)) > _DARK
        axes.text(
            column, row, text, ha="center", va="center", fontsize=8.5, linespacing=1.3,
            color="white" if deep else INK,
        )  # fmt: skip
    axes.set_xticks(range(len(columns)), [value_text(value) for value in columns])
    axes.set_yticks(
        range(len(rows)),
        [value_text(at[panel.y]) if panel.y else policy_name(policy) for policy, at in rows],
    )
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", lw=1.5)
    axes.tick_params(which="both", length=0)
    axes.set(xlabel=series.axis(str(panel.x)).label)
    if panel.y:
        axes.set(ylabel=series.axis(panel.y).label)
    for side in axes.spines.values():
        side.set_visible(False)


def _rows(series: Series, panel: Panel) -> list[tuple[str, Point]]:
    """The policy of every row, and where on the axes it is: along y, or the policies themselves."""
    if panel.policy is None:
        return [(policy, panel.where) for policy in series.policies]
    values = series.axis_values(str(panel.y), panel.where)
    return [(panel.policy, {**panel.where, str(panel.y): value}) for value in values]


def _cells(series: Series, panel: Panel) -> list[list[Estimate | None]]:
    """What was found in each row and column."""
    return [
        [
            series.estimate(
                panel.quantity,
                policy,
                only_point(series, panel, {**at, str(panel.x): x}),
                panel.relative_to,
            )
            for x in series.axis_values(str(panel.x), panel.where)
        ]
        for policy, at in _rows(series, panel)
    ]


def _means(found: list[list[Estimate | None]]) -> FloatArray:
    return np.array([[np.nan if e is None or e.missed else e.mean for e in row] for row in found])


def _text(found: Estimate | None, panel: Panel) -> str:
    if found is None:
        return "–"
    if found.missed:
        counted = "" if found.count == found.missed else f"\n{found.missed} of {found.count}"
        return f"{NOT_REACHED}{counted}"
    return quantity(panel.quantity).text(found.mean)


def _paper(series: Series, panel: Panel, policy: str, at: Point) -> str:
    """What the paper prints at this place."""
    for printed in series.experiment.paper_values:
        same = printed.quantity == panel.quantity and printed.policy == policy
        plain = printed.relative_to == panel.relative_to and printed.minus is None
        if same and plain and not series.result.stand_ins and printed.at == at:
            return f"({printed_text(printed)})"
    return ""


def _range(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)
