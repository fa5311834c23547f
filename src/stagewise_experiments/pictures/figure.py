"""A result's picture: its panels, one legend for all, and what was run."""

from collections.abc import Sequence
from itertools import product
from textwrap import wrap
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from stagewise.report.rendering import FORMATS, STYLE, rendered
from stagewise_experiments.experiment import Panel
from stagewise_experiments.names import policy_name
from stagewise_experiments.pictures import bars, curves, matrix, sweep
from stagewise_experiments.pictures.axes import GREY, vague
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series
from stagewise_experiments.table import run_text

DPI = 160
_DRAW = {"curves": curves.draw, "bars": bars.draw, "sweep": sweep.draw, "matrix": matrix.draw}
PICTURE_STYLE: Any = STYLE | {"font.size": 9.5, "axes.titlesize": 10.5, "hatch.linewidth": 0.6}
_LEGEND_LINE = 0.22
_NOTE_LETTERS, _NOTE_LINE = 14.5, 0.16
"""Letters of the note to an inch, and the height of one more line of it."""
_HEADER = 0.62
"""Inches."""
_NARROW, _WIDE = 5, 10.4
"""Columns of a matrix that stands beside others, and inches of a picture of those with more."""


def draw(result: Result) -> Figure:
    """All panels of the experiment."""
    series = Series(result)
    panels = [panel for panel in result.experiment.panels if series.points_at(panel.where)]
    wide = any(_is_wide(panel, series) for panel in panels)
    columns = 1 if wide else _columns(panels)
    rows = -(-len(panels) // columns)
    width = _WIDE if wide else {1: 7.4, 2: 10.4, 3: 12.6}[columns]
    with rc_context(PICTURE_STYLE):
        figure = Figure()
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(places, panels, strict=False):
            _DRAW[panel.form](series, panel, axes)
            if len(panels) > 1 or panel.title != result.experiment.title:
                axes.set_title(series.renamed(panel.title), loc="left")
        for empty in places[len(panels) :]:
            empty.set_axis_off()
        if all(_horizontal(panel) for panel in panels):
            for number, axes in enumerate(places):  # names once a row
                axes.tick_params(labelleft=number % columns == 0)
        handles = _handles(figure, series)
        per_line = max(1, int(width / _legend_width(handles)))
        lines = -(-len(handles) // per_line)
        note = wrap(_note(series), int(_NOTE_LETTERS * width))
        header = _HEADER + _NOTE_LINE * (len(note) - 1)
        top = header + lines * _LEGEND_LINE + (0.08 if lines else 0)
        height = top + rows * _height(panels, series)
        figure.set_size_inches(width, height)
        figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - top / height))
        told = "\n".join(note)
        _header(figure, series.renamed(result.experiment.title), told, width, height)
        if handles:
            figure.legend(
                list(handles.values()), list(handles), loc="upper left", ncols=per_line,
                bbox_to_anchor=(0.06 / width, 1 - (header - 0.04) / height), frameon=False,
                borderaxespad=0, fontsize=9, columnspacing=1.6,
            )  # fmt: skip
        # Laid out once, not again for every format.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def picture_files(result: Result, kinds: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """`picture.png` and `picture.svg`, or those of them that are asked for."""
    figure = draw(result)
    return {f"picture.{kind}": rendered(figure, kind, PICTURE_STYLE, DPI) for kind in kinds}


def _is_wide(panel: Panel, series: Series) -> bool:
    """Whether it needs a row of its own: a matrix with words in many columns."""
    return panel.form == "matrix" and len(series.axis_values(str(panel.x), panel.where)) > _NARROW


def _columns(panels: list[Panel]) -> int:
    if len(panels) == 1:
        return 1
    return 3 if len(panels) in (3, 5, 6) or len(panels) > 6 else 2


def _height(panels: list[Panel], series: Series) -> float:
    """Of one row of panels."""
    if all(_horizontal(panel) for panel in panels):
        return 0.95 + 0.3 * len(series.policies)
    if any(panel.form == "matrix" for panel in panels):
        by_policy = 0.3 * len(series.policies)
        return 0.9 + max(
            0.52 * len(series.axis_values(panel.y)) if panel.y else by_policy
            for panel in panels
            if panel.form == "matrix"
        )
    return 4.2 if len(panels) == 1 else 3.5


def _horizontal(panel: Panel) -> bool:
    return panel.form == "bars" and panel.x is None


def _handles(figure: Figure, series: Series) -> dict[str, Artist]:
    """One for each policy that a panel labels, in the order of the policies; lines before bars."""
    found: dict[str, Artist] = {}
    for axes in sorted(figure.axes, key=lambda axes: bool(axes.patches)):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    order = [policy_name(policy) for policy in series.policies]

    def place(label: str) -> int:
        return next((n for n, name in enumerate(order) if label.startswith(name)), len(order))

    return {label: found[label] for label in sorted(found, key=place)}


def _legend_width(handles: dict[str, Artist]) -> float:
    """Inches that an entry needs."""
    return 0.62 + 0.073 * max((len(label) for label in handles), default=1)


def _note(series: Series) -> str:
    """What was run, and what the numbers are."""
    drawn = [panel for panel in series.experiment.panels if panel.form in ("bars", "sweep")]
    hollow = any(
        vague(series.estimate(panel.quantity, policy, point, panel.relative_to), panel.log)
        for panel in drawn
        for policy, point in product(series.policies, series.points_at(panel.where))
    )
    if any(panel.form != "matrix" for panel in series.experiment.panels):
        wide = "; hollow, or without a line: the interval is too wide to draw" if hollow else ""
        return run_text(series.result) + wide
    printed = bool(series.experiment.paper_values) and not series.result.stand_ins
    paper = "; in brackets, the paper's" if printed else ""
    return f"{run_text(series.result, intervals=False)}{paper}"


def _header(figure: Figure, title: str, note: str, width: float, height: float) -> None:
    left = 0.1 / width
    figure.text(left, 1 - 0.1 / height, title, fontsize=12, fontweight="bold", va="top")
    figure.text(left, 1 - 0.36 / height, note, fontsize=8.5, color=GREY, va="top")
