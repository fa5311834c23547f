"""Checks of arguments and arrays; each error names the field, its value and the rule."""

import contextlib
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError, shown

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LARGEST_COUNT = 2**31 - 1

Choice = TypeVar("Choice", bound=str)

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


Wrong = Callable[[tuple[int, ...], str], StagewiseError]
"""Makes the error about an entry of an array from its place and the problem."""


def _at(name: str) -> Wrong:
    return lambda place, problem: StagewiseError(f"{name}{indices(place)}{problem}")


def indices(place: Iterable[int]) -> str:
    """The place of an entry as it stands behind the name of an array."""
    return "".join(f"[{number}]" for number in place)


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

    def array(
        self,
        name: str,
        values: object,
        count: int | None = None,
        things: str = "",
        wrong: Wrong | None = None,
        ndim: int = 1,
    ) -> npt.NDArray[Any]:
        """`values` as a frozen array with an entry, or a row of them, for each of `count` things.

        Without a `count` there may be any number. None stands for an array of which nothing is
        given, where that is allowed.
        """
        if values is None and self.optional and count is not None:
            return not_given(count)
        array = frozen_array(name, values, np.int64 if self.whole else np.float64, wrong)
        fitting(name, array, len(array) if count is None else count, things, ndim)
        kept = self.kept_by(array)
        if not kept.all():
            place = _place(kept)
            problem = f" = {shown(array[place].item())}: {self.text}"
            raise (wrong or _at(name))(place, problem)
        return array


def fitting(
    name: str, array: npt.NDArray[Any], count: int, things: str, ndim: int = 1
) -> npt.NDArray[Any]:
    """`array` if it has an entry, or a row of them, for each of `count` things."""
    if array.ndim != ndim or len(array) != count:
        raise StagewiseError(
            f"{name} has the shape {array.shape}: must have one "
            f"{'value' if ndim == 1 else 'row'} for each of the {count} {things}"
        )
    return array


def mask_of(name: str, values: npt.ArrayLike, count: int, things: str) -> BoolArray:
    """`values` as a frozen array of true and false, one for each of `count` things."""
    try:
        array = np.array(values)
    except Exception:  # whatever the conversion of an unknown object may raise
        array = np.array(None)
    if array.dtype != np.bool_:
        raise StagewiseError(f"{name} = {shown(values)}: must be an array of true and false")
    return frozen(fitting(name, array, count, things))


def not_given(count: int) -> FloatArray:
    """NaN so many times, in the memory of one."""
    return np.broadcast_to(_MISSING, count)


def frozen_array(
    name: str, values: object, dtype: type[np.generic], wrong: Wrong | None = None
) -> npt.NDArray[Any]:
    """`values` as an array of `dtype` that nothing can change, where nothing is lost by that.

    The array is a copy, unless `values` is one that nobody can write to already.

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
    made, exact = np.zeros(array.shape, dtype), np.zeros(array.shape, np.bool_)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "O":
            for place, value in np.ndenumerate(array):
                with contextlib.suppress(OverflowError, ValueError):
                    if is_number(value):
                        made[place] = value
                        exact[place] = made[place] == value or made[place] != made[place]
        else:
            made[...] = array.astype(dtype)
            exact = ((made == array) & (made.astype(array.dtype) == array)) | (made != made)
    if not exact.all():
        place = _place(exact)
        found = array[place].item() if array.dtype.kind != "O" else array[place]
        rule = "a whole number" if dtype is np.int64 else "a number"
        rule += " that 64 bits can hold" if is_number(found) and found % 1 == 0 else ""
        raise (wrong or _at(name))(place, f" = {shown(found)}: must be {rule}")
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

    def _set(self, name: str, value: object) -> None:
        """Give a field of a frozen data class the value that it was checked as."""
        object.__setattr__(self, name, value)

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
    kinds, seen = set(map(type, values)), set[str]()
    # Looked at one by one only where something may be wrong: there may be a million.
    fine = kinds == {str} and "" not in values and len(set(values)) == len(values)
    for row, name in enumerate(() if fine and "".join(values).isascii() else values):
        if not isinstance(name, str):
            rule = "must be text"
        elif name == "":
            rule = "must not be empty"
        elif name in seen:
            rule = "must not occur twice"
        elif re.search("[\ud800-\udfff]", name):
            rule = "must be text that UTF-8 can hold"
        else:
            seen.add(name)
            continue
        raise FieldError(f"{group}[{row}].id", group, row, "id", f" = {shown(name)}: {rule}")
    return tuple(map(str, values))


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


def one_of(name: str, value: Choice, choices: Iterable[str]) -> Choice:
    """`value` if it is among `choices`."""
    known = tuple(choices)
    if value not in known:
        raise StagewiseError(f"{name} = {shown(value)}: must be one of {', '.join(known)}")
    return value


def instance_of(name: str, value: object, kind: type) -> None:
    """Raise an error if `value` is not a `kind`."""
    if not isinstance(value, kind):
        raise StagewiseError(f"{name} = {shown(value)}: must be a {kind.__name__}")


def seed_number(seed: int) -> int:
    """`seed` if random generators can start from it."""
    return whole("seed", seed, 0)
