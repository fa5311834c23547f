"""What is to be trained, on whose data and how."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stagewise.datasets import Dataset, Partition
from stagewise.errors import StagewiseError, shown
from stagewise.model_weights import Dtype
from stagewise.models import build_model
from stagewise.models.catalogue import seeded
from stagewise.training.device import device_of
from stagewise.world.checks import finite, one_of, seed_number, whole
from stagewise.world.scenario import FloatArray, IntArray

Loss = Callable[[Tensor, Tensor], Tensor]
"""The mean loss of a batch from the model's outputs and the labels."""


class Precision(NamedTuple):
    """How exactly a model is trained."""

    weights: torch.dtype
    """Of weights, their sums, and all that is evaluated."""
    products: torch.dtype
    """Of the products of matrices in training."""


PRECISIONS: dict[Dtype, Precision] = {
    "float32": Precision(torch.float32, torch.float32),
    "float64": Precision(torch.float64, torch.float64),
    "bfloat16": Precision(torch.float32, torch.bfloat16),
}


@dataclass(frozen=True)
class Evaluation:
    """How a model does on the test set: the share of correct answers and the mean loss."""

    accuracy: float
    loss: float


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalTraining:
    """How a client takes its steps."""

    local_steps: int
    """T of Eq. 1."""
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    seed: int = 0
    loss: Loss = cross_entropy


@dataclass(frozen=True, eq=False)
class TrainingTask(LocalTraining):
    """Everything that determines training, apart from who trains where in which round."""

    dataset: Dataset
    partition: Partition
    model: str | Callable[[], nn.Module]
    """A name of `stagewise.models.MODELS`, or a function that builds the model.

    With several workers the function must be one that other processes can import.
    """
    edge_rounds: int
    """L, the edge aggregations in a round."""
    batch_fraction: FloatArray
    """The share of its data a client takes for a mini-batch, shape (clients,)."""
    dtype: Dtype = "float32"
    """With `bfloat16` training multiplies matrices in it, while weights remain float32."""
    device: str = "cpu"
    """`cpu`, `cuda`, `cuda:N` or `mps`: where clients train and models are evaluated."""

    def __post_init__(self) -> None:
        whole("local_steps", self.local_steps, 1)
        whole("edge_rounds", self.edge_rounds, 1)
        finite("learning_rate", self.learning_rate, 0, open_below=True)
        finite("momentum", self.momentum, 0)
        finite("weight_decay", self.weight_decay, 0)
        seed_number(self.seed)
        one_of("dtype", self.dtype, PRECISIONS)
        device = device_of(self.device).type
        if device == "mps" and self.dtype != "float32":
            raise StagewiseError(f"dtype = {shown(self.dtype)}: must be float32 on the device mps")
        if device == "cuda" and self.dtype == "bfloat16" and not torch.cuda.is_bf16_supported():
            raise StagewiseError(f"dtype = 'bfloat16': the device {self.device} has none")
        fraction = np.asarray(self.batch_fraction)
        if fraction.shape != (len(self.data_sizes),):
            raise StagewiseError(
                f"batch_fraction has the shape {fraction.shape}: there must be one for each of the "
                f"{len(self.data_sizes)} clients"
            )
        wrong = np.flatnonzero(~((fraction > 0) & (fraction <= 1)))
        if wrong.size:
            raise StagewiseError(
                f"batch_fraction[{wrong[0]}] = {fraction[wrong[0]]}: must be above 0 and at most 1"
            )

    @cached_property
    def data_sizes(self) -> IntArray:
        """d_i, the samples of every client, shape (clients,)."""
        return np.diff(self.partition.start)

    @cached_property
    def batch_sizes(self) -> IntArray:
        """The samples in a mini-batch of every client, at least one, shape (clients,)."""
        wanted = np.rint(np.asarray(self.batch_fraction) * self.data_sizes)
        return np.maximum(1, wanted).astype(np.int64)

    @property
    def builder(self) -> Callable[[], nn.Module]:
        """Builds the model with its initial weights, which depend on the seed alone."""
        if isinstance(self.model, str):
            dataset = self.dataset
            return partial(build_model, self.model, dataset.classes, dataset.image_shape, self.seed)
        return partial(seeded, self.model, self.seed)
