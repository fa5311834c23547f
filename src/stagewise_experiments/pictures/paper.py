"""The paper's numbers where they are printed: a mark beside ours."""

import math
from itertools import product
from typing import TYPE_CHECKING

from stagewise.report.style import style_of
from stagewise_experiments.experiment import Panel, PaperValue, Point
from stagewise_experiments.names import policy_name
from stagewise_experiments.pictures.axes import INK
from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import judge_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PRINTED = "the paper's number"


def paper_mark(series: Series, panel: Panel, policy: str, point: Point) -> tuple[float, str] | None:
    """Where the paper's number lies on the panel's axis, and what it is.

    An increase over another method is drawn from our value of that method. None where the paper prints
    nothing, or nothing that can be compared.
    """
    for printed in series.experiment.paper_values:
        if (printed.policy, printed.quantity) != (policy, panel.quantity):
            continue
        found = _place(series, panel, printed, point)
        if found is None or not math.isfinite(found[0]) or series.points_at(printed.at) != [point]:
            continue
        if not within_reach(found[0], _ours(series, panel), panel.log):
            continue
        if judge_value(series, printed).kind not in ("not comparable", "not run"):
            return found
    return None


def draw_mark(
    axes: "Axes", x: float, y: float, label: str, policy: str, upright: bool = False
) -> None:
    """A stroke across the value axis, in the colour of the method with a dark border."""
    marker, size = ("|", 15) if upright else ("_", 12)
    axes.plot(
        [x], [y], ls="none", marker=marker, ms=size + 2, mew=5, color=INK, zorder=4, label=label
    )
    colour = style_of(policy).colour
    axes.plot([x], [y], ls="none", marker=marker, ms=size, mew=2.4, color=colour, zorder=4)


def within_reach(mark: float, ours: list[float], log: bool) -> bool:
    """Whether the axis can hold the mark without pressing ours together."""
    room = 10.0 if log else 2.0
    return bool(ours) and min(ours) / room <= mark <= max(ours) * room


def _ours(series: Series, panel: Panel) -> list[float]:
    """All means of the panel."""
    found = [
        series.estimate(panel.quantity, policy, point, panel.relative_to)
        for policy, point in product(series.policies, series.points_at(panel.where))
    ]
    return [e.mean for e in found if e is not None and not e.missed]


def _place(
    series: Series, panel: Panel, printed: PaperValue, point: Point
) -> tuple[float, str] | None:
    if printed.minus is not None or printed.growth_from is not None:
        return None
    if printed.relative_to == panel.relative_to:
        return (printed.value + 1 if printed.relative_to else printed.value), _PRINTED
    if panel.relative_to is not None or printed.relative_to is None:
        return None
    other = series.estimate(panel.quantity, printed.relative_to, point)
    if other is None or other.missed:
        return None
    name = policy_name(printed.relative_to)
    return other.mean * (1 + printed.value), f"the paper's increase, over our {name}"
