"""MNIST and its relatives: four IDX files, plain or gzip."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stagewise.datasets.dataset import Dataset, ImageArray, sha256_of
from stagewise.datasets.source import Contents, Found, found_files
from stagewise.errors import StagewiseError
from stagewise.files import unpacked

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
        images = [read_idx(path, 3)[:, None] for path in found.paths[::2]]
        labels = [read_idx(path, 1).astype(np.int64) for path in found.paths[1::2]]
        splits = images[0], labels[0], images[1], labels[1]
        return self.contents.dataset(self.name, found.folder, *splits)


def read_idx(path: Path, dimensions: int) -> ImageArray:
    """The bytes of an IDX file as an array of so many dimensions; gzip is told by its content."""
    with unpacked(path) as stream:
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


def _found(folder: Path) -> Found | None:
    files = {f"{stem}-ubyte[.gz]": _file(folder, stem) for stem in _STEMS}
    return found_files("IDX", folder, files)


def _file(folder: Path, stem: str) -> Path | None:
    """The file of one part; some archives write a dot before idx."""
    names = (f"{stem}-ubyte", f"{stem.replace('-idx', '.idx')}-ubyte")
    paths = (folder / f"{name}{packed}" for name in names for packed in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)
