"""Models by name, and their sizes."""

from collections.abc import Callable

import torch
from torch import nn

from stagewise.models import resnet, small, vgg
from stagewise.randomness import integer_seed
from stagewise.world.checks import one_of, seed_number, whole

MODELS: dict[str, Callable[[int, tuple[int, int, int]], nn.Module]] = {
    "mnist-cnn": small.mnist_cnn,
    "lenet5": small.lenet5,
    "cifar-cnn": small.cifar_cnn,
    "resnet18": resnet.resnet18,
    "resnet34": resnet.resnet34,
    "vgg-light": vgg.vgg_light,
    "mlp": small.mlp,
}
"""Every model by name: a function of the number of classes and the shape of an image."""


def build_model(
    name: str, classes: int, image_shape: tuple[int, int, int], seed: int = 0
) -> nn.Module:
    """The model called `name`; its initial weights depend on the seed alone.

    `image_shape` is (channels, height, width).
    """
    one_of("model", name, MODELS)
    whole("classes", classes, 1)
    for size in image_shape:
        whole("image_shape", size, 1)
    return seeded(lambda: MODELS[name](classes, image_shape), seed)


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """What `build` gives when PyTorch's generator starts from `seed`; the generator is put back."""
    seed_number(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer_seed(seed, "initial weights"))
        return build()


def parameter_count(name: str, classes: int, image_shape: tuple[int, int, int]) -> int:
    """How many trained numbers the model called `name` has."""
    with torch.device("meta"):
        model = build_model(name, classes, image_shape)
    return sum(parameter.numel() for parameter in model.parameters())
