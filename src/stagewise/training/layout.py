"""A model's weights as one flat vector, and the vector's parts as the model's tensors."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from stagewise.errors import StagewiseError
from stagewise.model_weights import ModelWeights

ALIGNMENT = 64
"""Bytes; every row of vectors starts at a multiple, so that all rows are computed with alike."""


@dataclass(frozen=True)
class _Entry:
    names: tuple[str, ...]
    """More than one where modules share a tensor."""
    shape: torch.Size
    offset: int
    counter: bool
    trained: bool


class WeightLayout:
    """Where each parameter and buffer of a model stands in a flat vector.

    Floating-point tensors, parameters first, make up the vector; whole-number buffers (batch
    counters) are kept apart in a vector of their own, since they are not averaged. Convolution
    weights are stored with their channels last, the order in which convolutions read them.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        shared: dict[int, list[str]] = {}
        tensors: dict[int, Tensor] = {}
        for name, tensor in model.state_dict(keep_vars=True).items():
            shared.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor
        # Parameters first: the trained part of the vector is one piece.
        order = sorted(tensors, key=lambda key: not isinstance(tensors[key], nn.Parameter))
        self.dtype = dtype
        self.entries: list[_Entry] = []
        lengths = [0, 0]  # of numbers and of counters
        for key in order:
            tensor, names = tensors[key], tuple(shared[key])
            if tensor.is_complex():
                raise StagewiseError(f"model: {names[0]} is complex: it must be of real numbers")
            counter = not tensor.is_floating_point()
            trained = not counter and isinstance(tensor, nn.Parameter) and tensor.requires_grad
            self.entries.append(_Entry(names, tensor.shape, lengths[counter], counter, trained))
            lengths[counter] += tensor.numel()
        unit = ALIGNMENT // dtype.itemsize
        self.length, self.counter_length = -(-lengths[0] // unit) * unit, lengths[1]
        parameters = (tensors[key] for key in order if isinstance(tensors[key], nn.Parameter))
        self.parameter_length = sum(p.numel() for p in parameters if p.is_floating_point())
        """How many numbers of the vector, from its start, are parameters."""

    def attach(self, model: nn.Module, vector: Tensor, counters: Tensor) -> list[Tensor]:
        """Make the model's tensors views of `vector` and `counters`; the trained ones are returned."""
        tensors = model.state_dict(keep_vars=True)
        for entry in self.entries:
            tensors[entry.names[0]].data = _view(entry, vector, counters)
        return [tensors[entry.names[0]] for entry in self.entries if entry.trained]

    def stored(self, name: str, vectors: Tensor) -> Tensor:
        """The part called `name` of each of `vectors`; of a convolution (filters, y, x, channels)."""
        entry = next(entry for entry in self.entries if name in entry.names)
        part = vectors[:, entry.offset : entry.offset + entry.shape.numel()]
        return part.view(len(vectors), *_stored_shape(entry.shape))

    def pack(self, weights: ModelWeights, vector: Tensor, counters: Tensor) -> None:
        """Write `weights` into `vector` and `counters`."""
        expected = {name for entry in self.entries for name in entry.names}
        if weights.keys() != expected:
            name = min(weights.keys() ^ expected)
            rule = "is missing" if name in expected else "is not part of the model"
            raise StagewiseError(f"weights: {name} {rule}")
        vector.zero_()
        for entry in self.entries:
            _view(entry, vector, counters).copy_(_tensor(weights, entry))

    def unpack(self, vector: Tensor, counters: Tensor) -> ModelWeights:
        """The weights in `vector` and `counters`, copied."""
        weights: ModelWeights = {}
        for entry in self.entries:
            array = _view(entry, vector, counters).numpy()
            weights.update((name, np.array(array, order="C")) for name in entry.names)
        return weights


def _view(entry: _Entry, vector: Tensor, counters: Tensor) -> Tensor:
    numbers = counters if entry.counter else vector
    part = numbers[entry.offset : entry.offset + entry.shape.numel()]
    stored = part.view(_stored_shape(entry.shape))
    return stored.permute(0, 3, 1, 2) if len(entry.shape) == 4 else stored


def _stored_shape(shape: torch.Size) -> tuple[int, ...]:
    if len(shape) != 4:
        return tuple(shape)
    filters, channels, height, width = shape
    return filters, height, width, channels


def _tensor(weights: ModelWeights, entry: _Entry) -> Tensor:
    array = weights[entry.names[0]]
    if array.shape != tuple(entry.shape):
        raise StagewiseError(
            f"weights: {entry.names[0]} has the shape {array.shape}: must be {tuple(entry.shape)}"
        )
    return torch.from_numpy(np.array(array))
