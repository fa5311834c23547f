"""A data set in memory: images as bytes, labels, and how images become numbers for a model."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stagewise.datasets.checksums import Digests
from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import whole
from stagewise.world.scenario import FloatArray, IntArray

ImageArray = npt.NDArray[np.uint8]
Splits = tuple[ImageArray, IntArray, ImageArray, IntArray]
"""Images and labels, for training and for the test."""
Float = TypeVar("Float", np.float32, np.float64)

# Sums are taken over this many values at a time: a float64 copy of them stays in the cache.
_VALUES_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and their labels, for training and for the test.

    Parameters
    ----------
    name : str
        What runs call it.
    train_images, test_images : array of uint8, shape (samples, channels, height, width)
        The images.
    train_labels, test_labels : array of int, shape (samples,)
        From 0 to classes - 1.
    classes : int
        How many labels there are.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> images, labels = np.zeros((4, 1, 8, 8), dtype=np.uint8), np.array([0, 1, 0, 1])
    >>> stagewise.Dataset("mine", images, labels, images, labels, classes=2).image_shape
    (1, 8, 8)
    """

    name: str
    train_images: ImageArray
    train_labels: IntArray
    test_images: ImageArray
    test_labels: IntArray
    classes: int

    def __post_init__(self) -> None:
        whole(f"{self.name}: classes", self.classes, 1)
        for split, images, labels in self._splits():
            _check_images(f"{self.name}: {split} images", images)
            _check_labels(f"{self.name}: {split} labels", labels, len(images), self.classes)
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise StagewiseError(
                f"{self.name}: training images of shape {self.train_images.shape[1:]} and test "
                f"images of shape {self.test_images.shape[1:]}: must be the same"
            )

    def _splits(self) -> tuple[tuple[str, ImageArray, IntArray], ...]:
        return (
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        )

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @cached_property
    def mean(self) -> FloatArray:
        """The mean of the training images divided by 255, shape (channels,)."""
        return self._moments[0]

    @cached_property
    def std(self) -> FloatArray:
        """Their standard deviation, shape (channels,); 1 for a channel that never changes."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        images = self.train_images
        total = np.zeros(images.shape[1])
        squares = np.zeros(images.shape[1])
        step = max(1, _VALUES_AT_ONCE // images[0].size)
        for first in range(0, len(images), step):
            # Sums of whole numbers below 2**53 are exact, in whatever order they are taken.
            values = images[first : first + step].astype(np.float64)
            total += values.sum(axis=(0, 2, 3))
            squares += np.einsum("nchw,nchw->c", values, values)
        count = images.size // images.shape[1]
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
        return mean / 255, np.where(std > 0, std / 255, 1.0)

    def scaled(self, images: ImageArray, dtype: type[Float]) -> npt.NDArray[Float]:
        """(images / 255 - mean) / std by channel, as a new array of `dtype`."""
        slope = (1 / (255 * self.std)).astype(dtype)[:, None, None]
        offset = (-self.mean / self.std).astype(dtype)[:, None, None]
        values = images * slope
        values += offset
        return values

    @cached_property
    def array_sha256(self) -> Digests:
        """Digests of training images, training labels, test images and test labels.

        Images count as their bytes in the order (sample, channel, row, column), labels as 64-bit
        little-endian integers.
        """
        return (
            sha256_of(self.train_images),
            sha256_of(self.train_labels.astype("<i8")),
            sha256_of(self.test_images),
            sha256_of(self.test_labels.astype("<i8")),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all contents, the name apart: equal exactly for equal data."""
        parts = [*self.array_sha256, str(self.image_shape), str(self.classes)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {len(self.train_labels)} training and {len(self.test_labels)} "
            f"test images of {self.image_shape}, {self.classes} classes)"
        )


def _check_images(what: str, images: ImageArray) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or 0 in images.shape:
        raise StagewiseError(
            f"{what}: {images.dtype} of shape {images.shape}: must be uint8 of shape "
            "(samples, channels, height, width), and not empty"
        )


def _check_labels(what: str, labels: IntArray, samples: int, classes: int) -> None:
    if labels.dtype != np.int64 or labels.shape != (samples,):
        raise StagewiseError(
            f"{what}: {labels.dtype} of shape {labels.shape}: must be int64 of shape ({samples},)"
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise StagewiseError(
            f"{what}[{wrong[0]}] = {shown(int(labels[wrong[0]]))}: must be from 0 to {classes - 1}"
        )


def sha256_of(array: npt.NDArray[Any]) -> str:
    """The digest of an array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
