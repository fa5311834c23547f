"""Small networks as plain sequences of layers, which the fast training path can read."""

from torch import nn

from stagewise.errors import StagewiseError

ImageShape = tuple[int, int, int]
"""Channels, height, width."""


def mnist_cnn(classes: int, image_shape: ImageShape) -> nn.Module:
    """PyTorch's MNIST example without its dropout: 21,840 parameters for ten digits of 28 x 28."""
    channels, height, width = image_shape
    features = 20 * _pooled(_pooled(height, 5), 5) * _pooled(_pooled(width, 5), 5)
    _check_features("mnist-cnn", image_shape, features)
    return nn.Sequential(
        *_convolution_and_pool(channels, 10),
        *_convolution_and_pool(10, 20),
        nn.Flatten(),
        nn.Linear(features, 50),
        nn.ReLU(),
        nn.Linear(50, classes),
    )


def lenet5(classes: int, image_shape: ImageShape) -> nn.Module:
    """LeNet-5 with ReLU and max-pooling; the first convolution pads its images by two."""
    channels, height, width = image_shape
    features = 16 * _pooled(_pooled(height + 4, 5), 5) * _pooled(_pooled(width + 4, 5), 5)
    _check_features("lenet5", image_shape, features)
    return nn.Sequential(
        *_convolution_and_pool(channels, 6, padding=2),
        *_convolution_and_pool(6, 16),
        nn.Flatten(),
        nn.Linear(features, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def cifar_cnn(classes: int, image_shape: ImageShape) -> nn.Module:
    """Two convolutions of 64 channels, pooled 3 by 3 with overlap: 576,778 parameters on CIFAR-10."""
    channels, height, width = image_shape
    features = 64 * _overlapping(_overlapping(height)) * _overlapping(_overlapping(width))
    _check_features("cifar-cnn", image_shape, features)
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5),
        nn.MaxPool2d(3, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5),
        nn.MaxPool2d(3, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(features, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, classes),
    )


def mlp(classes: int, image_shape: ImageShape) -> nn.Module:
    """One hidden layer of 32, for images as small as 8 x 8."""
    channels, height, width = image_shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 32),
        nn.ReLU(),
        nn.Linear(32, classes),
    )


def _convolution_and_pool(channels: int, filters: int, padding: int = 0) -> list[nn.Module]:
    return [nn.Conv2d(channels, filters, 5, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


def _pooled(size: int, kernel: int) -> int:
    """The side of an image after a convolution and a 2 x 2 pool."""
    return max(0, (size - kernel + 1) // 2)


def _overlapping(size: int) -> int:
    """The side of an image after a 5 x 5 convolution and a 3 x 3 pool of stride 2."""
    return max(0, (size - 4 - 3) // 2 + 1)


def _check_features(name: str, image_shape: ImageShape, features: int) -> None:
    if features == 0:
        raise StagewiseError(f"image_shape = {image_shape}: too small for the model {name}")
