"""What is to be trained, from the settings of a run and its scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from stagewise.datasets import Dataset, partition
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from torch import nn

    from stagewise.training import TrainingTask

    ModelBuilder = Callable[[], nn.Module]


class Optimisation(Protocol):
    """How clients train, as the file of a run or of a deployed task has it."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def dtype(self) -> Literal["float32", "float64"]: ...


def training_task(
    settings: Optimisation,
    data: Dataset,
    model: str | ModelBuilder,
    scenario: Scenario,
    device: str = "cpu",
) -> TrainingTask:
    """The task, with the data dealt out as the scenario's clients hold it; imports PyTorch."""
    from stagewise.training import TrainingTask

    return TrainingTask(
        dataset=data,
        partition=partition(data, scenario.clients.label_counts, settings.seed),
        model=model,
        local_steps=scenario.local_steps,
        edge_rounds=scenario.edge_rounds,
        batch_fraction=scenario.clients.batch_fraction,
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        seed=settings.seed,
        dtype=settings.dtype,
        device=device,
    )
