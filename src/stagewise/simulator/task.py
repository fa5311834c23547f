"""What is to be trained, from the settings of a run and its scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from stagewise.datasets import Dataset, partition
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from torch import nn

    from stagewise.training import TrainingTask

    ModelBuilder = Callable[[], nn.Module]


_AS_SET = ("learning_rate", "momentum", "weight_decay", "seed", "dtype")
"""What the files of a run and of a deployed task say of how clients train."""


def training_task(
    settings: msgspec.Struct,
    data: Dataset,
    model: str | ModelBuilder,
    scenario: Scenario,
    device: str = "cpu",
) -> TrainingTask:
    """The task, with the data dealt out as the scenario's clients hold it; imports PyTorch.

    `settings` are a run's configuration, or the file of a deployed task.
    """
    from stagewise.training import TrainingTask

    known: dict[str, Any] = {name: getattr(settings, name) for name in _AS_SET}
    return TrainingTask(
        dataset=data,
        partition=partition(data, scenario.clients.label_counts, known["seed"]),
        model=model,
        local_steps=scenario.local_steps,
        edge_rounds=scenario.edge_rounds,
        batch_fraction=scenario.clients.batch_fraction,
        **known,
        device=device,
    )
