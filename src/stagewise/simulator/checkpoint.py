"""Where a run stands after a round: `checkpoint.safetensors`."""

from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError
from stagewise.files import read_bytes, writing

Weights = dict[str, np.ndarray[Any, Any]]

_METADATA = "__metadata__"
_LENGTH_BYTES = 8
_LARGEST_HEADER = 100_000_000


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkpoint says beside the weights; in the file each value is its JSON text."""

    round: int
    """The last round that is complete."""
    orders: list[tuple[int, str]]
    """Every order of a new plan so far: the round, and the trigger that fired."""
    adopted: list[int]
    """The rounds in which a new plan took effect."""
    format: Literal["stagewise-checkpoint/1"] = "stagewise-checkpoint/1"


def save_checkpoint(path: Path, weights: Weights, position: Position) -> None:
    """Replace the checkpoint by a new one, whole or not at all."""
    from safetensors.numpy import save

    content = save({name: np.asarray(value, order="C") for name, value in weights.items()})
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    tensors = msgspec.json.decode(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    # The library writes metadata in an order that changes from process to process.
    fields = msgspec.to_builtins(position)
    metadata = {name: msgspec.json.encode(fields[name]).decode() for name in fields}
    header = msgspec.json.encode({_METADATA: metadata, **tensors})
    header += b" " * (-len(header) % _LENGTH_BYTES)
    with writing(path) as stream:
        stream.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
        stream.write(header)
        stream.write(memoryview(content)[_LENGTH_BYTES + length :])


def load_weights(path: Path) -> Weights:
    """The weights of a checkpoint."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(path)
    try:
        return {name: array.copy() for name, array in load(content).items()}
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise _damaged(path) from None


def load_position(path: Path) -> Position:
    """What a checkpoint says beside the weights, which are not read."""
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            header = stream.read(min(length, _LARGEST_HEADER))
    except OSError as error:
        raise StagewiseError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        metadata: dict[str, str] = msgspec.json.decode(header)[_METADATA]
        fields = {name: msgspec.json.decode(text) for name, text in metadata.items()}
        position = msgspec.convert(fields, Position)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None
    if position.round < 0:
        raise _damaged(path)
    return position


def _damaged(path: Path) -> StagewiseError:
    return StagewiseError(f"{path}: not a valid checkpoint: a part is missing or damaged")
