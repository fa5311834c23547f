"""How far a piece of work is, told to whoever waits for it."""

from collections.abc import Callable

ProgressCallback = Callable[[float], None]
"""Called now and then with the share that is done, from 0 to 1; it must take no time."""


def ignore_progress(share: float) -> None:
    """Where nobody wants to know."""


def part_of(told: ProgressCallback, first: float, last: float) -> ProgressCallback:
    """For a part of the work, from one share of the whole to another."""
    return lambda share: told(first + share * (last - first))
