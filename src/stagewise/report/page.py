"""The report: one HTML page with everything in it, which needs no network."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from stagewise import __version__
from stagewise.files import write_bytes
from stagewise.report.pictures import Picture, draw_pictures, rendered
from stagewise.report.style import colour, labels
from stagewise.report.summary import summary
from stagewise.simulator.config import to_toml
from stagewise.simulator.run import Run

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 68rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 0.2rem; }
p.lead, figcaption { color: #555; margin: 0.2rem 0 0.6rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; margin-top: 1rem; }
td { white-space: nowrap; }
th, td { padding: 0.25rem 0.5rem; text-align: right;
         border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; vertical-align: bottom; }
.mark { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; }
details { margin: 0.3rem 0; } pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto;
          font-size: 0.8rem; }
"""


def save_page(runs: Sequence[Run], path: str | Path, map_round: int | None = None) -> None:
    """Write the report of `runs`; `map_round` is the round on the map, from 1."""
    write_bytes(path, page(runs, map_round).encode())


def page(runs: Sequence[Run], map_round: int | None = None) -> str:
    """The page as HTML; the same runs give the same page."""
    pictures = [_figure(picture) for picture in draw_pictures(runs, map_round)]
    if not pictures:
        pictures = ["<p>No round is complete yet.</p>"]
    configurations = [
        f"<details><summary>{escape(name)}</summary><pre>{escape(to_toml(run.config))}</pre></details>"
        for name, run in zip(labels(runs), runs, strict=True)
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(', '.join(labels(runs)))} - Stagewise</title>",
            f"<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{_heading(runs)}</h1>",
            f'<p class="lead">Hierarchical federated training, by Stagewise {__version__}.</p>',
            _table(runs),
            *pictures,
            "<h2>Configurations</h2>",
            *configurations,
            "</body>\n</html>\n",
        ]
    )


def _heading(runs: Sequence[Run]) -> str:
    datasets = sorted({run.config.dataset for run in runs})
    return f"{len(runs)} run{'s' if len(runs) > 1 else ''} on {escape(', '.join(datasets))}"


def _table(runs: Sequence[Run]) -> str:
    headings, lines = summary(runs)
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in headings[1:])
    rows = []
    for number, (name, *texts) in enumerate(lines):
        mark = f'<span class="mark" style="background:{colour(number)}"></span>'
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        rows.append(f"<tr><td>{mark}{escape(name)}</td>{cells}</tr>")
    table = f"<table>\n<tr><th>run</th>{heads}</tr>\n" + "\n".join(rows) + "\n</table>"
    return (
        f'<div class="scroll">{table}</div>\n<p class="lead">Delay, energy and clients are means '
        "over rounds; time is that of all rounds on this machine.</p>"
    )


def _figure(picture: Picture) -> str:
    return (
        f"<h2>{escape(picture.title)}</h2>\n<figure><figcaption>{escape(picture.caption)}"
        f"</figcaption>\n{_inline(picture)}\n</figure>"
    )


def _inline(picture: Picture) -> str:
    """The picture as an element of the page: what only a file of its own needs is left out."""
    svg = rendered(picture.figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", svg, count=3)
    # Ids are those of this picture alone.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{picture.name}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(picture.title)}"', 1)
