"""The pictures of a report, by name, and as files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

from stagewise.report import figures
from stagewise.report.rendering import FORMATS, STYLE, rendered, write_files
from stagewise.report.round_map import has_map, round_map
from stagewise.report.style import labels
from stagewise.runs.run import Run
from stagewise.world.checks import one_of, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 8.0


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture with what a reader should know about it."""

    name: str
    title: str
    caption: str
    figure: Figure


def draw_pictures(runs: Sequence[Run], map_round: int | None = None) -> Iterator[Picture]:
    """Every picture there is something to show in; `map_round` is counted from 1, as in pictures."""
    round_index = None if map_round is None else whole("round", map_round, 1) - 1
    runs = [run for run in runs if run.records]
    if not runs:
        return
    with rc_context(STYLE):
        yield Picture(
            "accuracy-by-round",
            "Accuracy by round",
            "On the test set, after each round.",
            _single(lambda axes: figures.accuracy_by_round(runs, axes), 4.0),
        )
        yield Picture(
            "accuracy-by-cost",
            "Accuracy by cumulative cost",
            "Further left is cheaper: the same accuracy for less delay and energy.",
            _single(lambda axes: figures.accuracy_by_cost(runs, axes), 4.0),
        )
        yield Picture(
            "costs",
            "Delay, energy and cost of a round",
            "Means over rounds; the whiskers span nine rounds out of ten.",
            _bars(runs),
        )
        yield Picture(
            "decision-time",
            "Time to decide",
            "Each dot is one decision. Plans are made before training or beside it.",
            _decision_times(runs),
        )
        yield Picture(
            "kld",
            "Balance of the edges' data",
            "The divergence of each edge's labels from the target distribution, by round.",
            _panels(runs, figures.kld_by_round, 2.3),
        )
        yield Picture(
            "service",
            "Who trained how often",
            "Each client is one step; grey is how often it was online.",
            _panels(runs, figures.service_counts, 2.2),
        )
        mapped = [run for run in runs if has_map(run)]
        if mapped:
            yield Picture(
                "map",
                "Who trained where",
                "A client has the colour of the edge it trained at.",
                _maps(mapped, round_index),
            )


def save_pictures(
    runs: Sequence[Run], folder: str | Path, kind: str = "png", map_round: int | None = None
) -> list[Path]:
    """Write every picture into `folder` as a file of its own; returns their paths."""
    one_of("format", kind, FORMATS)
    pictures = draw_pictures(runs, map_round)
    files = {f"{picture.name}.{kind}": rendered(picture.figure, kind) for picture in pictures}
    return write_files(folder, files)


def _single(draw: "Callable[[Axes], object]", height: float) -> Figure:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    draw(figure.subplots())
    return figure


def _decision_times(runs: Sequence[Run]) -> Figure:
    figure = _single(lambda axes: figures.decision_times(runs, axes), 1.3 + 0.45 * len(runs))
    _legend_below(figure)
    return figure


def _bars(runs: Sequence[Run]) -> Figure:
    figure = Figure(figsize=(_WIDTH, 1.1 + 0.45 * len(runs)), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    fields = (("delay_s", "delay (s)"), ("energy_j", "energy (J)"), ("objective", "cost"))
    for axes, (field, unit) in zip(panels, fields, strict=True):
        figures.mean_bars(runs, axes, field, unit)
    return figure


def _panels(runs: Sequence[Run], draw: "Callable[[Run, Axes, int], None]", height: float) -> Figure:
    """One row for each run, on the same scale."""
    figure = Figure(figsize=(_WIDTH, 0.2 + height * len(runs)), layout="constrained")
    rows = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for number, (axes, run, name) in enumerate(zip(rows, runs, labels(runs), strict=True)):
        draw(run, axes, number)
        _name(axes, name)
        axes.label_outer()
    return figure


def _maps(runs: Sequence[Run], round_index: int | None) -> Figure:
    """Two maps to a row, and one legend for all."""
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(
        figsize=(_WIDTH, 0.5 + rows * (6.6 if columns == 1 else 4.6)), layout="constrained"
    )
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, run, name in zip(panels, runs, labels(runs), strict=False):
        round_map(run, axes, round_index)
        _name(axes, name)
    for empty in panels[len(runs) :]:
        empty.set_axis_off()
    _legend_below(figure)
    return figure


def _legend_below(figure: Figure) -> None:
    handles, names = figure.axes[0].get_legend_handles_labels()
    once = {name: names.index(name) for name in names}
    first = [handles[place] for place in once.values()]
    figure.legend(first, list(once), loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def _name(axes: "Axes", name: str) -> None:
    """Put the run's name before what the panel says of itself."""
    title = axes.get_title()
    axes.set_title("")
    axes.set_title(f"{name}: {title}" if title else name, fontsize=10, loc="left")
