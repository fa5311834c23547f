"""A light VGG: blocks of 3 x 3 convolutions, each ended by a pool, then the mean over the image."""

from torch import nn

from stagewise.errors import StagewiseError

WIDTHS = ((16, 16), (32, 32), (64,))
"""The filters of every convolution, by block."""


def vgg_light(classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """Five convolutions without normalisation."""
    channels, height, width = image_shape
    if min(height, width) < 2 ** len(WIDTHS):
        raise StagewiseError(f"image_shape = {image_shape}: too small for the model vgg-light")
    layers: list[nn.Module] = []
    for block in WIDTHS:
        for filters in block:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )
