"""MNIST and its relatives: four IDX files, plain or gzip."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from stagewise.datasets.dataset import Dataset, ImageArray, sha256_of
from stagewise.datasets.source import Contents, Found
from stagewise.errors import StagewiseError

_STEMS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
_UNSIGNED_BYTE = b"\x00\x00\x08"
_LARGEST_BYTES = 2**30


@dataclass(frozen=True)
class IdxSource:
    """A data set in MNIST's layout, in a folder of its name or as torchvision keeps it."""

    name: str
    torchvision_name: str
    contents: Contents

    @property
    def expects(self) -> str:
        files = ", ".join(f"{stem}-ubyte[.gz]" for stem in _STEMS)
        return f"{files} in {self.name}/ or {self.torchvision_name}/raw/"

    def find(self, root: Path | None) -> Found | None:
        if root is None:
            return None
        raw = Path(self.torchvision_name) / "raw"
        folders = [root / self.name, root / raw, root / self.name / raw]
        found = [_found(folder) for folder in folders]
        direct = _found(root)
        # Sets of this layout have the same file names: outside a named folder contents must tell.
        if direct is not None and self._recognises(direct):
            found.append(direct)
        return min((f for f in found if f), key=lambda f: len(f.missing), default=None)

    def _recognises(self, found: Found) -> bool:
        known = self.contents.array_sha256
        if known is None or found.missing:
            return known is None
        return sha256_of(read_idx(found.paths[3], 1).astype("<i8")) == known[3]

    def load(self, found: Found) -> Dataset:
        train_images, train_labels, test_images, test_labels = (
            read_idx(path, dimensions)
            for path, dimensions in zip(found.paths, (3, 1, 3, 1), strict=True)
        )
        dataset = Dataset(
            name=self.name,
            train_images=train_images[:, None],
            train_labels=train_labels.astype(np.int64),
            test_images=test_images[:, None],
            test_labels=test_labels.astype(np.int64),
            classes=self.contents.classes,
        )
        return self.contents.check(dataset, found.folder)


def read_idx(path: Path, dimensions: int) -> ImageArray:
    """The bytes of an IDX file as an array of so many dimensions; gzip is told by its content."""
    with _opened(path) as stream:
        header = stream.read(4 + 4 * dimensions)
        if header[:3] != _UNSIGNED_BYTE or header[3:4] != bytes([dimensions]):
            raise StagewiseError(
                f"{path}: begins with {header[:4].hex() or 'nothing'}: an IDX file of bytes with "
                f"{dimensions} dimensions begins with {_UNSIGNED_BYTE.hex()}{dimensions:02x}"
            )
        if len(header) < 4 + 4 * dimensions:
            raise StagewiseError(f"{path}: is cut short in its header")
        shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
        size = int(np.prod(shape, dtype=object))
        if size > _LARGEST_BYTES:
            raise StagewiseError(f"{path}: declares {size} bytes: must be at most {_LARGEST_BYTES}")
        content = stream.read(size + 1)
    if len(content) != size:
        found = "more" if len(content) > size else str(len(content))
        raise StagewiseError(f"{path}: declares {size} bytes and has {found}")
    return np.frombuffer(bytearray(content), np.uint8).reshape(shape)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file, and errors of reading them as the user's."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=file) as stream:
                    yield stream  # type: ignore[misc]
            else:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise StagewiseError(f"{path}: not valid gzip: it is damaged or cut short") from None
    except OSError as error:
        raise StagewiseError(f"{path}: cannot be read: {error.strerror or error}") from None


def _found(folder: Path) -> Found | None:
    paths = [_file(folder, stem) for stem in _STEMS]
    present = tuple(path for path in paths if path is not None)
    if not present:
        return None
    missing = tuple(
        f"{stem}-ubyte[.gz]" for stem, path in zip(_STEMS, paths, strict=True) if path is None
    )
    return Found("IDX", folder, present, missing)


def _file(folder: Path, stem: str) -> Path | None:
    """The file of one part; some archives write a dot before idx."""
    names = (f"{stem}-ubyte", f"{stem.replace('-idx', '.idx')}-ubyte")
    paths = (folder / f"{name}{packed}" for name in names for packed in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)
