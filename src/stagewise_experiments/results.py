"""What came out of an experiment: every cell, and its file `result.json` (stagewise-result/2)."""

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise_experiments.experiment import Experiment, Point, Profile, ProfileName
from stagewise_experiments.machine import Machine
from stagewise_experiments.setting import Setting, convert

FORMAT: Literal["stagewise-result/2"] = "stagewise-result/2"
FILE = "result.json"
UNFINISHED = "unfinished.json"
"""The same of an experiment whose last cell has not run."""

Outputs = dict[str, Any]
"""What a measure gives for one cell: JSON values."""


class CellResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    machine: int = 0
    """The place among the result's machines of the one it ran on."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of an experiment in one profile, in the order of `cells_of`."""

    format: Literal["stagewise-result/2"] = FORMAT
    experiment: Experiment
    profile: ProfileName
    cells: list[CellResult]
    machines: list[Machine]
    """That the cells ran on."""
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
    """Write `result` whole or not at all, in as few bytes as keep every number that is read from it."""
    record = msgspec.to_builtins(result)
    for printed in record["experiment"].get("paper_values", ()):
        if math.isinf(printed["value"]):  # which JSON has no number for
            printed["value"] = _NEVER
    cells = record["cells"]
    shared = record["setting"] = dict(cells[0]["setting"]) if cells else {}
    for cell in cells:
        cell["setting"] = _difference(cell["setting"], shared)
        del cell["policy"], cell["seed"]  # which are the setting's
        outputs = cell.get("outputs")
        if outputs is not None and isinstance(outputs.get("rounds"), list):
            cell["outputs"] = {**outputs, "rounds": _columns(outputs["rounds"])}
    write_bytes(path, msgspec.json.encode(_rounded(record)))


def load_result(path: str | Path) -> Result:
    """Read what `save_result` wrote, now or in an older version."""
    record = decode_json(read_bytes(path), dict[str, Any], str(path))
    try:
        stand_ins = record["experiment"].get("stand_ins", {})
        for real, other in stand_ins.items():  # which were names alone
            stand_ins[real] = {"dataset": other} if isinstance(other, str) else other
        for printed in record["experiment"].get("paper_values", ()):
            if printed["value"] == _NEVER:
                printed["value"] = math.inf
        if (
            record["format"] == _OLDER
        ):  # every cell had its whole setting, every round its own record
            record["format"] = FORMAT
        shared = record.pop("setting", {})
        for cell in record["cells"]:
            setting = cell["setting"] = _merged(shared, cell["setting"])
            # Before there were two regimes costs were as the paper's text reads.
            setting["scenario"] = {"regime": "literal", **setting.get("scenario", {})}
            cell |= {"policy": setting["policy"], "seed": setting["seed"]}
            outputs = cell.get("outputs")
            if outputs is not None and isinstance(outputs.get("rounds"), dict):
                outputs["rounds"] = _records(outputs["rounds"])
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # whatever is wrong with it, the next step says
    return convert(record, Result, str(path))


_NEVER = "inf"
_OLDER = "stagewise-result/1"
_COUNT = "count"
"""Beside the columns of rounds: how many there are."""
DIGITS = 9
"""That matter of a measured number."""


def _difference(table: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """The fields of `table` that `shared` has not with the same value."""
    found = {}
    for name, value in table.items():
        other = shared.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            value, other = _difference(value, other), {}
        if value != other or name not in shared:
            found[name] = value
    return found


def _merged(shared: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """What `_difference` was taken from."""
    both = dict(shared)
    for name, value in table.items():
        inner = both.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            value = _merged(inner, value)
        both[name] = value
    return both


def _columns(rounds: list[Any]) -> list[Any] | dict[str, Any]:
    """A list for each field, or its one value where all rounds have the same."""
    if not rounds or any(list(record) != list(rounds[0]) for record in rounds):
        return rounds
    columns: dict[str, Any] = {name: [record[name] for record in rounds] for name in rounds[0]}
    for name, values in columns.items():
        same = all(type(v) is type(values[0]) and v == values[0] for v in values)
        if same and not isinstance(values[0], list):
            columns[name] = values[0]
    return {_COUNT: len(rounds), **columns}


def _records(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The rounds that `_columns` were made of."""
    count = columns[_COUNT]
    spread = {
        name: values if isinstance(values, list) else [values] * count
        for name, values in columns.items()
        if name != _COUNT
    }
    return [dict(zip(spread, row, strict=True)) for row in zip(*spread.values(), strict=True)]


def _rounded(value: Any) -> Any:
    """Numbers with the digits that matter; whole ones without a point."""
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 10**DIGITS else short
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
