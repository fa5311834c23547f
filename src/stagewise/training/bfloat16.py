"""Numbers of bfloat16 in compiled code, which has no such type: as the integers of their bits."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload
from torch import Tensor


def numbers(tensor: Tensor) -> npt.NDArray[Any]:
    """The memory of a tensor as compiled code takes it: of bfloat16 the bits, as int16."""
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def recoded(value: Any, array: npt.NDArray[Any]) -> Any:
    """In compiled code: a number as `array` keeps it, which is rounded to even for one of bits.

    Either may be bits of bfloat16 or a floating-point number. Bits of positive numbers are ordered as
    the numbers are, and those of negative ones are negative.
    """
    raise NotImplementedError("for compiled code alone")


@overload(recoded)
def _recoded(value, array):  # type: ignore[no-untyped-def]
    of_bits = isinstance(value, types.Integer)
    to_bits = isinstance(array.dtype, types.Integer)
    if of_bits == to_bits:
        return lambda value, array: value
    return _number_of if of_bits else _bits_of


def _bits_of(value, array):  # type: ignore[no-untyped-def]
    bits = np.float32(value).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.int16((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


def _number_of(value, array):  # type: ignore[no-untyped-def]
    return np.uint32(np.uint32(np.uint16(value)) << np.uint32(16)).view(np.float32)
