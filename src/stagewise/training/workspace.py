"""Memory that is used again from job to job, whatever the sizes of its batches."""

import torch
from torch import Tensor


class Workspace:
    """Buffers by name and type that grow to the largest shape asked for.

    What a buffer holds from an earlier shape is left in it; a new buffer is zero.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def array(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """The buffer called `name` in a shape."""
        size, dtype = torch.Size(shape).numel(), dtype or self._dtype
        buffer = self._buffers.get((name, dtype))
        if buffer is None or len(buffer) < size:
            buffer = torch.zeros(size, dtype=dtype)
            self._buffers[name, dtype] = buffer
        return buffer[:size].view(shape)
