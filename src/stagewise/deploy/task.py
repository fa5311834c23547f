"""What clients must know to train, beside the scenario; and its file, `task.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from stagewise.datasets import load_dataset
from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise.model_weights import Dtype
from stagewise.runs.config import RunConfig
from stagewise.simulator.task import training_task
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import TrainingTask


class TaskFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a run's configuration that training depends on."""

    format: Literal["stagewise-task/1"] = "stagewise-task/1"
    dataset: str
    data_dir: str | None = None
    """None: where the machine keeps its data."""
    image_size: int | None = None
    model: str
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    dtype: Dtype = "float32"
    seed: int = 0

    @classmethod
    def of(cls, config: RunConfig) -> TaskFile:
        """The task of a run."""
        own = {name for name in cls.__struct_fields__ if name != "format"}
        return cls(**{name: getattr(config, name) for name in own})

    @classmethod
    def load(cls, path: Path) -> TaskFile:
        return decode_json(read_bytes(path), cls, str(path))

    def save(self, path: Path) -> None:
        write_bytes(path, msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    def task(self, scenario: Scenario) -> TrainingTask:
        """The task as the simulator would train it; reads the data and imports PyTorch."""
        data = load_dataset(self.dataset, self.data_dir, image_size=self.image_size)
        return training_task(self, data, self.model, scenario)
