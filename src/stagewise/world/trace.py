"""Availability traces: when real devices could train, as a list of changes for each."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json, unpacked
from stagewise.world.checks import finite, one_of
from stagewise.world.scenario import BoolArray, FloatArray, IntArray

VARIANTS = ("states_2", "states_3_battery50", "states_3_battery75")
"""Two states, or three, where a battery below 50 or 75 percent may evaluate but not train."""

_ONLINE = "AVL_TRAIN"
_LARGEST_BYTES = 2**30

_State = Literal["AVL_TRAIN", "AVL_EVAL", "UN_AVL"]
_Changes = list[tuple[float, _State]]


# The format is not ours: fields that are not needed are let pass.
class _TraceFile(msgspec.Struct):
    devices: dict[str, msgspec.Raw]


class _Device(msgspec.Struct):
    states_2: _Changes | None = None
    states_3_battery50: _Changes | None = None
    states_3_battery75: _Changes | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """The changes of all devices in compressed rows: device k has start[k]:start[k+1]."""

    devices: tuple[str, ...]
    start: IntArray
    time_s: FloatArray
    """Not descending within a device; of changes at the same time the last counts."""
    online: BoolArray
    """Whether the device can train from each change on."""

    def __len__(self) -> int:
        return len(self.devices)

    @cached_property
    def end_s(self) -> float:
        """The time of the last change of any device: nothing is known beyond it."""
        return float(self.time_s.max())

    def online_at(self, time_s: float) -> BoolArray:
        """Which devices can train at a time, shape (devices,); none can before its first change."""
        # How many changes of each device have come by then, counted on the flat array.
        past = np.concatenate([[0], np.cumsum(self.time_s <= time_s)])
        passed = past[self.start[1:]] - past[self.start[:-1]]
        latest = np.maximum(self.start[:-1] + passed - 1, 0)
        return np.asarray((passed > 0) & self.online[latest])


def load_trace(path: str | Path, variant: str = "states_2") -> Trace:
    """Read a trace: JSON, plain or gzip, with `devices` {name: {variant: [[seconds, state], ...]}}.

    A device is online in the state AVL_TRAIN and in no other. Times must not descend.

    Parameters
    ----------
    path : str or Path
        The file.
    variant : {"states_2", "states_3_battery50", "states_3_battery75"}
        Which states of each device to read.

    Examples
    --------
    >>> import pathlib, stagewise
    >>> text = '{"devices": {"phone": {"states_2": [[0, "AVL_TRAIN"], [60, "UN_AVL"]]}}}'
    >>> _ = pathlib.Path("trace.json").write_text(text)
    >>> stagewise.load_trace("trace.json").devices
    ('phone',)
    """
    one_of("variant", variant, VARIANTS)
    record = decode_json(_content(path), _TraceFile, str(path))
    if not record.devices:
        raise StagewiseError(f"{path}: devices: there must be at least one")
    start = [0]
    times: list[float] = []
    online: list[bool] = []
    for name, raw in record.devices.items():
        where = f"{path}: devices[{shown(name)}]"
        changes = getattr(decode_json(bytes(raw), _Device, where), variant)
        _check_changes(f"{where}.{variant}", changes)
        times.extend(time for time, _ in changes)
        online.extend(state == _ONLINE for _, state in changes)
        start.append(len(times))
    return Trace(
        devices=tuple(record.devices),
        start=np.array(start, dtype=np.int64),
        time_s=np.array(times, dtype=np.float64),
        online=np.array(online, dtype=np.bool_),
    )


def _check_changes(where: str, changes: _Changes | None) -> None:
    if not changes:
        raise StagewiseError(f"{where}: must have at least one [seconds, state]")
    before = 0.0
    for number, (time, _) in enumerate(changes):
        finite(f"{where}[{number}][0]", time, 0)
        if time < before:
            raise StagewiseError(
                f"{where}[{number}][0] = {shown(time)}: must not be before the last, {before:g}"
            )
        before = time


def _content(path: str | Path) -> bytes:
    with unpacked(path) as stream:
        # One byte more than allowed tells a file that is too large without unpacking all of it.
        content: bytes = stream.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise StagewiseError(f"{path}: must unpack to at most {_LARGEST_BYTES} bytes")
    return content
