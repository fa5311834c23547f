"""Layers with forward and backward passes for several clients at once, each with its own weights.

Arrays have the client first and the sample of the batch last. A layer is bound to the buffers it
reads and fills; the batches of a job then go through them one after the other.
"""

from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor

from stagewise.training.bfloat16 import as_array
from stagewise.training.kernels import (
    collect_kernel_gradients,
    fold,
    place_kernels,
    pool,
    unfold,
    unpool,
)
from stagewise.training.network import ConvolutionAndPool, Linear
from stagewise.training.workspace import Workspace

WeightAndBias = tuple[Tensor, Tensor]

CACHE_LINE = 16
"""Numbers; an odd multiple as the length of a row keeps rows from displacing each other."""


class ConvolutionLayer:
    """A convolution, 2 x 2 max-pool and ReLU as one matrix product over patches of stride 2.

    The four neighbouring outputs that a pool takes the largest of read one patch, a row and a
    column larger than the kernel. So the kernel is laid into such a patch at its four places, and
    the product with all patches of the images gives four *slabs*; the result is their maximum.
    There are a quarter of the patches that a convolution alone would have. A last row of ones in
    the patches multiplies the bias.
    """

    def __init__(
        self,
        layer: ConvolutionAndPool,
        inputs: Tensor,
        depth: int,
        next_padding: int,
        weights: WeightAndBias,
        workspace: Workspace,
        output_dtype: torch.dtype,
    ) -> None:
        """`inputs` are framed by the layer's own padding, `outputs` by that of the next layer.

        The type of `inputs` is that of the products, and that of gradients is the weights'. `depth` is
        the number of convolutions before this one. Its slabs share their memory with the patches of the
        next: when one is filled, the other has been used.
        """
        clients, channels, height, width, batch = inputs.shape
        rows, columns = layer.pooled(height), layer.pooled(width)
        self._inputs, self._depth, self._workspace = inputs, depth, workspace
        self._next_padding = next_padding
        self._kernel_shape = (layer.kernel, channels)
        self._patch_shape = (layer.kernel + 1, rows, columns)
        self._weights = _flat(weights)
        length = (layer.kernel + 1) ** 2 * channels + 1
        self._matrix = self._matrix_buffer(f"matrix {depth}", clients, 4 * layer.filters, length)
        self._patches = self._columns(depth, length)
        self._slabs = self._columns(depth + 1, 4 * layer.filters)
        winner_shape = (clients, layer.filters, rows, columns, batch)
        self._winner = workspace.array(f"winner {depth}", *winner_shape, dtype=torch.uint8).numpy()
        frame = (rows + 2 * next_padding, columns + 2 * next_padding)
        output_shape = (clients, layer.filters, *frame, batch)
        self.outputs = workspace.array(f"outputs {depth}", *output_shape, dtype=output_dtype)
        if next_padding:
            self.outputs.zero_()

    def bind_backward(self, gradients: WeightAndBias, first: bool) -> None:
        """Prepare `backward`; the first layer has no use for the gradient of its inputs."""
        self._gradients = _flat(gradients)
        clients, rows, length = self._matrix.shape
        name = f"matrix gradient {self._depth}"
        self._matrix_gradient = self._matrix_buffer(name, clients, length, rows)
        name = f"input gradient {self._depth}"
        shape = self._inputs.shape
        self._input_gradient = None if first else self._workspace.array(name, *shape)

    def forward(self) -> None:
        """Fill `outputs` from the inputs."""
        place_kernels(*self._weights, *self._kernel_shape, as_array(self._matrix))
        unfold(as_array(self._inputs), *self._patch_shape, self._patches.whole)
        torch.bmm(self._matrix, self._patches.used, out=self._slabs.used)
        pool(self._slabs.whole, self._next_padding, as_array(self.outputs), self._winner)

    def backward(self, gradient: Tensor) -> Tensor | None:
        """Fill the gradients of weight and bias from that of `outputs`; return that of the inputs."""
        framed = gradient.view(self.outputs.shape).numpy()
        unpool(framed, self._next_padding, self._winner, self._slabs.whole)
        slabs, patches = self._slabs.used, self._patches.used
        torch.bmm(patches, slabs.transpose(1, 2), out=self._matrix_gradient)
        matrix = as_array(self._matrix_gradient)
        collect_kernel_gradients(matrix, *self._kernel_shape, *self._gradients)
        if self._input_gradient is None:
            return None
        # The patches are used up: their gradient takes their place.
        torch.bmm(self._matrix.transpose(1, 2), slabs, out=patches)
        fold(self._patches.whole, *self._patch_shape, self._input_gradient.numpy())
        return self._input_gradient

    def _columns(self, depth: int, rows: int) -> "_Columns":
        clients, batch = self._inputs.shape[0], self._inputs.shape[-1]
        _, height, width = self._patch_shape
        used = height * width * batch
        stride = used
        if self._inputs.dtype != torch.bfloat16:  # its products would copy rows with gaps
            lines = -(-used // CACHE_LINE)
            stride = CACHE_LINE * (lines + 1 - lines % 2)
        whole = self._matrix_buffer(f"columns {depth}", clients, rows, stride)
        return _Columns(as_array(whole), whole[:, :, :used])

    def _matrix_buffer(self, name: str, *shape: int) -> Tensor:
        """A factor or the result of a matrix product."""
        return self._workspace.array(name, *shape, dtype=self._inputs.dtype)


class _Columns(NamedTuple):
    """A matrix for every client whose rows are followed by some unused numbers."""

    whole: npt.NDArray[Any]
    used: Tensor


def _flat(parts: WeightAndBias) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    weight, bias = parts
    return weight.flatten(2).numpy(), bias.numpy()


class LinearLayer:
    """A linear layer, with a ReLU unless it is the last."""

    def __init__(
        self,
        layer: Linear,
        inputs: Tensor,
        last: bool,
        weights: WeightAndBias,
        workspace: Workspace,
    ) -> None:
        clients, _, batch = inputs.shape
        self._layer, self._inputs, self._weights = layer, inputs, weights
        self._last, self._workspace = last, workspace
        self.outputs = workspace.array(f"{layer.name} outputs", clients, layer.outputs, batch)

    def bind_backward(self, gradients: WeightAndBias, first: bool) -> None:
        """Prepare `backward`; the first layer has no use for the gradient of its inputs."""
        self._gradients = gradients
        name = f"{self._layer.name} input gradient"
        shape = self._inputs.shape
        self._input_gradient = None if first else self._workspace.array(name, *shape)

    def forward(self) -> None:
        """Fill `outputs` from the inputs."""
        weight, bias = self._weights
        torch.baddbmm(bias.unsqueeze(2), weight, self._inputs, out=self.outputs)
        if not self._last:
            self.outputs.relu_()

    def backward(self, gradient: Tensor) -> Tensor | None:
        """Fill the gradients of weight and bias from that of `outputs`; return that of the inputs.

        The gradient of `outputs` is overwritten.
        """
        weight, bias = self._gradients
        if not self._last:
            gradient.mul_(self.outputs > 0)
        torch.bmm(gradient, self._inputs.transpose(1, 2), out=weight)
        torch.sum(gradient, 2, out=bias)
        if self._input_gradient is None:
            return None
        torch.bmm(self._weights[0].transpose(1, 2), gradient, out=self._input_gradient)
        return self._input_gradient


Layer = ConvolutionLayer | LinearLayer
