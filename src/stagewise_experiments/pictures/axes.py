"""What panels of several forms share: labels, scales, and the mark of a target not reached."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, ScalarFormatter

from stagewise.errors import StagewiseError, shown
from stagewise.report.style import FAINT
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import policy_name, style_of
from stagewise_experiments.quantities import quantity
from stagewise_experiments.series import Series
from stagewise_experiments.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

NOT_REACHED = "not reached"
WITHIN_REASON = 2.0
"""Intervals that reach further than so many times the means are cut off."""


def only_point(series: Series, panel: Panel, at: Point) -> Point:
    """The one point that a mark stands for."""
    points = series.points_at(at)
    if len(points) != 1:
        raise StagewiseError(
            f"{series.experiment.id}: panel {shown(panel.title)}: where = {panel.where}: must leave "
            f"one point for each mark, but {at} leaves {len(points)}"
        )
    return points[0]


def policy_label(series: Series, policy: str) -> str:
    """The name, with the share of rounds that keep the limits where costs are drawn and some do not."""
    name = policy_name(policy)
    if not any(quantity(panel.quantity).cost for panel in series.experiment.panels):
        return name
    share = series.feasible_share(policy, series.points)
    return name if share is None or share == 1 else f"{name} ({100 * share:.3g}% feasible)"


def panel_label(panel: Panel) -> str:
    """The value axis with its unit."""
    if panel.label:
        return panel.label
    plotted = quantity(panel.quantity)
    if panel.relative_to is not None:
        return f"{plotted.label}, parts of {policy_name(panel.relative_to)}'s"
    return plotted.label if plotted.share else plotted.title


def plain_number(value: float) -> str:
    """`1,000` and `0.5`, never a power of ten."""
    return f"{value:,g}" if value < 1e6 else f"{value:,.0f}"


def number_axis(axis: "XAxis | YAxis", panel: Panel) -> None:
    """Plain numbers, or percent for shares."""
    if panel.log:
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: _between_powers(axis, value)))
    elif quantity(panel.quantity).share and panel.relative_to is None:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))


def _between_powers(axis: "XAxis | YAxis", value: float) -> str:
    """2, 5, 20, 50 where the axis spans few powers of ten; else nothing."""
    low, high = axis.get_view_interval()
    leading = f"{value:e}"[0]
    return plain_number(value) if high < 100 * low and leading in "25" else ""


def scaled(axes: "Axes", panel: Panel, found: Sequence[Estimate | None]) -> None:
    """The value axis of a vertical panel, wide enough for the means and for intervals within reason.

    Two seeds can have intervals many times their mean, which would press all lines together.
    """
    means = [e.mean for e in found if e is not None and not e.missed]
    if panel.log:
        axes.set_yscale("log")
    number_axis(axes.yaxis, panel)
    if not means:
        return
    low, high = min(means), max(means)
    lows = [e.low for e in found if e is not None and not e.missed]
    highs = [e.high for e in found if e is not None and not e.missed]
    if panel.log and low > 0:
        least = [value for value in lows if value > 0]
        bottom = max(min([low, *least]), low / WITHIN_REASON)
        axes.set_ylim(bottom / 1.3, min(max(highs), high * WITHIN_REASON) * 1.3)
    elif not panel.log:
        room = (high - low) or abs(high) or 1.0
        bottom, top = max(min(lows), low - room), min(max(highs), high + room)
        axes.set_ylim(bottom - 0.06 * (top - bottom or 1), top + 0.06 * (top - bottom or 1))


def mark_missed(axes: "Axes", missed: list[tuple[float, str]]) -> None:
    """A mark at the top for each place and policy whose target some seed never reached.

    Marks at one place stand below one another, so that each can be seen.
    """
    if not missed:
        return
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    formatter = axes.yaxis.get_major_formatter()
    if isinstance(formatter, ScalarFormatter):  # labels of their own have no power beside the axis
        formatter.set_useOffset(False)
        formatter.set_scientific(False)
    labels = formatter.format_ticks(ticks)
    largest = max(sum(place == other for other, _ in missed) for place, _ in missed)
    room = 0.07 * (largest + 1)
    if axes.get_yscale() == "log":
        smaller = [tick for tick in axes.get_yticks(minor=True) if low <= tick <= high]
        axes.yaxis.set_minor_locator(FixedLocator(smaller))
        top = high * (high / low) ** (room / (1 - room))
        middle = (high * top) ** 0.5
    else:
        top = high + (high - low) * room / (1 - room)
        middle = (high + top) / 2
    axes.set_ylim(low, top)
    axes.set_yticks([*ticks, middle], [*labels, "not always\nreached"])
    for number, (place, policy) in enumerate(missed):
        above = sum(other == place for other, _ in missed[:number])
        style = style_of(policy)
        axes.plot(
            [place], [0.95 - 0.07 * above], transform=axes.get_xaxis_transform(), ls="none",
            marker=style.marker, ms=10 if style.marker == "*" else 6.5, mfc="white", mec=style.colour,
            mew=1.4,
        )  # fmt: skip
    axes.axhline(high, color=FAINT, lw=0.8)
