"""Figures as files: the same figure gives the same bytes."""

import io
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from stagewise.errors import StagewiseError
from stagewise.files import write_bytes

FORMATS = ("png", "svg")
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.hashsalt": "stagewise",
}
_WITHOUT_DATE = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def rendered(figure: Figure, kind: str, style: Any = STYLE, dpi: int = 130) -> bytes:
    """The figure as a `png` or `svg` file."""
    stream = io.BytesIO()
    with rc_context(style):
        figure.savefig(stream, format=kind, dpi=dpi, metadata=_WITHOUT_DATE[kind])
    return stream.getvalue()


def write_files(folder: str | Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files by name into `folder`, which is made where it is missing; returns their paths."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StagewiseError(f"{folder}: cannot be written: {error.strerror}") from None
    for name, content in contents.items():
        write_bytes(Path(folder) / name, content)
    return [Path(folder) / name for name in contents]
