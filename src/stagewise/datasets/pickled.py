"""Reading pickled data without running it: plain values and byte arrays, and nothing else.

A pickle is a program that may call any function by name. Here its instructions are followed on
inert values: what would be calls become records of a call, and only the few that stand for a NumPy
array of bytes are understood. Every other name, and every instruction that such files do not need,
is refused.
"""

import math
import pickletools
from typing import Any

import numpy as np

from stagewise.datasets.dataset import ImageArray
from stagewise.errors import StagewiseError, one_line, shown

_ENCODE = "_codecs encode"  # how Python 3 writes bytes for Python 2
_ALLOWED = {
    "numpy ndarray",
    "numpy dtype",
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
    _ENCODE,
}
_BYTE_CODES = ("u1", "|u1")


class _Name(str):
    """A function or class that the pickle names."""


class _Call:
    """What the pickle would make by calling `name`, and the state it would give to it."""

    def __init__(self, name: _Name, arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None


class _Mark:
    """Where the items of a tuple, list or dictionary begin on the stack."""


def read_pickled(content: bytes, source: str) -> dict[str, Any]:
    """The dictionary in a pickle, with text for its keys and the arrays of bytes in it as arrays.

    `source` is for errors.
    """
    try:
        value = _value(_Machine().run(content))
    except StagewiseError as error:
        raise StagewiseError(f"{source}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise StagewiseError(f"{source}: not a valid pickle: {one_line(str(error), 80)}") from None
    except RecursionError:
        raise StagewiseError(f"{source}: not a valid pickle: nested too deeply") from None
    if not isinstance(value, dict):
        raise StagewiseError(f"{source}: must be a pickled dictionary")
    return value


class _Machine:
    """The stack machine of a pickle, as far as data needs it."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "STOP":
                break
            if opcode.name in _VALUES:
                self.stack.append(argument)
            elif opcode.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name not in _IGNORED:
                self.step(opcode.name, argument)
        (value,) = self.stack
        return value

    def step(self, name: str, argument: Any) -> None:
        """One instruction that works on the stack or the memo."""
        stack = self.stack
        match name:
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "TUPLE":
                stack.append(tuple(self.items()))
            case "LIST":
                stack.append(self.items())
            case "DICT":
                stack.append(_pairs(self.items()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(name[-1])
                stack[-size:] = [tuple(stack[-size:])]
            case "APPEND":
                item = stack.pop()
                _as(list, stack[-1]).append(item)
            case "APPENDS":
                items = self.items()
                _as(list, stack[-1]).extend(items)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                _as(dict, stack[-1])[key] = value
            case "SETITEMS":
                pairs = _pairs(self.items())
                _as(dict, stack[-1]).update(pairs)
            case "GLOBAL":
                stack.append(_allowed(argument))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(_allowed(f"{module} {attribute}"))
            case "REDUCE":
                arguments, function = _as(tuple, stack.pop()), _as(_Name, stack.pop())
                stack.append(_Call(function, arguments))
            case "BUILD":
                state = stack.pop()
                _as(_Call, stack[-1]).state = state
            case _:
                raise StagewiseError(f"pickle instruction {name}: must be one that data needs")

    def items(self) -> list[Any]:
        """What lies on the stack above the last mark, taken off with it."""
        place = len(self.stack) - 1
        while not isinstance(self.stack[place], _Mark):
            place -= 1
            if place < 0:
                raise ValueError("no mark on the stack")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items


_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_CONSTANTS: dict[str, Any] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": _Mark,
}
_IGNORED = {"PROTO", "FRAME"}


def _as(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} where {kind.__name__.lstrip('_')} must be")
    return value


def _allowed(name: str) -> _Name:
    if name not in _ALLOWED:
        raise StagewiseError(
            f"pickle names {shown(name)}: only byte arrays and plain values may be"
        )
    return _Name(name)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _value(value: Any) -> Any:
    """A dictionary with text for its keys, lists and the array it holds; else `value` itself."""
    if isinstance(value, dict):
        return {_text(key): _value(item) for key, item in value.items()}
    if isinstance(value, _Call):
        return _text(value) if value.name == _ENCODE else _array(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, _Call) and value.name == _ENCODE:
        value = value.arguments[0]
    return value.decode("latin-1") if isinstance(value, bytes) else _as(str, value)


def _array(call: _Call) -> ImageArray:
    """numpy._reconstruct(...) with the state (version, shape, dtype, order, bytes)."""
    if not call.name.endswith("_reconstruct"):
        raise StagewiseError(f"pickle holds a call of {call.name}: must be an array of bytes")
    _, shape, dtype, fortran_order, raw = _as(tuple, call.state)
    if not all(type(size) is int for size in _as(tuple, shape)):
        raise ValueError("a shape must be of whole numbers")
    if _as(_Call, dtype).name != "numpy dtype" or _text(dtype.arguments[0]) not in _BYTE_CODES:
        raise StagewiseError("pickle holds an array that is not of unsigned bytes")
    content = raw if isinstance(raw, bytes) else _text(raw).encode("latin-1")
    if math.prod(shape) != len(content) or min(shape, default=0) < 0:
        raise StagewiseError(
            f"pickle holds an array of shape {shown(shape)} in {len(content)} bytes"
        )
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)
