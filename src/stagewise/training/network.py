"""Networks that can be trained in batches of clients: convolutions with max-pooling, then linear."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class ConvolutionAndPool:
    """A convolution, a 2 x 2 max-pool and a ReLU; `name` is the convolution's in the state."""

    name: str
    filters: int
    kernel: int
    padding: int

    def pooled(self, size: int) -> int:
        """The side of a pooled image, from the side of the padded image."""
        return (size - self.kernel + 1) // 2


@dataclass(frozen=True)
class Linear:
    """A linear layer; every one but the last is followed by a ReLU."""

    name: str
    outputs: int


@dataclass(frozen=True)
class Network:
    """The layers in their order; there is at least one linear layer."""

    convolutions: tuple[ConvolutionAndPool, ...]
    linears: tuple[Linear, ...]

    @property
    def names(self) -> list[str]:
        """What every layer is called in the model's state."""
        return [*(layer.name for layer in self.convolutions), *(x.name for x in self.linears)]

    @property
    def paddings(self) -> list[int]:
        """The padding of every convolution, and none for the linear layers."""
        return [*(layer.padding for layer in self.convolutions), 0]


def read_network(model: nn.Module) -> Network | None:
    """The layers of `model` if it is a plain sequence that `BatchedBackend` can train."""
    if type(model) is not nn.Sequential or not all(p.requires_grad for p in model.parameters()):
        return None
    layers = list(model.named_children())
    flat = [place for place, (_, layer) in enumerate(layers) if _plain_flatten(layer)]
    if len(flat) != 1:
        return None
    convolutions = _convolutions(layers[: flat[0]])
    linears = _linears(layers[flat[0] + 1 :])
    if convolutions is None or linears is None:
        return None
    return Network(convolutions, linears)


_Named = list[tuple[str, nn.Module]]


def _convolutions(layers: _Named) -> tuple[ConvolutionAndPool, ...] | None:
    found = []
    for first in range(0, len(layers), 3):
        name, convolution = layers[first]
        # Pooling and ReLU can be exchanged: the largest is positive if any is.
        after = {type(layer): layer for _, layer in layers[first + 1 : first + 3]}
        if not isinstance(convolution, nn.Conv2d) or after.keys() != {nn.MaxPool2d, nn.ReLU}:
            return None
        if not (_plain_convolution(convolution) and _plain_pool(after[nn.MaxPool2d])):
            return None
        found.append(
            ConvolutionAndPool(
                name,
                convolution.out_channels,
                convolution.kernel_size[0],
                int(convolution.padding[0]),
            )
        )
    return tuple(found)


def _linears(layers: _Named) -> tuple[Linear, ...] | None:
    found = []
    for place, (name, layer) in enumerate(layers):
        if place % 2 == 0 and type(layer) is nn.Linear and layer.bias is not None:
            found.append(Linear(name, layer.out_features))
        elif place % 2 == 0 or type(layer) is not nn.ReLU:
            return None
    return tuple(found) if len(layers) % 2 == 1 else None


def _plain_flatten(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)


def _plain_convolution(layer: nn.Conv2d) -> bool:
    return (
        layer.kernel_size[0] == layer.kernel_size[1]
        and layer.stride == layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.bias is not None
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and layer.padding[0] == layer.padding[1]
    )


def _plain_pool(layer: nn.Module) -> bool:
    return (
        isinstance(layer, nn.MaxPool2d)
        and _pair(layer.kernel_size) == _pair(layer.stride) == (2, 2)
        and _pair(layer.padding) == (0, 0)
        and _pair(layer.dilation) == (1, 1)
        and not layer.ceil_mode
        and not layer.return_indices
    )


def _pair(value: object) -> object:
    return value if isinstance(value, tuple) else (value, value)
