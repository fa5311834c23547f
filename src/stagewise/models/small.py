"""Small networks as plain sequences of layers, which the fast training path can read."""

from itertools import pairwise

import torch
from torch import nn

from stagewise.errors import StagewiseError

ImageShape = tuple[int, int, int]
"""Channels, height, width."""


def mnist_cnn(classes: int, image_shape: ImageShape) -> nn.Module:
    """PyTorch's MNIST example without its dropout: 21,840 parameters for ten digits of 28 x 28."""
    blocks = *_block(image_shape[0], 10), *_block(10, 20)
    return _classifier("mnist-cnn", image_shape, blocks, (50, classes))


def lenet5(classes: int, image_shape: ImageShape) -> nn.Module:
    """LeNet-5 with ReLU and max-pooling; the first convolution pads its images by two."""
    blocks = *_block(image_shape[0], 6, padding=2), *_block(6, 16)
    return _classifier("lenet5", image_shape, blocks, (120, 84, classes))


def cifar_cnn(classes: int, image_shape: ImageShape) -> nn.Module:
    """Two convolutions of 64 channels, pooled 3 by 3 with overlap: 576,778 parameters on CIFAR-10."""
    blocks = *_block(image_shape[0], 64, pool=3), *_block(64, 64, pool=3)
    return _classifier("cifar-cnn", image_shape, blocks, (384, 192, classes))


def mlp(classes: int, image_shape: ImageShape) -> nn.Module:
    """One hidden layer of 32, for images as small as 8 x 8."""
    return _classifier("mlp", image_shape, (), (32, classes))


def _block(
    channels: int, filters: int, padding: int = 0, pool: int = 2
) -> tuple[nn.Module, nn.Module, nn.Module]:
    convolution = nn.Conv2d(channels, filters, 5, padding=padding)
    return convolution, nn.MaxPool2d(pool, 2), nn.ReLU()


def _classifier(
    name: str, image_shape: ImageShape, blocks: tuple[nn.Module, ...], widths: tuple[int, ...]
) -> nn.Module:
    """`blocks`, then linear layers of these widths with a ReLU between."""
    flat = nn.Sequential(*blocks, nn.Flatten())
    try:
        features = flat(torch.zeros(1, *image_shape)).shape[1]
    except RuntimeError:
        raise StagewiseError(
            f"image_shape = {image_shape}: too small for the model {name}"
        ) from None
    sizes = pairwise((features, *widths))
    linears = [part for size in sizes for part in (nn.ReLU(), nn.Linear(*size))]
    return nn.Sequential(*flat, *linears[1:])
