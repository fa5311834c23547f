"""The templates of pages: those of a package, and the layout that all pages share."""

import re
from functools import cache
from html import escape

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_SHARED = "stagewise.report"
_NEUTRAL = {
    "#000000": "ink",
    "#222222": "ink",
    "#333333": "ink",
    "#4d4d4d": "strong",
    "#444444": "strong",
    "#555555": "quiet",
    "#666666": "quiet",
    "#b0b0b0": "faint",
    "#cccccc": "faint",
    "#d9d9d9": "pale",
    "#ffffff": "paper",
}
"""Greys of pictures by what the page's style calls them: in the dark they are others."""


@cache
def environment(package: str = _SHARED) -> Environment:
    """The templates in the folder `templates` of `package`, and ours; values in them are escaped."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _SHARED))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def inline_svg(svg: bytes, name: str, title: str) -> Markup:
    """A picture as an element of the page, with ids of its own; what only a file needs is left out."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text, count=3)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for grey, meaning in _NEUTRAL.items():
        text = text.replace(f": {grey}", f": var(--{meaning})")
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))
