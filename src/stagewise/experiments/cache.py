"""What cells gave, kept under their keys in `<out>/cells`: whole or not at all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from stagewise.errors import StagewiseError
from stagewise.experiments.machine import Machine
from stagewise.experiments.setting import Setting
from stagewise.experiments.worker import Order, Report, key_of
from stagewise.files import decode_json, read_bytes, write_bytes

FORMAT: Literal["stagewise-cell/1"] = "stagewise-cell/1"
FOLDER = "cells"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["stagewise-cell/1"] = FORMAT
    order: Order
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
        self._folder = out / FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Report | None:
        """What the cell gave; None where it never ended well, or its file is damaged."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            kept = decode_json(read_bytes(path), _Kept, str(path))
        except StagewiseError:
            return None
        if key_of(kept.order) != key:
            return None
        return {
            "outputs": kept.outputs,
            "error": None,
            "seconds": kept.seconds,
            "machine": msgspec.to_builtins(kept.machine),
        }

    def put(self, key: str, order: Order, report: Report) -> None:
        """Keep what a cell gave."""
        kept = _Kept(
            order=order,
            outputs=report["outputs"],
            seconds=report["seconds"],
            machine=msgspec.convert(report["machine"], Machine),
        )
        write_bytes(self._path(key), msgspec.json.encode(kept))

    def timings(self) -> Iterator[tuple[Setting, float]]:
        """How long cells ran, those of other versions of the code among them."""
        decoder = msgspec.json.Decoder(_Timing)
        for path in sorted(self._folder.glob("*.json")):
            try:
                timing = decoder.decode(path.read_bytes())
            except (OSError, msgspec.DecodeError):
                continue
            yield timing.order.setting, timing.seconds

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"
