"""The report: one HTML page with everything in it, which needs no network."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from stagewise import __version__
from stagewise.files import write_bytes
from stagewise.report.html import environment
from stagewise.report.pictures import Picture, draw_pictures
from stagewise.report.rendering import rendered
from stagewise.report.style import colour, labels
from stagewise.report.summary import summary
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
        datasets=sorted({run.config.dataset for run in runs}),
        headings=headings,
        rows=rows,
        colours=[colour(run) for run in runs],
        pictures=[(picture, _inline(picture)) for picture in draw_pictures(runs, map_round)],
        configurations=[(name, to_toml(run.config)) for name, run in zip(names, runs, strict=True)],
    )  # fmt: skip


def _inline(picture: Picture) -> Markup:
    """The picture as an element of the page: what only a file of its own needs is left out."""
    svg = rendered(picture.figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", svg, count=3)
    # Ids are those of this picture alone.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{picture.name}-", svg)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(picture.title)}"', 1))
