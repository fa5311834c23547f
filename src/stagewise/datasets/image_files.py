"""Decoding PNG and JPEG files to arrays of bytes."""

import io
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """The data set of these files, by class and name, as RGB images of size x size pixels."""
    require_pillow(name)
    samples = sorted(samples, key=lambda sample: (sample.label, sample.file))
    if len(samples) * 3 * size * size > _LARGEST_TOTAL_BYTES:
        raise StagewiseError(
            f"{tree.path}: {len(samples)} images of {size} x {size} pixels: must take at most "
            f"{_LARGEST_TOTAL_BYTES} bytes"
        )
    place: dict[str, tuple[ImageArray, int]] = {}
    splits: list[Any] = []
    for test in (False, True):
        own = [sample for sample in samples if sample.test == test]
        images = np.empty((len(own), 3, size, size), dtype=np.uint8)
        place |= {sample.file: (images, row) for row, sample in enumerate(own)}
        splits += [images, np.array([sample.label for sample in own], dtype=np.int64)]
    for file in tree.names:
        if file in place:
            images, row = place[file]
            pixels = decode_image(tree.read(file), tree.where(file), size)
            images[row] = pixels.transpose(2, 0, 1)
    return Dataset(name, splits[0], splits[1], splits[2], splits[3], classes)


def require_pillow(name: str) -> None:
    """Say which package image files need, where it is absent."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise StagewiseError(
            f"{name}: image files need the package pillow: pip install pillow"
        ) from None
