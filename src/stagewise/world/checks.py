"""Checks of single arguments; each error names the argument, its value and the rule."""

import math
import operator

from stagewise.errors import StagewiseError, shown


def whole(name: str, value: int, low: int, high: int | None = None) -> int:
    """`value` if it is a whole number of at least `low` and, where given, at most `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise StagewiseError(f"{name} = {shown(value)}: must be a whole number") from None
    if number < low or (high is not None and number > high):
        rule = f"at least {low}" + ("" if high is None else f" and at most {high}")
        raise StagewiseError(f"{name} = {shown(value)}: must be {rule}")
    return number


def finite(
    name: str, value: float, low: float, high: float = math.inf, *, open_below: bool = False
) -> float:
    """`value` if it is a finite number from `low` to `high`; with `open_below` not `low` itself."""
    below = value <= low if open_below else value < low
    if not math.isfinite(value) or below or value > high:
        rule = f"must be a finite number {'above' if open_below else 'of at least'} {low:g}"
        rule += "" if math.isinf(high) else f" and at most {high:g}"
        raise StagewiseError(f"{name} = {shown(value)}: {rule}")
    return value


def interval(
    name: str,
    value: tuple[float, float],
    low: float,
    high: float = math.inf,
    *,
    open_below: bool = False,
) -> tuple[float, float]:
    """`value` if it is an interval (from, to) of finite numbers within `low` to `high`."""
    for number in value:
        finite(name, number, low, high, open_below=open_below)
    if value[0] > value[1]:
        raise StagewiseError(
            f"{name} = {shown(tuple(value))}: the lower end must not be above the upper end"
        )
    return value


def seed_number(seed: int) -> int:
    """`seed` if random generators can start from it."""
    return whole("seed", seed, 0)
