"""The pictures, each drawn on axes that are given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from stagewise.randomness import generator
from stagewise.report.style import FAINT, PALE, WARNING, colour, edge_colour, labels, line_styles
from stagewise.runs.run import Run
from stagewise.world.scenario import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES = 8
"""With more edges than this, lines would hide each other: their range is drawn instead."""


def accuracy_by_round(runs: Sequence[Run], axes: "Axes") -> None:
    """Test accuracy after each round."""
    _accuracy(runs, axes, [_rounds(run) for run in runs])
    axes.set(xlabel="round", ylabel="test accuracy")
    axes.set_xlim(0.5, max([1, *(len(run.records) for run in runs)]) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def accuracy_by_cost(runs: Sequence[Run], axes: "Axes") -> None:
    """Test accuracy against all that was spent on delay and energy up to then."""
    _accuracy(runs, axes, [np.cumsum([r.objective for r in run.records]) for run in runs])
    axes.set(xlabel="cumulative cost (weighted seconds and joules)", ylabel="test accuracy")
    axes.set_xlim(left=0)


def mean_bars(runs: Sequence[Run], axes: "Axes", field: str, unit: str) -> None:
    """The mean of one figure over the rounds of each run, and how far single rounds are from it."""
    furthest = 0.0
    for number, run in enumerate(runs):
        values = np.array([getattr(record, field) for record in run.records])
        if not len(values):
            continue
        mean, low, high = values.mean(), np.quantile(values, 0.05), np.quantile(values, 0.95)
        spread = np.maximum([[mean - low], [high - mean]], 0)
        axes.barh(number, mean, color=colour(run), height=0.62, alpha=0.85)
        axes.errorbar(mean, number, xerr=spread, color="#333333", lw=1.1)
        axes.annotate(
            f"{mean:.3g}",
            (max(mean, high), number),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
        furthest = max(furthest, mean, high)
    _one_row_each(runs, axes)
    axes.set(xlabel=f"{unit} a round", xlim=(0, 1.28 * furthest or 1))


def decision_times(runs: Sequence[Run], axes: "Axes") -> None:
    """How long every decision took, their median, and how long plans took, on a log axis."""
    for number, run in enumerate(runs):
        times = np.array([record.decision_ms for record in run.records])
        if len(times):
            # Points side by side, so that equal times can be told from one.
            up = generator(0, "jitter").uniform(-0.22, 0.22, len(times))
            axes.scatter(
                times,
                number + up,
                s=12,
                color=colour(run),
                alpha=0.6,
                lw=0,
                label="a decision",
            )
            axes.plot(
                [np.median(times)] * 2,
                [number - 0.36, number + 0.36],
                color="black",
                lw=1.6,
                label="median",
            )
        if len(run.plan_ms):
            axes.scatter(
                run.plan_ms,
                [number] * len(run.plan_ms),
                s=46,
                marker="D",
                facecolors="none",
                edgecolors="black",
                label="a plan (Plan A)",
            )
    _one_row_each(runs, axes)
    axes.set(xscale="log", xlabel="time (ms)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def kld_by_round(run: Run, axes: "Axes", number: int = 0) -> None:
    """The divergence of each edge's labels from the target, and the limit on it.

    `number` is the place of the panel among those that share its axes.
    """
    rounds, edges = _rounds(run), run.scenario.edges.ids
    kld = np.array(
        [[np.nan if e.kld is None else e.kld for e in d.edges] for d in run.decisions]
    ).reshape(-1, len(edges))
    if len(edges) <= MAX_LINES:
        for edge, name in enumerate(edges):
            axes.plot(
                rounds, kld[:, edge], color=edge_colour(edge), marker=".", ms=5, lw=1.1, label=name
            )
    else:
        known = [row[np.isfinite(row)] if np.isfinite(row).any() else np.zeros(1) for row in kld]
        low, middle, high = np.array([np.quantile(row, (0, 0.5, 1)) for row in known]).T
        axes.fill_between(rounds, low, high, color=PALE, lw=0, label=f"range of {len(edges)} edges")
        axes.plot(rounds, middle, color=colour(run), label="median edge")
    limit = run.scenario.limits.kld_max
    axes.axhline(limit, color=WARNING, ls="--", lw=1.2, label=f"limit {limit:g}")
    highest = max([limit, *kld[np.isfinite(kld)]])
    axes.set(xlabel="round", ylabel="KLD (nats)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _reach(axes, number, (0.5, len(run.records) + 0.5), (0, 1.08 * highest))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def service_counts(run: Run, axes: "Axes", number: int = 0) -> None:
    """In how many rounds each client trained, the busiest first, beside how often it was online.

    `number` is the place of the panel among those that share its axes.
    """
    served, online = times_served(run), times_online(run)
    order = np.lexsort((-online, -served))
    place = np.arange(len(order) + 1)
    axes.stairs(online[order], place, fill=True, color=PALE, label="online")
    axes.stairs(served[order], place, fill=True, color=colour(run), label="trained")
    never = int((served == 0).sum())
    axes.set_title(f"{never} of {len(served)} clients never trained")
    axes.set(xlabel="clients, busiest first", ylabel="rounds")
    _reach(axes, number, (0, len(served)), (0, len(run.records)))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def times_served(run: Run) -> IntArray:
    """How many rounds each client trained in."""
    counts = np.zeros(len(run.scenario.clients), dtype=np.int64)
    for decision in run.decisions:
        counts[[run.scenario.clients.index[name] for name in decision.assignment]] += 1
    return counts


def times_online(run: Run) -> IntArray:
    """How many of the rounds that took place each client was online in."""
    counts = np.zeros(len(run.scenario.clients), dtype=np.int64)
    for round_ in run.online[: len(run.records)]:
        counts += round_.online
    return counts


def _accuracy(runs: Sequence[Run], axes: "Axes", across: Sequence[FloatArray]) -> None:
    for run, name, stroke, x in zip(runs, labels(runs), line_styles(runs), across, strict=True):
        y = np.array([np.nan if r.accuracy is None else r.accuracy for r in run.records])
        known = ~np.isnan(y)
        axes.plot(
            np.asarray(x)[known],
            y[known],
            color=colour(run),
            ls=stroke,
            marker="." if known.sum() <= 60 else None,
            label=name,
        )
    targets = {run.config.stop_at_accuracy for run in runs} - {None}
    for target in sorted(t for t in targets if t is not None):
        axes.axhline(target, color=FAINT, ls="--", lw=1, label=f"to stop at, {target:g}")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=9)


def _rounds(run: Run) -> FloatArray:
    """The numbers of the rounds as people count them in pictures: from 1."""
    return np.arange(1, len(run.records) + 1, dtype=np.float64)


def _reach(axes: "Axes", number: int, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Limits of panels that share their axes: wide enough for this one and for those before it."""
    right, top = (axes.get_xlim()[1], axes.get_ylim()[1]) if number else (0.0, 0.0)
    axes.set_xlim(x[0], max(x[1], right))
    axes.set_ylim(y[0], max(y[1], top))


def _one_row_each(runs: Sequence[Run], axes: "Axes") -> None:
    axes.set_yticks(range(len(runs)), labels(runs))
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)
