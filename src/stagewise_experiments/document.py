"""Headings, texts, tables and pictures, written as Markdown or as HTML.

Texts may hold `**bold**`, `[links](to)`, `code` and line breaks; everything else in them is literal.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from jinja2 import Environment
from markupsafe import Markup, escape

from stagewise.report.html import environment


@dataclass(frozen=True)
class Heading:
    kind: ClassVar = "heading"
    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    kind: ClassVar = "text"
    text: str
    quiet: bool = False
    """What a reader may skip."""
    lead: bool = False
    """What a reader must not skip."""


@dataclass(frozen=True)
class Bullets:
    kind: ClassVar = "bullets"
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    kind: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """So many columns at the left are names, the others numbers."""
    folded: str = ""
    """Long tables open on this line."""
    style: str = ""
    """A class of the page's style."""


@dataclass(frozen=True)
class Image:
    kind: ClassVar = "image"
    path: str
    """From the document."""
    alt: str
    half: bool = False
    """Two of them stand side by side where there is room."""


@dataclass(frozen=True)
class Fold:
    """Blocks that open on a click."""

    kind: ClassVar = "fold"
    title: str
    blocks: "Sequence[Block]"
    anchor: str = ""
    aside: str = ""
    """Beside the title."""


Block = Heading | Text | Bullets | Table | Image | Fold


@dataclass(frozen=True)
class Section:
    """A part of a page that is shown in place of the others."""

    name: str
    """Of its anchor."""
    title: str
    blocks: Sequence[Block]
    links: Sequence[tuple[str, str]] = ()
    """Words and anchors of its bar."""


_BOLD = re.compile(r"\*\*(.+?)\*\*")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\[\]]+)\]\(([^()\s]+)\)")


def to_markdown(blocks: Iterable[Block]) -> str:
    """As GitHub shows it."""
    return _templates().get_template("document.md").render(blocks=list(blocks))


def to_html(
    title: str,
    top: Sequence[Block],
    sections: Sequence[Section],
    end: Sequence[Block],
    svgs: Mapping[str, Markup],
) -> str:
    """A page with everything in it: `svgs` are its pictures, by the path of their image."""
    return (
        _templates()
        .get_template("document.html")
        .render(title=title, top=top, sections=sections, end=end, svgs=svgs)
    )


def _templates() -> Environment:
    templates = environment(__package__)
    templates.filters |= {"markdown": _markdown, "html": _html}
    return templates


def _markdown(text: str) -> Markup:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    # A lone star or underscore at a word's edge would start emphasis.
    escaped = re.sub(r"(?<!\*)\*(?!\*)", r"\\*", escaped)
    return Markup(escaped.replace("\n", "<br>"))


def _html(text: str) -> Markup:
    marked = _LINK.sub(r'<a href="\2">\1</a>', str(escape(text)))
    marked = _CODE.sub(r"<code>\1</code>", _BOLD.sub(_bold, marked))
    return Markup(marked.replace("\n", "<br>"))


def _bold(match: re.Match[str]) -> str:
    """Bold words have a class of their own, so that verdicts have colours."""
    kind = re.sub(r"[^a-z]+", "-", match[1].lower()).strip("-")
    return f'<b class="{kind}">{match[1]}</b>'
