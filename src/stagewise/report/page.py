"""The report: one HTML page with everything in it, which needs no network."""

from collections.abc import Sequence
from pathlib import Path

from stagewise import __version__
from stagewise.files import write_bytes
from stagewise.report.html import environment, inline_svg
from stagewise.report.pictures import draw_pictures
from stagewise.report.rendering import rendered
from stagewise.report.style import colour, labels
from stagewise.report.summary import sentence, summary
from stagewise.runs.config import to_toml
from stagewise.runs.run import Run


def save_page(runs: Sequence[Run], path: str | Path, map_round: int | None = None) -> None:
    """Write the report of `runs`; `map_round` is the round on the map, from 1."""
    write_bytes(path, page(runs, map_round).encode())


def page(runs: Sequence[Run], map_round: int | None = None) -> str:
    """The page as HTML; the same runs give the same page."""
    headings, rows = summary(runs)
    names = labels(runs)
    return environment().get_template("runs.html").render(
        title=f"{', '.join(names)} - Stagewise",
        version=__version__,
        sentence=sentence(runs),
        datasets=sorted({run.config.dataset for run in runs}),
        headings=headings,
        rows=rows,
        colours=[colour(run) for run in runs],
        pictures=[
            (p, inline_svg(rendered(p.figure, "svg"), p.name, p.title))
            for p in draw_pictures(runs, map_round)
        ],
        configurations=[(name, to_toml(run.config)) for name, run in zip(names, runs, strict=True)],
    )  # fmt: skip
