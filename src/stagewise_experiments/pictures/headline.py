"""The pictures that a page begins with: every method against the optimum, and what training costs."""

from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from stagewise.report.rendering import FORMATS, rendered
from stagewise.report.style import FAINT
from stagewise_experiments.headline import (
    cost_ratio,
    gap,
    gap_text,
    ratio,
    with_cost,
    with_optimum,
)
from stagewise_experiments.names import OURS, policy_name
from stagewise_experiments.pictures.axes import (
    GREY,
    NOT_REACHED,
    extent,
    plain_number,
    policy_label,
    whisker,
)
from stagewise_experiments.pictures.bars import dot, write
from stagewise_experiments.pictures.figure import DPI, PICTURE_STYLE
from stagewise_experiments.quantities import OPTIMUM, range_text, rounded
from stagewise_experiments.series import Series
from stagewise_experiments.table import Judged, run_text

_LINEAR = 0.1
"""Percent: nearer to the optimum the axis is linear, so that 0 is on it."""


def draw(series: Series, draw_panel: Callable[[Series, Axes], None]) -> Figure:
    """One of the two pictures."""
    with rc_context(PICTURE_STYLE):
        height = 1.3 + 0.29 * len(series.policies)
        figure = Figure(figsize=(6.6, height), layout="constrained")
        draw_panel(series, figure.subplots())
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def files(judged: Sequence[Judged], kinds: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """`headline-optimum` and `headline-cost`, those of them that there are results for."""
    panels = {"optimum": (with_optimum(judged), gaps), "cost": (with_cost(judged), costs)}
    drawn = {n: draw(series, panel) for n, (series, panel) in panels.items() if series is not None}
    return {
        f"headline-{name}.{kind}": rendered(figure, kind, PICTURE_STYLE, DPI)
        for name, figure in drawn.items()
        for kind in kinds
    }


def gaps(series: Series, axes: Axes) -> None:
    """Percent above the optimum; an axis that is linear near 0 and logarithmic from there on."""
    found = {
        policy: None if (known := gap(series, policy)) is None else known.mapped(lambda x: 100 * x)
        for policy in series.policies
    }
    ends = {policy: (e.low, e.high) for policy, e in found.items() if e is not None}
    right = max([1.0, *(high for _, high in ends.values())])
    for row, (policy, estimate) in enumerate(found.items()):
        known = gap(series, policy)
        if estimate is None or known is None:
            write(axes, 0, row, "never keeps every limit")
            continue
        dot(axes, row, estimate, policy, ends[policy])
        write(axes, ends[policy][1], row, gap_text(known), 8)
    axes.set_xscale("symlog", linthresh=_LINEAR, linscale=0.6)
    axes.axvline(0, color=FAINT, lw=1.2, zorder=0.5)
    axes.set_xlim(-0.3 * _LINEAR, right * (right / _LINEAR) ** 0.55)
    ticks = [0.0] + [10.0**p for p in range(-1, 6) if 10.0**p <= 1.2 * right]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{plain_number(value)}%"))
    names = [policy_name(policy) for policy in found]
    _frame(axes, names, "cost of a round above the certified optimum")
    _title(axes, "Every method against the certified optimum", series)


def costs(series: Series, axes: Axes) -> None:
    """What the others cost up to the target, in multiples of ours."""
    policies = [policy for policy in series.policies if policy != OPTIMUM]
    compared = {policy: cost_ratio(series, policy) for policy in policies}
    found = {policy: ratio(comparison) for policy, comparison in compared.items()}
    ends = extent(found.values(), True, [1.0])
    left, right = min(ends) / 1.15, max(ends)
    for row, (policy, estimate) in enumerate(found.items()):
        missed = compared[policy].missed[0]
        told = f"{NOT_REACHED} in {missed} of {compared[policy].runs} runs" if missed else ""
        if estimate is None or estimate.missed:
            write(axes, left, row, told or "no value")
            continue
        dot(axes, row, estimate, policy, whisker(estimate, log=True))
        text = "" if policy == OURS else range_text(estimate, rounded)
        end = max(whisker(estimate, log=True) or (estimate.mean,))
        write(axes, end, row, "; ".join(filter(None, (text, told))), 8)
    axes.set_xscale("log")
    axes.axvline(1, color=FAINT, lw=1.2, zorder=0.5)
    axes.set_xlim(left, right * (right / left) ** 0.7)
    ticks = [t for t in (0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 1000) if left <= t <= 1.1 * right]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    names = [policy_label(series, policy) for policy in policies]
    _frame(axes, names, f"cost to the target accuracy, {policy_name(OURS)} = 1")
    _title(axes, "Cost to the target accuracy", series)


def _frame(axes: Axes, names: list[str], label: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)


def _title(axes: Axes, title: str, series: Series) -> None:
    note = f"{series.experiment.id}: {run_text(series.result)}"
    axes.set_title(f"{title}\n", loc="left", fontweight="bold", fontsize=11.5)
    axes.annotate(
        note, (0, 1), xycoords="axes fraction", xytext=(0, 7), textcoords="offset points",
        fontsize=8, color=GREY,
    )  # fmt: skip
