"""Headings, texts, tables and pictures, written as Markdown or as HTML.

Texts may hold `**bold**`, `[links](to)`, `code` and line breaks; everything else in them is literal.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    text: str
    quiet: bool = False
    """What a reader may skip."""


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """So many columns at the left are names, the others numbers."""
    folded: str = ""
    """Long tables open on this line."""


@dataclass(frozen=True)
class Image:
    path: str
    """From the document."""
    alt: str
    large: str = ""
    """Where a picture without pixels is."""


Block = Heading | Text | Bullets | Table | Image

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\[\]]+)\]\(([^()\s]+)\)")


def to_markdown(blocks: Iterable[Block]) -> str:
    """As GitHub shows it."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def to_html(blocks: Iterable[Block]) -> str:
    """The body of a page."""
    return "\n".join(_html(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level, anchor):
            mark = f'<a id="{anchor}"></a>\n\n' if anchor else ""
            return f"{mark}{'#' * level} {_plain(text)}"
        case Text(text, quiet):
            return f"<sub>{_plain(text)}</sub>" if quiet else _plain(text)
        case Bullets(items):
            return "\n".join(f"- {_plain(item)}" for item in items)
        case Table(head, rows, names, folded):
            rule = ["---" if column < names else "---:" for column in range(len(head))]
            lines = [_markdown_row(row) for row in (head, rule, *rows)]
            table = "\n".join(lines)
            if not folded:
                return table
            return f"<details><summary>{_plain(folded)}</summary>\n\n{table}\n\n</details>"
        case Image(path, alt, _):
            return f"![{_plain(alt)}]({path})"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    # A lone star or underscore at a word's edge would start emphasis.
    escaped = re.sub(r"(?<!\*)\*(?!\*)", r"\\*", escaped)
    return escaped.replace("\n", "<br>")


def _html(block: Block) -> str:
    match block:
        case Heading(text, level, anchor):
            name = f' id="{escape(anchor)}"' if anchor else ""
            return f"<h{level}{name}>{_inline(text)}</h{level}>"
        case Text(text, quiet):
            return f'<p class="quiet">{_inline(text)}</p>' if quiet else f"<p>{_inline(text)}</p>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>"
        case Table(head, rows, names, folded):
            lines = [_html_row(head, names, "th"), *(_html_row(row, names, "td") for row in rows)]
            body = "\n".join(lines)
            table = f'<div class="scroll"><table>\n{body}\n</table></div>'
            if not folded:
                return table
            return f"<details><summary>{_inline(folded)}</summary>\n{table}\n</details>"
        case Image(path, alt, large):
            picture = f'<img src="{escape(path)}" alt="{escape(alt)}" loading="lazy">'
            return f'<figure><a href="{escape(large or path)}">{picture}</a></figure>'


def _html_row(cells: Sequence[str], names: int, tag: str) -> str:
    texts = (
        f"<{tag}{' class=' + chr(34) + 'name' + chr(34) if column < names else ''}>"
        f"{_inline(cell)}</{tag}>"
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(texts)}</tr>"


def _inline(text: str) -> str:
    marked = _LINK.sub(r'<a href="\2">\1</a>', escape(text))
    marked = _CODE.sub(r"<code>\1</code>", _BOLD.sub(_bold, marked))
    return marked.replace("\n", "<br>")


def _bold(match: re.Match[str]) -> str:
    """Bold words have a class of their own, so that verdicts have colours."""
    kind = re.sub(r"[^a-z]+", "-", match[1].lower())
    return f'<b class="{kind}">{match[1]}</b>'
