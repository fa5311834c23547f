"""Residual networks in the form used for CIFAR: a 3 x 3 stem, no pooling before the blocks."""

from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, which is projected where the shape changes."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, images: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(images)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.shortcut(images))


class ResNet(nn.Module):
    """Four stages of basic blocks, 64 to 512 channels wide, then the mean over the image."""

    def __init__(self, blocks: tuple[int, int, int, int], classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        stages, width = [], 64
        for stage, count in enumerate(blocks):
            filters = 64 * 2**stage
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(BasicBlock(width, filters, stride))
                width = filters
        self.blocks = nn.Sequential(*stages)
        self.linear = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.blocks(functional.relu(self.bn1(self.conv1(images))))
        logits: Tensor = self.linear(features.mean((2, 3)))
        return logits


def resnet18(classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """11,173,962 parameters for ten classes of colour images."""
    return ResNet((2, 2, 2, 2), classes, image_shape[0])


def resnet34(classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """21,282,122 parameters for ten classes of colour images."""
    return ResNet((3, 4, 6, 3), classes, image_shape[0])
