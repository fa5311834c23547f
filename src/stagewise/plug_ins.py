"""Things by name: our own, and those that installed packages declare as entry points."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from stagewise.errors import StagewiseError, one_line, shown


def names_in(ours: Iterable[str], group: str) -> list[str]:
    """Our own names first, then those that other packages declare in `group`."""
    known = list(ours)
    return [*known, *sorted({point.name for point in entry_points(group=group)} - set(known))]


def load_named(kind: str, name: str, ours: Mapping[str, str], group: str) -> Any:
    """What `name` stands for, None where nothing does; `ours` says `module:attribute` of each.

    `kind` is what an error calls it.
    """
    if name in ours:
        module, _, attribute = ours[name].partition(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=group):
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise StagewiseError(
                    f"{kind} {shown(name)}: its package cannot be loaded: {reason}"
                ) from error
    return None
