"""The model and data of the round that other simulators are compared by; needs PyTorch alone."""

from functools import cache

import torch
from torch import Tensor, nn

IMAGES = 10_000


def mnist_cnn() -> nn.Module:
    """The network of 21,840 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
    )


@cache
def images_and_labels() -> tuple[Tensor, Tensor]:
    """Random images, already numbers of the right kind, and labels; one copy for each process."""
    random = torch.Generator().manual_seed(0)
    images = torch.randn(IMAGES, 1, 28, 28, generator=random)
    return images, torch.randint(0, 10, (IMAGES,), generator=random)


def samples_of(client: int, size: int) -> Tensor:
    """Which images a client holds."""
    return torch.randperm(IMAGES, generator=torch.Generator().manual_seed(client))[:size]
