"""What panels of several forms share: labels, scales, and the mark of a target not reached."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, ScalarFormatter

from stagewise.errors import StagewiseError, shown
from stagewise.report.style import FAINT, style_of
from stagewise_experiments.experiment import Panel, Point
from stagewise_experiments.names import CLASSES, policy_name
from stagewise_experiments.quantities import quantity
from stagewise_experiments.series import Series
from stagewise_experiments.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

NOT_REACHED = "not reached"
INK, PAPER = "#000000", "#ffffff"
GREY = "#555555"
LOWEST_PART = 20.0
"""On a log axis, an interval that begins below the mean over this would take up all of the axis."""
CHANCE = 1.5
"""An accuracy below so many times that of guessing says nothing."""


def only_point(series: Series, panel: Panel, at: Point) -> Point:
    """The one point that a mark stands for."""
    points = series.points_at(at)
    if len(points) != 1:
        raise StagewiseError(
            f"{series.experiment.id}: panel {shown(panel.title)}: where = {panel.where}: must leave "
            f"one point for each mark, but {at} leaves {len(points)}"
        )
    return points[0]


def whisker(found: Estimate | None, log: bool = False) -> tuple[float, float] | None:
    """The ends of the interval to draw; None where there is none to see, or it is `vague`."""
    if found is None or found.missed or not found.half_width or vague(found, log):
        return None
    return found.low, found.high


def vague(found: Estimate | None, log: bool = False) -> bool:
    """Whether the interval is wider than its mean: drawn, it would press all others together.

    Two seeds often have such intervals. Their means are hollow marks instead.
    """
    if found is None or found.missed or not found.half_width:
        return False
    below = found.low * LOWEST_PART < found.mean if log else False
    return below or found.half_width > abs(found.mean)


def extent(found: Iterable[Estimate | None], log: bool, others: Iterable[float]) -> list[float]:
    """All that an axis must hold: means, ends of whiskers, and `others`."""
    shown = [e for e in found if e is not None and not e.missed]
    ends = [end for e in shown for end in (whisker(e, log) or ())]
    values = [*(e.mean for e in shown), *ends, *others]
    return [value for value in values if value > 0] if log else values


def at_chance(series: Series, panel: Panel, policy: str, point: Point) -> bool:
    """Whether the panel is of accuracies and this one is hardly above guessing."""
    if panel.quantity not in ("accuracy", "final_accuracy"):
        return False
    found = series.estimate("final_accuracy", policy, point)
    return found is not None and found.mean < CHANCE * chance_level(series)


def chance_level(series: Series) -> float:
    """The accuracy of guessing; 0 where it is not known."""
    names = {cell.setting.dataset for cell in series.result.cells}
    return min((1 / CLASSES[name] if name in CLASSES else 0.0 for name in names), default=0.0)


def note_chance(axes: "Axes", series: Series, policies: Iterable[str], everyone: bool) -> None:
    """Say who is not drawn because nothing was learned."""
    names = list(dict.fromkeys(policy_name(policy) for policy in policies))
    if not names:
        return
    if everyone:
        axes.set_axis_off()
    level = f"at chance level ({100 * chance_level(series):.3g}%)"
    text = f"No method is above {level.removeprefix('at ')} yet" if everyone else (
        f"Not drawn, {level}: {', '.join(names)}"
    )  # fmt: skip
    axes.text(
        0.5, 0.5 if everyone else 0.02, text, transform=axes.transAxes, ha="center",
        va="center" if everyone else "bottom", fontsize=8.5, color=GREY, wrap=True,
    )  # fmt: skip


def note_nothing(axes: "Axes", panel: Panel) -> None:
    """In place of an empty plot, why it is empty."""
    axes.set_axis_off()
    axes.text(
        0.5, 0.5, f"nothing to draw:\n{quantity(panel.quantity).absent}", transform=axes.transAxes,
        ha="center", va="center", fontsize=9, color=GREY,
    )  # fmt: skip


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


def scaled(
    axes: "Axes", panel: Panel, found: Sequence[Estimate | None], others: Iterable[float] = ()
) -> None:
    """The value axis of a vertical panel, wide enough for all that is drawn on it."""
    if panel.log:
        axes.set_yscale("log")
    number_axis(axes.yaxis, panel)
    values = extent(found, panel.log, others)
    if not values:
        return
    low, high = min(values), max(values)
    if panel.log:
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        room = 0.06 * ((high - low) or abs(high) or 1.0)
        axes.set_ylim(low - room, high + room)


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
            marker=style.marker, ms=10 if style.marker == "*" else 6.5, mfc=PAPER, mec=style.colour,
            mew=1.4,
        )  # fmt: skip
    axes.axhline(high, color=FAINT, lw=0.8)
