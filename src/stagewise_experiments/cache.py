"""The outputs of cells, kept under their keys in `<out>/cells`: whole or not at all.

Beside them, `<out>/decisions` is for workers to keep what policies decided: measures/decided.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError
from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise_experiments.machine import Machine
from stagewise_experiments.results import FILE, UNFINISHED, load_result
from stagewise_experiments.setting import Setting
from stagewise_experiments.worker import Report, Request, key_of, request_of

FORMAT: Literal["stagewise-cell/1"] = "stagewise-cell/1"
FOLDER = "cells"
DECISIONS = "decisions"


class _CachedCell(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["stagewise-cell/1"] = FORMAT
    request: Request = msgspec.field(name="order")
    outputs: dict[str, Any]
    seconds: float
    machine: Machine


class _SettingOnly(msgspec.Struct):
    setting: Setting


class _Timing(msgspec.Struct):
    order: _SettingOnly
    seconds: float


class Cache:
    """The cells that are done."""

    def __init__(self, out: Path) -> None:
        self._out, self._folder = out, out / FOLDER
        self.decisions = out.resolve() / DECISIONS
        for folder in (self._folder, self.decisions):
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Report | None:
        """The cell's report; None where it never ended well, or its file is damaged."""
        path = self._path(key)
        try:
            cell = decode_json(read_bytes(path), _CachedCell, str(path))
        except StagewiseError:
            return None
        if key_of(cell.request) != key:
            return None
        return {
            "outputs": cell.outputs,
            "error": None,
            "seconds": cell.seconds,
            "machine": msgspec.to_builtins(cell.machine),
        }

    def put(self, key: str, request: Request, report: Report) -> None:
        """Keep the report on a cell that ended well."""
        cell = {"format": FORMAT, "order": request, **report}
        del cell["error"]
        write_bytes(self._path(key), msgspec.json.encode(cell))

    def timings(self) -> Iterator[tuple[Setting, float]]:
        """How long cells ran, those of other versions of the code among them."""
        decoder = msgspec.json.Decoder(_Timing)
        for path in sorted(self._folder.glob("*.json")):
            try:
                timing = decoder.decode(path.read_bytes())
            except (OSError, msgspec.DecodeError):
                continue
            yield timing.order.setting, timing.seconds

    def take_results(self, device: str) -> None:
        """Keep the cells of results in the folder that are of this code and these data.

        Results may come from another machine. A file that is damaged is as good as none.
        """
        for path in (path for name in (FILE, UNFINISHED) for path in self._out.glob(f"*/{name}")):
            try:
                result = load_result(path)
            except StagewiseError:
                continue
            machines = msgspec.to_builtins(result.machines)
            for cell in result.cells:
                if cell.outputs is None or cell.machine >= len(machines) or self.get(cell.key):
                    continue
                request = request_of(cell.setting, device)
                if key_of(request) == cell.key:
                    report = {
                        "outputs": cell.outputs,
                        "error": None,
                        "seconds": cell.seconds,
                        "machine": machines[cell.machine],
                    }
                    self.put(cell.key, request, report)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
