"""Where a run stands after a round: `checkpoint.safetensors`."""

import math
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import convert, read_bytes
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import State

_METADATA = "__metadata__"
_POLICY, _DEFENCE = "policy:", "defence:"
_LENGTH_BYTES = 8
_LARGEST_HEADER = 100_000_000


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a checkpoint says beside its arrays; in the file each value is its JSON text."""

    round: int
    """The last round that is complete."""
    orders: list[tuple[int, str]] = []
    """In version 1: every order of a new plan so far, the round and the trigger that fired."""
    adopted: list[int] = []
    """In version 1: the rounds in which a new plan took effect."""
    policy: State | None = None
    """In version 2: the plain values of the policy's state; its arrays are beside the weights."""
    defence: State | None = None
    """In version 3: the same of what the run knows about wrong updates."""
    format: Literal["stagewise-checkpoint/1", "stagewise-checkpoint/2", "stagewise-checkpoint/3"]


def checkpoint_content(
    weights: ModelWeights, round_index: int, state: State, defence: State | None = None
) -> bytes:
    """The content of a checkpoint; `state` is the policy's, empty for one that has none."""
    from safetensors.numpy import save

    plain, arrays = state_to_arrays(state)
    plain_defence, more = state_to_arrays(defence or {}, _DEFENCE)
    parts = {**weights, **arrays, **more}
    content = save({name: np.asarray(array, order="C") for name, array in parts.items()})
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    tensors = msgspec.json.decode(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    fields: dict[str, Any] = {"round": round_index}
    if defence:
        fields |= {"policy": plain, "defence": plain_defence, "format": "stagewise-checkpoint/3"}
    elif state:
        fields |= {"policy": plain, "format": "stagewise-checkpoint/2"}
    else:
        fields |= {"orders": [], "adopted": [], "format": "stagewise-checkpoint/1"}
    # The library writes metadata in an order that changes from process to process.
    metadata = {name: msgspec.json.encode(value).decode() for name, value in fields.items()}
    header = msgspec.json.encode({_METADATA: metadata, **tensors})
    header += b" " * (-len(header) % _LENGTH_BYTES)
    start = len(header).to_bytes(_LENGTH_BYTES, "little")
    return b"".join([start, header, memoryview(content)[_LENGTH_BYTES + length :]])


def load_weights(path: Path) -> ModelWeights:
    """The weights of a checkpoint."""
    arrays = _load_arrays(path)
    return {n: array for n, array in arrays.items() if not n.startswith((_POLICY, _DEFENCE))}


def load_state(path: Path) -> State:
    """The state that the policy had; empty for one that has none."""
    position = _load_position(path)
    if position.orders or position.adopted:
        raise StagewiseError(
            f"{path}: was written by an earlier version while plans were made again, and does not "
            f"hold what is needed to go on; start the run again"
        )
    return _state(path, position.policy)


def load_defence(path: Path) -> State:
    """What the run knew about wrong updates; empty in files of earlier versions."""
    return _state(path, _load_position(path).defence)


def _state(path: Path, plain: State | None) -> State:
    if not plain:
        return {}
    try:
        return state_from_arrays(plain, _load_arrays(path))
    except (KeyError, TypeError, ValueError):
        raise _damaged(path) from None


def load_round(path: Path) -> int:
    """The last round that is complete; the arrays are not read."""
    return _load_position(path).round


def state_to_arrays(state: State, prefix: str = _POLICY) -> tuple[State, ModelWeights]:
    """The plain values of a policy's state, and its arrays by name."""
    arrays: ModelWeights = {}
    return _without_arrays(state, prefix, arrays), arrays


def state_from_arrays(plain: State, arrays: ModelWeights) -> State:
    """The state that `state_to_arrays` took apart."""
    state: State = _with_arrays(msgspec.json.decode(msgspec.json.encode(plain)), arrays)
    return state


def state_to_bytes(state: State) -> bytes:
    """A policy's state on its own, without a model; of an empty one nothing."""
    from safetensors.numpy import save

    if not state:
        return b""
    plain, arrays = state_to_arrays(state)
    names = {"policy": msgspec.json.encode(plain).decode()}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return bytes(save(whole, metadata=names))


def state_from_bytes(content: bytes) -> State:
    """The state that `state_to_bytes` wrote."""
    from safetensors.numpy import load

    if not content:
        return {}
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = msgspec.json.decode(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    plain = msgspec.json.decode(header[_METADATA]["policy"])
    return state_from_arrays(plain, {name: a.copy() for name, a in load(content).items()})


def _without_arrays(value: Any, path: str, arrays: ModelWeights) -> Any:
    """`value` with a reference in the place of each array, which goes to `arrays` by its path."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.itemsize <= 8:
        # Truth values have no name of their own in every reader: as bytes.
        arrays[path] = value.astype(np.uint8) if value.dtype == np.bool_ else value
        return {"$array": path, "dtype": value.dtype.name}
    if isinstance(value, dict) and all(_is_name(name) for name in value):
        return {name: _without_arrays(v, _below(path, name), arrays) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(v, f"{path}/{i}", arrays) for i, v in enumerate(value)]
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"$float": str(plain)}  # JSON has no name for it
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise StagewiseError(
        f"state of the policy, {path.removeprefix(_POLICY)} = {shown(value)}: must be an array of "
        f"numbers, a plain value, or a list or dictionary (by names without $) of these"
    )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and not name.startswith("$")


def _below(path: str, name: str) -> str:
    """A path of its own for every name, those with slashes included."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def _with_arrays(value: Any, arrays: ModelWeights) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$array", "dtype"}:
            return arrays[value["$array"]].astype(value["dtype"], copy=False)
        if value.keys() == {"$float"}:
            return float(value["$float"])
        return {name: _with_arrays(inner, arrays) for name, inner in value.items()}
    return [_with_arrays(inner, arrays) for inner in value] if isinstance(value, list) else value


def _load_arrays(path: Path) -> ModelWeights:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(path)
    try:
        return {name: array.copy() for name, array in load(content).items()}
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise _damaged(path) from None


def _load_position(path: Path) -> _Position:
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            header = stream.read(min(length, _LARGEST_HEADER))
    except OSError as error:
        raise StagewiseError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        metadata: dict[str, str] = msgspec.json.decode(header)[_METADATA]
        fields = {name: msgspec.json.decode(text) for name, text in metadata.items()}
        position = convert(fields, _Position)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None
    if position.round < 0:
        raise _damaged(path)
    return position


def _damaged(path: Path) -> StagewiseError:
    return StagewiseError(f"{path}: not a valid checkpoint: a part is missing or damaged")
