"""What workers do, and the settings they do it with."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stagewise.errors import TrainingDiverged
from stagewise.robust.norms import TOO_LARGE
from stagewise.training.batches import draw_batches
from stagewise.training.device import CPU, device_of
from stagewise.training.layout import WeightLayout
from stagewise.training.network import Network, read_network
from stagewise.training.task import PRECISIONS, LocalTraining, TrainingTask
from stagewise.world.scenario import FloatArray, IntArray

IMAGES_AT_ONCE = 100
"""Test images that go through a model together."""


@dataclass(frozen=True, eq=False)
class WeightBuffers:
    """Where weights are handed over: models to start from, results, and the counters of both.

    Shapes (models, length), (slots, length), (models, counters) and (slots, counters).
    """

    models: Tensor
    results: Tensor
    model_counters: Tensor
    result_counters: Tensor

    @classmethod
    def of(cls, layout: WeightLayout, models: int, slots: int) -> "WeightBuffers":
        """Zeros for so many models and results."""
        vectors = (torch.zeros(n, layout.length, dtype=layout.dtype) for n in (models, slots))
        counters = (
            torch.zeros(n, layout.counter_length, dtype=torch.int64) for n in (models, slots)
        )
        return cls(*vectors, *counters)


@dataclass(frozen=True)
class TrainJob:
    """Train `clients` for one edge round, each from the model in its row, into its slot."""

    clients: tuple[int, ...]
    rows: tuple[int, ...]
    slots: tuple[int, ...]
    round_index: int
    edge_round: int


@dataclass(frozen=True)
class EvaluateJob:
    """Count correct answers and sum the loss of the first model on test images start to stop."""

    start: int
    stop: int
    client: int | None = None
    """Where given, the images are this client's training samples."""


Job = TrainJob | EvaluateJob


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingSettings(LocalTraining):
    """How a client trains: the part of a task that every worker has a copy of."""

    builder: Callable[[], nn.Module]
    network: Network | None
    """The model's layers where `BatchedBackend` can train them, which needs the CPU."""
    dtype: torch.dtype
    """Of weights, and of all that is evaluated."""
    product_dtype: torch.dtype
    """Of the products of matrices in training."""
    batch_sizes: IntArray
    device: torch.device

    @classmethod
    def of(cls, task: TrainingTask) -> "TrainingSettings":
        """The settings of a task."""
        device = device_of(task.device)
        batched = device == CPU and task.loss is cross_entropy
        return cls(
            **{field.name: getattr(task, field.name) for field in fields(LocalTraining)},
            builder=task.builder,
            network=read_network(task.builder()) if batched else None,
            dtype=PRECISIONS[task.dtype].weights,
            product_dtype=PRECISIONS[task.dtype].products,
            batch_sizes=task.batch_sizes,
            device=device,
        )

    def build(self) -> nn.Module:
        """The model in the precision of training."""
        return self.builder().to(self.dtype)

    def batches(self, client: int, data_size: int, job: TrainJob) -> IntArray:
        """The mini-batches of a client in a job, as positions within its data, (steps, batch)."""
        return draw_batches(
            self.seed,
            client,
            job.round_index,
            job.edge_round,
            data_size=data_size,
            batch_size=int(self.batch_sizes[client]),
            steps=self.local_steps,
        )


def diverged(client: int, job: TrainJob, step: int, loss: float) -> TrainingDiverged:
    """The error for a loss that is no longer a number."""
    return TrainingDiverged(
        f"client {client}: the loss is {loss} in round {job.round_index}, edge round "
        f"{job.edge_round}, step {step}: training diverged; a smaller learning_rate may help"
    )


def update_norms(after: npt.NDArray[Any], before: npt.NDArray[Any]) -> FloatArray:
    """The L2 norm of every client's change, summed in float64, or `TOO_LARGE`.

    Shapes are (clients, numbers).
    """
    with np.errstate(over="ignore"):
        change = after - before
        squares = np.einsum("ij,ij->i", change, change, dtype=np.float64)
    return np.asarray(np.minimum(np.sqrt(squares), TOO_LARGE))
