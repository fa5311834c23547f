"""Memory that is used again from job to job, whatever the sizes of its batches."""

import torch
from torch import Tensor


class Workspace:
    """Buffers by name that grow to the largest shape asked for.

    What a buffer holds from an earlier shape is left in it; a new buffer is zero.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._buffers: dict[str, Tensor] = {}

    def array(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """The buffer called `name` in a shape."""
        size = torch.Size(shape).numel()
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = torch.zeros(size, dtype=dtype or self._dtype)
            self._buffers[name] = buffer
        return buffer[:size].view(shape)
