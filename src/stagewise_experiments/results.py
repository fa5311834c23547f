"""What came out of an experiment: every cell, and its file `result.json` (stagewise-result/1)."""

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise_experiments.experiment import Experiment, Point, Profile, ProfileName
from stagewise_experiments.machine import Machine
from stagewise_experiments.setting import Setting, convert

FORMAT: Literal["stagewise-result/1"] = "stagewise-result/1"
FILE = "result.json"

Outputs = dict[str, Any]
"""What a measure gives for one cell: JSON values."""


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: what went in, and what came out or why nothing did."""

    setting: Setting
    point: Point
    """Where on the experiment's axes."""
    policy: str
    seed: int
    key: str
    """Under which the outputs are kept."""
    outputs: Outputs | None
    error: str | None = None
    """One line; None where there are outputs."""
    seconds: float | None = None
    """How long the cell ran."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of an experiment in one profile, in the order of `cells_of`."""

    format: Literal["stagewise-result/1"] = FORMAT
    experiment: Experiment
    profile: ProfileName
    cells: list[CellResult]
    machines: list[Machine]
    """That the cells ran on, the one that wrote this first."""
    code_version: str
    datasets: list[str]
    """The data that cells read, by the names of what really ran."""
    stand_ins: dict[str, str] = {}
    """Data sets that were not found, to those that ran in their place."""

    @property
    def size(self) -> Profile:
        """The profile as the file declares it."""
        return self.experiment.profiles[self.profile]

    @property
    def seeds(self) -> list[int]:
        """That cells ran with."""
        return sorted({cell.seed for cell in self.cells})

    @property
    def failed(self) -> list[CellResult]:
        return [cell for cell in self.cells if cell.outputs is None]


def save_result(result: Result, path: str | Path) -> None:
    """Write `result` whole or not at all."""
    record = msgspec.to_builtins(result)
    for printed in record["experiment"]["paper_values"]:
        if math.isinf(printed["value"]):  # which JSON has no number for
            printed["value"] = _NEVER
    write_bytes(path, msgspec.json.encode(record))


def load_result(path: str | Path) -> Result:
    """Read what `save_result` wrote."""
    record = decode_json(read_bytes(path), dict[str, Any], str(path))
    try:
        for printed in record["experiment"]["paper_values"]:
            if printed["value"] == _NEVER:
                printed["value"] = math.inf
    except (KeyError, TypeError):
        pass  # whatever is wrong with it, the next step says
    return convert(record, Result, str(path))


_NEVER = "inf"
