"""Reading pickled data without running it: plain values and byte arrays, and nothing else.

A pickle may call any function by name. Here the few names that a NumPy array of bytes needs stand for
classes that only keep what they are given; every other name, and every instruction that such files do
not need, is refused.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from stagewise.datasets.dataset import ImageArray
from stagewise.errors import StagewiseError, one_line, shown

_INSTRUCTIONS = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "EMPTY_TUPLE", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
    *("GET", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}


class _StandIn:
    """What a pickle would make by calling a name, and the state it would give to it."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Record(dict[str, Any]):
    """A dictionary with text for its keys: a deeply nested tuple as a key would end the process."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_text(key), value)


_ENCODE = "_codecs encode"  # how Python 3 writes bytes for Python 2
_RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_STAND_INS = {
    name: type(name, (_StandIn,), {})
    for name in ("numpy ndarray", "numpy dtype", *_RECONSTRUCT, _ENCODE)
}


def _refused(instruction: str) -> Callable[[Any], None]:
    def refuse(reader: Any) -> None:
        raise StagewiseError(f"pickle instruction {instruction}: must be one that data needs")

    return refuse


def _push_record(reader: Any) -> None:
    reader.append(_Record())


def _push_record_at_mark(reader: Any) -> None:
    if reader.pop_mark():
        raise ValueError("DICT with items")  # which nothing writes
    reader.append(_Record())


# The one in Python: the compiled one makes room for as many values as the largest number it is told.
class _Reader(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **{
            ord(each.code): _refused(each.name)
            for each in pickletools.opcodes
            if each.name not in _INSTRUCTIONS
        },
        ord("}"): _push_record,
        ord("d"): _push_record_at_mark,
    }

    def find_class(self, module: str, name: str) -> type[_StandIn]:
        full_name = f"{module} {name}"
        if full_name not in _STAND_INS:
            raise StagewiseError(
                f"pickle names {shown(full_name)}: only byte arrays and plain values may be"
            )
        return _STAND_INS[full_name]


def read_pickled(content: bytes, source: str) -> dict[str, Any]:
    """The dictionary in a pickle, with text for its keys and the arrays of bytes in it as arrays.

    `source` is for errors.
    """
    try:
        reader: Any = _Reader(io.BytesIO(content), encoding="latin-1")
        value = reader.load()
        if reader.stack or reader.metastack:
            raise ValueError("more than one value")
        if isinstance(value, dict):
            return {key: _value(item) for key, item in value.items()}
    except StagewiseError as error:
        raise StagewiseError(f"{source}: {error}") from None
    except Exception as error:  # whatever a malformed pickle may lead to
        reason = one_line(str(error) or type(error).__name__, 80)
        raise StagewiseError(f"{source}: not a valid pickle: {reason}") from None
    raise StagewiseError(f"{source}: must be a pickled dictionary")


def _value(value: Any) -> Any:
    """The text or array that `value` stands for; else `value` itself."""
    if isinstance(value, dict):
        raise ValueError("nested too deeply")
    if not isinstance(value, _StandIn):
        return value
    return _text(value) if _made_by(value) == _ENCODE else _array(value)


def _text(value: Any) -> str:
    if _made_by(value) == _ENCODE:
        value = value.arguments[0]
    return value.decode("latin-1") if isinstance(value, bytes) else _as(str, value)


def _array(made: _StandIn) -> ImageArray:
    """numpy._reconstruct(...) with the state (version, shape, dtype, order, bytes)."""
    if _made_by(made) not in _RECONSTRUCT:
        raise StagewiseError(f"pickle holds a call of {_made_by(made)}: must be an array of bytes")
    _, shape, dtype, fortran_order, raw = _as(tuple, made.state)
    if not all(type(size) is int for size in _as(tuple, shape)):
        raise ValueError("a shape must be of whole numbers")
    if _made_by(dtype) != "numpy dtype" or _text(dtype.arguments[0]) not in ("u1", "|u1"):
        raise StagewiseError("pickle holds an array that is not of unsigned bytes")
    content = raw if isinstance(raw, bytes) else _text(raw).encode("latin-1")
    if math.prod(shape) != len(content) or min(shape, default=0) < 0:
        raise StagewiseError(
            f"pickle holds an array of shape {shown(shape)} in {len(content)} bytes"
        )
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)


def _made_by(value: Any) -> str:
    return type(value).__name__


def _as(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} where {kind.__name__} must be")
    return value
