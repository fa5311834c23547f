"""Checks of arguments and arrays; each error names the field, its value and the rule."""

import math
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError, shown

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LARGEST_COUNT = 2**31 - 1

_MISSING = np.full((), np.nan)
_MISSING.flags.writeable = False


class FieldError(StagewiseError):
    """A value of a client, an edge or a link that cannot be.

    `group` and `row` say which, `column` is the field, and `problem` what the message says of it,
    so that a table can say the same of its own row and column.
    """

    def __init__(self, place: str, group: str, row: int, column: str, problem: str) -> None:
        super().__init__(f"{place}{problem}")
        self.group, self.row, self.column, self.problem = group, row, column, problem


def field_error(
    group: str, ids: tuple[str, ...], row: int, column: str, problem: str
) -> FieldError:
    """The error about a field of a client or an edge."""
    place = f"{group}[{row}]" + (f" ({shown(ids[row])})" if row < len(ids) else "")
    if column:
        place += f".{column}"
    return FieldError(place, group, row, column, problem)


class Rule(NamedTuple):
    """What the numbers of a field may be: finite, and from `low` to `high`."""

    low: float = 0
    high: float = math.inf
    open_below: bool = False
    """Whether `low` itself is left out."""
    whole: bool = False
    optional: bool = False
    """Whether NaN may stand for what is not given."""

    @property
    def text(self) -> str:
        text = "must be a finite number"
        if not math.isinf(self.low):
            text += f" {'above' if self.open_below else 'of at least'} {self.low:g}"
        return text if math.isinf(self.high) else f"{text} and at most {self.high:.12g}"

    def kept_by(self, values: npt.NDArray[Any]) -> BoolArray:
        """Which of `values` keep the rule."""
        kept = values > self.low if self.open_below else values >= self.low
        kept &= values < math.inf if math.isinf(self.high) else values <= self.high
        return kept | np.isnan(values) if self.optional else kept

    def column(
        self, group: str, name: str, values: object, ids: tuple[str, ...], ndim: int = 1
    ) -> npt.NDArray[Any]:
        """`values` as a frozen array with an entry, or a row of them, for each of `ids`."""
        if values is None and self.optional:
            return not_given(len(ids))

        def wrong(place: tuple[int, ...], problem: str) -> StagewiseError:
            column = name + "".join(f"[{number}]" for number in place[1:])
            return field_error(group, ids, place[0], column, problem)

        dtype = np.int64 if self.whole else np.float64
        array = frozen_array(f"{group}.{name}", values, dtype, wrong)
        if array.ndim != ndim or len(array) != len(ids):
            raise StagewiseError(
                f"{group}.{name} has the shape {array.shape}: must have one "
                f"{'value' if ndim == 1 else 'row'} for each of the {len(ids)} {group}"
            )
        kept = self.kept_by(array)
        if not kept.all():
            place = _place(kept)
            raise wrong(place, f" = {shown(array[place].item())}: {self.text}")
        return array


def not_given(count: int) -> FloatArray:
    """NaN so many times, in the memory of one."""
    return np.broadcast_to(_MISSING, count)


def frozen_array(
    name: str,
    values: object,
    dtype: type[np.generic],
    wrong: Callable[[tuple[int, ...], str], StagewiseError] | None = None,
) -> npt.NDArray[Any]:
    """`values` as an array of `dtype` that nothing can change, where nothing is lost by that.

    The array is a copy, unless `values` is one that nobody can write to already. `wrong` makes the
    error about an entry from its place and the problem.

    Raises
    ------
    StagewiseError
        If `values` is no array, or an entry is no number that `dtype` can hold.

    Examples
    --------
    >>> frozen_array("capacity", [3, 4.0], np.int64)
    array([3, 4])
    >>> frozen_array("capacity", [3, 4.5], np.int64)
    Traceback (most recent call last):
    ...
    stagewise.errors.StagewiseError: capacity[1] = 4.5: must be a whole number
    """
    if type(values) is np.ndarray and values.dtype == dtype and not values.flags.writeable:
        ours = values.flags.owndata and values.flags.c_contiguous
        if ours or values.base is _MISSING:
            return values
    try:
        listed = isinstance(values, list | tuple)
        array = np.asarray(values, dtype=object if listed else None)
        if listed and set(map(type, array.flat)) in ({int}, {float}):
            array = np.asarray(values)
        masked = isinstance(values, np.ma.MaskedArray)
    except Exception:  # whatever the conversion of an unknown object may raise
        raise StagewiseError(f"{name} = {shown(values)}: must be an array of numbers") from None
    if array.ndim == 0 or masked or array.dtype.kind not in "iufO":
        found = array.flat[0] if array.ndim and array.size and not masked else values
        raise StagewiseError(f"{name} = {shown(found)}: must be an array of numbers")
    if array.dtype == dtype:
        return frozen(np.array(array, order="C"))
    made = np.empty(array.shape, dtype)
    if array.dtype.kind == "O":
        exact = np.empty(array.shape, np.bool_)
        for place, value in np.ndenumerate(array):
            number = _converted(value, dtype)
            exact[place] = number is not None
            made[place] = 0 if number is None else number
    else:
        with np.errstate(all="ignore"):
            made[...] = array.astype(dtype)
            exact = (made == array) & (made.astype(array.dtype) == array)
        if dtype is np.float64:
            exact |= np.isnan(array)
    if not exact.all():
        place = _place(exact)
        found = array[place].item() if array.dtype.kind != "O" else array[place]
        rule = "a whole number" if dtype is np.int64 else "a number"
        rule += " that 64 bits can hold" if is_number(found) and found % 1 == 0 else ""
        problem = f" = {shown(found)}: must be {rule}"
        if wrong is not None:
            raise wrong(place, problem)
        raise StagewiseError(name + "".join(f"[{number}]" for number in place) + problem)
    return frozen(made)


def _place(good: BoolArray) -> tuple[int, ...]:
    """Where the first entry stands that is not good."""
    return tuple(int(number) for number in np.unravel_index(int(np.argmin(good)), good.shape))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array itself, which can no longer be written to: for arrays that nobody else holds."""
    array.flags.writeable = False
    return array


class Frozen:
    """Arrays that nothing can change, also after they were sent to another process."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                frozen(value)
        self.__dict__.update(state)


class FrozenAsGiven(Frozen):
    """A data class that freezes the arrays it is given: for arrays that nobody else holds."""

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))


def names(group: str, values: object) -> tuple[str, ...]:
    """The ids of clients or edges, if they are distinct and not empty."""
    if not isinstance(values, list | tuple):
        raise StagewiseError(f"{group}.ids = {shown(values)}: must be a list of text")
    if not values:
        raise StagewiseError(f"{group}: there must be at least one")
    for number, name in enumerate(values if set(map(type, values)) != {str} else ()):
        if not isinstance(name, str):
            raise StagewiseError(f"{group}[{number}].id = {shown(name)}: must be text")
    ids = tuple(map(str, values))
    problem = ""
    if "" in ids:
        number, problem = ids.index(""), "must not be empty"
    elif len(set(ids)) != len(ids):
        first: dict[str, int] = {}
        number = next(i for i, name in enumerate(ids) if first.setdefault(name, i) != i)
        problem = "must not occur twice"
    else:
        try:
            "".join(ids).encode()
        except UnicodeEncodeError:
            number = next(i for i, name in enumerate(ids) if re.search("[\ud800-\udfff]", name))
            problem = "must be text that UTF-8 can hold"
    if problem:
        place = f"{group}[{number}].id"
        raise FieldError(place, group, number, "id", f" = {shown(ids[number])}: {problem}")
    return ids


def _converted(value: object, dtype: type[np.generic]) -> Any:
    """`value` as a `dtype`; None where it is no number or does not fit."""
    if not is_number(value):
        return None
    try:
        number: Any = dtype(value)
    except (OverflowError, ValueError):
        return None
    return number if number.item() == value or (number != number and value != value) else None


def is_number(value: object) -> bool:
    """Whether `value` is a real number, and not a truth value."""
    number = isinstance(value, int | float | np.integer | np.floating)
    return number and not isinstance(value, bool)


def whole(name: str, value: int, low: int, high: int | None = None) -> int:
    """`value` if it is a whole number of at least `low` and, where given, at most `high`."""
    try:
        if isinstance(value, bool):
            raise TypeError
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
    rule = Rule(low, high, open_below)
    if isinstance(value, np.generic):
        value = value.item()
    try:
        good = is_number(value) and bool(rule.kept_by(np.array(float(value))))
    except OverflowError:  # a whole number beyond all floats
        good = False
    if not good:
        raise StagewiseError(f"{name} = {shown(value)}: {rule.text}")
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
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise StagewiseError(f"{name} = {shown(value)}: must be a pair (from, to)")
    for number in value:
        finite(name, number, low, high, open_below=open_below)
    if value[0] > value[1]:
        raise StagewiseError(
            f"{name} = {shown(tuple(value))}: the lower end must not be above the upper end"
        )
    return value


def instance_of(name: str, value: object, kind: type) -> None:
    """Raise an error if `value` is not a `kind`."""
    if not isinstance(value, kind):
        raise StagewiseError(f"{name} = {shown(value)}: must be a {kind.__name__}")


def seed_number(seed: int) -> int:
    """`seed` if random generators can start from it."""
    return whole("seed", seed, 0)
