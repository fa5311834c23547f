"""The page and what it is made of: our own files, and plotly.js out of its wheel."""

from functools import cache
from importlib.resources import files

import msgspec
from fastapi import APIRouter, Response

from stagewise.report.style import EDGE_COLOURS, METHODS, style_of
from stagewise.serve.refusals import Unknown

page_router = APIRouter(include_in_schema=False)

_KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PLOTLY = "plotly.min.js"
_COLOURS = "colours.js"


@page_router.get("/")
def page() -> Response:
    """The page itself."""
    return _answer("index.html")


@page_router.get("/page/{name}")
def page_file(name: str) -> Response:
    """A script, a style or a picture of the page."""
    return _answer(name)


def _answer(name: str) -> Response:
    cached = "max-age=86400" if name == _PLOTLY else "no-cache"
    media = f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8" if name in _names() else ""
    if not media:
        raise Unknown(f"page: there is no file {name[:80]!r}")
    return Response(_content(name), media_type=media, headers={"Cache-Control": cached})


@cache
def _names() -> frozenset[str]:
    ours = {item.name for item in files("stagewise.serve").joinpath("page").iterdir()}
    return frozenset(
        {name for name in ours if name.rpartition(".")[2] in _KINDS} | {_PLOTLY, _COLOURS}
    )


@cache
def _content(name: str) -> bytes:
    if name == _PLOTLY:
        return files("plotly").joinpath("package_data", _PLOTLY).read_bytes()
    if name == _COLOURS:
        return _colours()
    return files("stagewise.serve").joinpath("page", name).read_bytes()


def _colours() -> bytes:
    """The colours of reports and experiments, as a script."""
    methods = {name: style.colour for name, style in METHODS.items()}
    told = {"EDGES": EDGE_COLOURS, "METHODS": methods, "OTHER": style_of("").colour}
    return b"".join(
        b"export const %s = %s;\n" % (name.encode(), msgspec.json.encode(value))
        for name, value in told.items()
    )
