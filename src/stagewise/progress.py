"""How far a piece of work is, told to whoever waits for it."""

from collections.abc import Callable

ShareDone = Callable[[float], None]
"""Called now and then with the share that is done, from 0 to 1; it must take no time."""


def nobody_waits(share: float) -> None:
    """Where nobody wants to know."""


def part_of(told: ShareDone, first: float, last: float) -> ShareDone:
    """For a part of the work, from one share of the whole to another."""
    return lambda share: told(first + share * (last - first))
