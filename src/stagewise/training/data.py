"""The data set as the tensors that training reads, which worker processes can share."""

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stagewise.errors import StagewiseError, one_line
from stagewise.training.task import TrainingTask


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Images as bytes, labels, and whose they are; nothing is copied for a client."""

    train_images: Tensor
    """Bytes, shape (samples, channels, height, width)."""
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    start: Tensor
    index: Tensor
    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, task: TrainingTask) -> "TrainingData":
        """Tensors over the arrays of the task, without copying them."""
        dataset, partition = task.dataset, task.partition
        arrays: tuple[npt.NDArray[Any], ...] = (
            *(dataset.train_images, dataset.train_labels),
            *(dataset.test_images, dataset.test_labels),
            *(partition.start, partition.index, dataset.mean, dataset.std),
        )
        return cls(*map(_tensor, arrays))

    def samples(self, client: int) -> Tensor:
        """The training samples of a client, a view."""
        first, last = self.start[client : client + 2].tolist()
        return self.index[first:last]

    def scale(self, dtype: torch.dtype) -> Tensor:
        """What the bytes of every channel are multiplied by."""
        return (1 / (255 * self.std)).to(dtype)

    def shift(self, dtype: torch.dtype) -> Tensor:
        """What is then added to them."""
        return (-self.mean / self.std).to(dtype)

    def on(self, device: torch.device) -> "TrainingData":
        """The same with images, labels and indices on `device`, where batches are gathered."""
        moved = ("train_images", "train_labels", "test_images", "test_labels", "index")
        return replace(self, **{name: getattr(self, name).to(device) for name in moved})

    def share(self) -> "TrainingData":
        """The same in memory that other processes can read."""
        parts = (getattr(self, field.name) for field in fields(self))
        return TrainingData(*(shared(part.clone()) for part in parts))


def shared(tensor: Tensor) -> Tensor:
    """The tensor, moved to memory that other processes can read and write."""
    try:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise StagewiseError(
            f"{tensor.nbytes / 1e6:.0f} MB of shared memory for workers: cannot be allocated; one "
            f"worker needs none: {one_line(str(error))}"
        ) from None
    return tensor


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # Arrays may be read-only; training never writes to them.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))
