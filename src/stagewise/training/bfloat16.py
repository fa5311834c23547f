"""Numbers of bfloat16 in compiled code, which has no such type: as the integers of their bits."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor

NOT_A_NUMBER = 0x7FC0


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """The memory of a tensor as compiled code takes it: of bfloat16 the bits, as int16."""
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def decoded(value: Any) -> Any:
    """In compiled code: the number that an element of such an array stands for."""
    raise NotImplementedError("for compiled code alone")


def encoded(value: Any, array: npt.NDArray[Any]) -> Any:
    """In compiled code: a number as `array` keeps it; in bits it is rounded to even."""
    raise NotImplementedError("for compiled code alone")


@overload(decoded)
def _decoded(value):  # type: ignore[no-untyped-def]
    return _number_of if isinstance(value, types.Integer) else lambda value: value


@overload(encoded)
def _encoded(value, array):  # type: ignore[no-untyped-def]
    if isinstance(array.dtype, types.Integer):
        return _bits_of
    return lambda value, array: value


def _number_of(value):  # type: ignore[no-untyped-def]
    return np.uint32(np.uint32(np.uint16(value)) << np.uint32(16)).view(np.float32)


def _bits_of(value, array):  # type: ignore[no-untyped-def]
    number = np.float32(value)
    bits = number.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return np.int16(rounded if number == number else NOT_A_NUMBER)
