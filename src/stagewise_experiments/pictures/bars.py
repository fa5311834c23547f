"""A bar for each policy, with the paper's reference as a dashed line."""

import math
from typing import TYPE_CHECKING

from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import REFERENCE, style_of
from stagewise_experiments.pictures.axes import (
    NOT_REACHED,
    WITHIN_REASON,
    mark_missed,
    number_axis,
    only_point,
    panel_label,
    policy_label,
    scaled,
)
from stagewise_experiments.quantities import estimate_text, quantity, range_text, rounded
from stagewise_experiments.series import Series, value_text
from stagewise_experiments.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = "#333333"


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """Horizontal bars with names and values; standing groups of bars where there is an axis `x`."""
    if panel.x is not None and len(series.axis_values(panel.x, panel.where)) > 1:
        _groups(series, panel, panel.x, axes)
    else:
        _rows(series, panel, only_point(series, panel, panel.where), axes)


def _rows(series: Series, panel: Panel, point: Point, axes: "Axes") -> None:
    policies = series.policies
    found = {
        policy: series.estimate(panel.quantity, policy, point, panel.relative_to)
        for policy in policies
    }
    means = [e.mean for e in found.values() if e and not e.missed]
    ends = [e.high for e in found.values() if e and not e.missed]
    share = quantity(panel.quantity).share and panel.relative_to is None
    limit = 1.0 if share else WITHIN_REASON * max(means, default=1.0)
    furthest = min(max(ends, default=1.0), limit) or 1.0
    left = min([mean for mean in means if mean > 0], default=0.1) / 2 if panel.log else 0.0
    for row, policy in enumerate(policies):
        estimate = found.get(policy)
        if estimate is None:
            _write(axes, left, row, quantity(panel.quantity).absent)
        elif estimate.missed:
            axes.barh(
                row, furthest - left, left=left, height=0.66,
                color="none", edgecolor=style_of(policy).colour, hatch="///", lw=0.8, alpha=0.6,
            )  # fmt: skip
            _write(axes, furthest, row, _missed_text(estimate))
        else:
            _bar(axes, row, estimate, left, furthest, policy)
            told = estimate_text(estimate, quantity(panel.quantity).share)
            if panel.relative_to is not None:
                told = range_text(estimate, rounded)
            _write(axes, min(estimate.high, furthest), row, told)
    reference = found.get(REFERENCE)
    if reference is not None and not reference.missed:
        axes.axvline(reference.mean, color=style_of(REFERENCE).colour, ls="--", lw=1, zorder=0.5)
    axes.set_yticks(range(len(policies)), [policy_label(series, policy) for policy in policies])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(policies) - 0.45, -0.55)
    if panel.log:
        axes.set_xscale("log")
        room = (furthest / left) ** 0.46
        axes.set_xlim(left, furthest * room)
    else:
        axes.set_xlim(0, furthest * 1.48)
        if share:
            axes.set_xticks([tick for tick in axes.get_xticks() if tick <= 1])
    number_axis(axes.xaxis, panel)
    axes.set_xlabel(panel_label(panel))
    axes.grid(axis="x", alpha=0.3)


def _bar(
    axes: "Axes", row: int, estimate: Estimate, left: float, furthest: float, policy: str
) -> None:
    style = style_of(policy)
    ours = policy.startswith("pool")
    axes.barh(
        row, estimate.mean - left, left=left, height=0.66, color=style.colour,
        alpha=0.95 if ours else 0.7, edgecolor=_LINE if ours else "none", lw=1.2,
    )  # fmt: skip
    if estimate.half_width:
        low = max(0.0, estimate.mean - max(estimate.low, left))
        high = max(0.0, min(estimate.high, furthest) - estimate.mean)
        axes.errorbar(
            estimate.mean, row, xerr=[[low], [high]],
            color=_LINE, capsize=3, lw=1,
        )  # fmt: skip


def _groups(series: Series, panel: Panel, x: str, axes: "Axes") -> None:
    values, policies = series.axis_values(x, panel.where), series.policies
    width = 0.82 / len(policies)
    missed: list[tuple[float, str]] = []
    shown: list[Estimate | None] = []
    for number, policy in enumerate(policies):
        style = style_of(policy)
        labelled = False
        for group, value in enumerate(values):
            point = only_point(series, panel, {**panel.where, x: value})
            estimate = series.estimate(panel.quantity, policy, point, panel.relative_to)
            shown.append(estimate)
            if estimate is None:
                continue
            place = group + (number - (len(policies) - 1) / 2) * width
            if estimate.missed:
                missed.append((place, policy))
                continue
            axes.bar(
                place, estimate.mean, width=0.94 * width, color=style.colour, alpha=0.85,
                label=None if labelled else policy_label(series, policy),
            )  # fmt: skip
            labelled = True
            if estimate.half_width:
                low, high = estimate.mean - estimate.low, estimate.high - estimate.mean
                axes.errorbar(
                    place, estimate.mean, yerr=[[low], [high]], color=_LINE, capsize=2, lw=0.9
                )
    axes.set_xticks(range(len(values)), [value_text(value) for value in values])
    axes.set(xlabel=series.axis(x).label, ylabel=panel_label(panel))
    scaled(axes, panel, shown)
    if not panel.log:
        axes.set_ylim(bottom=0)
    mark_missed(axes, missed)
    axes.grid(axis="y", alpha=0.3)


def _missed_text(estimate: Estimate) -> str:
    if estimate.missed == estimate.count:
        return NOT_REACHED
    return f"{NOT_REACHED} in {estimate.missed} of {estimate.count}"


def _write(axes: "Axes", x: float, row: int, text: str) -> None:
    axes.annotate(
        text,
        (x if math.isfinite(x) else 0, row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8},
    )
