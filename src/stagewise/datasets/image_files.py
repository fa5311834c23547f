"""Decoding PNG and JPEG files to arrays of bytes."""

import io
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stagewise.datasets.dataset import Dataset, ImageArray
from stagewise.datasets.file_tree import FileTree
from stagewise.errors import StagewiseError, one_line

if TYPE_CHECKING:
    from PIL import Image

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")

_LARGEST_PIXELS = 2**26
_LARGEST_TOTAL_BYTES = 2**34


class Sample(NamedTuple):
    """An image file with its label, for training or for testing."""

    file: str
    label: int
    test: bool


def decode_image(content: bytes, source: str, size: int | None = None) -> ImageArray:
    """An image as bytes of shape (height, width, 3).

    Grey or otherwise coded images become RGB; with `size` it is stretched to size x size pixels.
    """
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        # A picture of very many pixels: refused here, where Pillow only warns.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as image:
                return _pixels(image, source, size)
        except StagewiseError:
            raise
        except UnidentifiedImageError:
            raise StagewiseError(f"{source}: not a PNG or JPEG image") from None
        except Exception as error:  # decoders raise errors of many kinds on damaged files
            raise StagewiseError(
                f"{source}: not a valid image: {one_line(str(error), 100)}"
            ) from None


def _pixels(image: "Image.Image", source: str, size: int | None) -> ImageArray:
    from PIL import Image

    if image.width * image.height > _LARGEST_PIXELS:
        raise StagewiseError(
            f"{source}: {image.width} x {image.height} pixels: must be at most {_LARGEST_PIXELS}"
        )
    colours = image.convert("RGB")
    if size is not None and colours.size != (size, size):
        colours = colours.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(colours)


def read_samples(
    tree: FileTree, samples: list[Sample], size: int, name: str, classes: int
) -> Dataset:
    """The data set of these files, in their order, as RGB images of size x size pixels."""
    require_pillow(name)
    if len(samples) * 3 * size * size > _LARGEST_TOTAL_BYTES:
        raise StagewiseError(
            f"{tree.path}: {len(samples)} images of {size} x {size} pixels: must take at most "
            f"{_LARGEST_TOTAL_BYTES} bytes"
        )
    tests = np.array([sample.test for sample in samples])
    labels = np.array([sample.label for sample in samples], dtype=np.int64)
    images = {
        test: np.empty((np.count_nonzero(tests == test), 3, size, size), dtype=np.uint8)
        for test in (False, True)
    }
    row = np.where(tests, np.cumsum(tests), np.cumsum(~tests)) - 1
    place = {sample.file: (sample.test, int(r)) for sample, r in zip(samples, row, strict=True)}
    for file in tree.names:
        if file in place:
            test, at = place[file]
            pixels = decode_image(tree.read(file), tree.where(file), size)
            images[test][at] = pixels.transpose(2, 0, 1)
    return Dataset(
        name=name,
        train_images=images[False],
        train_labels=labels[~tests],
        test_images=images[True],
        test_labels=labels[tests],
        classes=classes,
    )


def require_pillow(name: str) -> None:
    """Say which package image files need, where it is absent."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise StagewiseError(
            f"{name}: image files need the package pillow: pip install pillow"
        ) from None
