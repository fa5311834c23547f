"""A bar or a dot for each policy, with the paper's reference as a dashed line."""

import math
from typing import TYPE_CHECKING

from stagewise.report.style import FAINT, style_of
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import REFERENCE
from stagewise_experiments.pictures.axes import (
    INK,
    NOT_REACHED,
    PAPER,
    extent,
    mark_missed,
    note_nothing,
    number_axis,
    only_point,
    panel_label,
    policy_label,
    scaled,
    vague,
    whisker,
)
from stagewise_experiments.pictures.paper import draw_mark, paper_mark
from stagewise_experiments.quantities import estimate_text, quantity, range_text, rounded
from stagewise_experiments.series import Series, value_text
from stagewise_experiments.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEAR = 1.15
"""Values within so many times the least are drawn again, larger, where the axis reaches much further."""
FAR = 2.5


def draw(series: Series, panel: Panel, axes: "Axes") -> None:
    """Rows with names and values; standing groups where there is an axis `x`.

    Lengths mean something only from zero on: on a log axis there are dots in place of bars.
    """
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
    if not any(found.values()):
        note_nothing(axes, panel)
        return
    marks = {policy: paper_mark(series, panel, policy, point) for policy in policies}
    ends = extent(found.values(), panel.log, [mark[0] for mark in marks.values() if mark])
    furthest = max(ends, default=1.0) or 1.0
    left = min(ends, default=0.1) / 1.6 if panel.log else 0.0
    for row, policy in enumerate(policies):
        estimate, mark = found.get(policy), marks[policy]
        if estimate is None:
            write(axes, left, row, quantity(panel.quantity).absent)
        elif estimate.missed:
            if not panel.log:
                axes.barh(
                    row, furthest - left, left=left, height=0.66, color="none",
                    edgecolor=style_of(policy).colour, hatch="///", lw=0.8, alpha=0.6,
                )  # fmt: skip
            write(axes, left if panel.log else furthest, row, _missed_text(estimate))
        else:
            if panel.log:
                axes.plot([left, estimate.mean], [row, row], color=FAINT, lw=0.8, ls=":")
                dot(axes, row, estimate, policy, whisker(estimate, log=True))
            else:
                _bar(axes, row, estimate, policy)
            told = estimate_text(estimate, quantity(panel.quantity).share)
            if panel.relative_to is not None:
                told = range_text(estimate, rounded)
            end = max(whisker(estimate, panel.log) or (estimate.mean,))
            write(axes, max(end, mark[0] if mark else end), row, told, 8 if panel.log else 5)
        if mark:
            draw_mark(axes, mark[0], row, mark[1], policy, upright=True)
    reference = found.get(REFERENCE)
    if reference is not None and not reference.missed:
        axes.axvline(reference.mean, color=style_of(REFERENCE).colour, ls="--", lw=1, zorder=0.5)
    axes.set_yticks(range(len(policies)), [policy_label(series, policy) for policy in policies])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(policies) - 0.45, -0.55)
    if panel.log:
        axes.set_xscale("log")
        axes.set_xlim(left, furthest * (furthest / left) ** 0.46)
        axes.minorticks_off()
    else:
        axes.set_xlim(0, furthest * 1.48)
        if not quantity(panel.quantity).share:
            _inset(axes, list(found.items()), furthest)
    number_axis(axes.xaxis, panel)
    # Beyond the values there is room for text alone.
    axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= 1.1 * furthest])
    axes.set_xlabel(panel_label(panel))
    axes.grid(axis="x", alpha=0.3)


def dot(
    axes: "Axes",
    row: float,
    estimate: Estimate,
    policy: str,
    ends: tuple[float, float] | None,
) -> None:
    """The mean in a row with the ends of its interval, without caps; hollow where they are not drawn."""
    style, hollow = style_of(policy), ends is None and bool(estimate.half_width)
    if ends is not None:
        axes.plot(ends, [row, row], color=style.colour, lw=2.2, alpha=0.6, solid_capstyle="butt")
    axes.plot(
        [estimate.mean], [row], ls="none", marker=style.marker, ms=1.25 * style.size,
        color=style.colour, mfc=PAPER if hollow else style.colour, mew=1.4,
    )  # fmt: skip


def _bar(axes: "Axes", row: int, estimate: Estimate, policy: str) -> None:
    ours = policy.startswith("pool")
    axes.barh(
        row, estimate.mean, height=0.66, color=style_of(policy).colour,
        alpha=0.95 if ours else 0.7, edgecolor=INK if ours else "none", lw=1.2,
    )  # fmt: skip
    ends = whisker(estimate)
    if ends is not None:
        axes.plot(ends, [row, row], color=INK, lw=1.1, solid_capstyle="butt")


def _inset(axes: "Axes", found: list[tuple[str, Estimate | None]], furthest: float) -> None:
    """Rows that are close to the least, larger, beside their bars."""
    means = [e.mean for _, e in found if e is not None and not e.missed]
    least = min(means, default=0.0)
    near = [
        (row, policy, e)
        for row, (policy, e) in enumerate(found)
        if e is not None and not e.missed and e.mean <= NEAR * least
    ]
    rows = [row for row, _, _ in near]
    spread = len({e.mean for _, _, e in near})
    if least <= 0 or spread < 3 or furthest < FAR * least or rows[-1] - rows[0] >= len(rows):
        return
    height = len(found) + 0.1
    bottom = 1 - (rows[-1] + 1.0) / height
    inset = axes.inset_axes((0.6, bottom, 0.39, (len(rows) - 0.1) / height))
    for row, policy, e in near:
        dot(inset, row, e, policy, whisker(e))
    values = extent([e for _, _, e in near], False, [])
    room = 0.08 * (max(values) - min(values))
    inset.set_xlim(min(values) - room, max(values) + room)
    inset.set_ylim(rows[-1] + 0.45, rows[0] - 0.55)
    inset.set_yticks([])
    inset.locator_params(axis="x", nbins=3)
    inset.tick_params(axis="x", labelsize=7.5, length=2, pad=1.5)
    inset.grid(axis="x", alpha=0.3)
    for side in inset.spines.values():
        side.set(visible=True, color=FAINT)


def _groups(series: Series, panel: Panel, x: str, axes: "Axes") -> None:
    values, policies = series.axis_values(x, panel.where), series.policies
    width = 0.82 / len(policies)
    missed: list[tuple[float, str]] = []
    shown: list[Estimate | None] = []
    marks: list[float] = []
    for number, policy in enumerate(policies):
        style = style_of(policy)
        label: str | None = policy_label(series, policy)
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
            ends = whisker(estimate, panel.log)
            if panel.log:
                axes.plot(
                    [place], [estimate.mean], ls="none", marker=style.marker, ms=style.size,
                    color=style.colour, label=label,
                    mfc=PAPER if vague(estimate, True) else style.colour,
                )  # fmt: skip
            else:
                axes.bar(
                    place, estimate.mean, width=0.94 * width, color=style.colour, alpha=0.85,
                    label=label,
                )  # fmt: skip
            label = None
            if ends is not None:
                axes.plot([place, place], ends, color=INK, lw=0.9, solid_capstyle="butt")
            mark = paper_mark(series, panel, policy, point)
            if mark is not None:
                draw_mark(axes, place, *mark, policy)
                marks.append(mark[0])
    if not any(shown):
        note_nothing(axes, panel)
        return
    axes.set_xticks(range(len(values)), [value_text(value) for value in values])
    axes.set(xlabel=series.axis(x).label, ylabel=panel_label(panel))
    scaled(axes, panel, shown, marks)
    if not panel.log:
        axes.set_ylim(bottom=0)
    mark_missed(axes, missed)
    axes.grid(axis="y", alpha=0.3)


def _missed_text(estimate: Estimate) -> str:
    if estimate.missed == estimate.count:
        return NOT_REACHED
    return f"{NOT_REACHED} in {estimate.missed} of {estimate.count}"


def write(axes: "Axes", x: float, row: int, text: str, away: float = 5) -> None:
    """What a row says, to the right of `x`."""
    axes.annotate(
        text,
        (x if math.isfinite(x) else 0, row),
        xytext=(away, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        bbox={"facecolor": PAPER, "alpha": 0.8, "edgecolor": "none", "pad": 0.8},
    )
