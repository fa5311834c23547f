"""Small sets that come with Python packages: no download."""

import gzip
import importlib.util
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stagewise.datasets.dataset import Dataset
from stagewise.datasets.source import Contents, Found
from stagewise.errors import StagewiseError, one_line
from stagewise.world.scenario import BoolArray, IntArray

_TEST_EVERY = 5


@dataclass(frozen=True)
class EmbeddedSource:
    """Square grey images as the rows of a CSV file in a package, each with its label at the end.

    The file is read from where the package lies, without importing the package, which would
    import far more. Of every class the fifth, tenth, ... image is for testing.
    """

    name: str
    package: str
    distribution: str
    """What is to be installed for the package."""
    file: str
    brightest: int
    """The value that stands for white."""
    contents: Contents

    @property
    def expects(self) -> str:
        return f"{self.file} in the package {self.package}: pip install {self.distribution}"

    def find(self, root: Path | None) -> Found | None:
        spec = importlib.util.find_spec(self.package)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder) / self.file
            if path.is_file():
                return Found(f"package {self.distribution}", path.parent, (path,))
        return None

    def load(self, found: Found) -> Dataset:
        (path,) = found.paths
        try:
            with gzip.open(path, "rt", encoding="ascii") as stream:
                table = np.loadtxt(stream, delimiter=",", dtype=np.int64, ndmin=2)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise StagewiseError(f"{path}: cannot be read: {one_line(str(error), 100)}") from None
        values, labels = table[:, :-1], table[:, -1]
        side = int(np.sqrt(values.shape[1]))
        bright = (values * 255 + self.brightest // 2) // self.brightest
        images = bright.astype(np.uint8).reshape(-1, 1, side, side)
        test = _every_fifth(labels)
        train = ~test
        splits = images[train], labels[train], images[test], labels[test]
        return self.contents.dataset(self.name, path, *splits)


def _every_fifth(labels: IntArray) -> BoolArray:
    """Which images are for testing, by their places within their classes."""
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], labels[order])
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels)) - first
    return np.asarray(place % _TEST_EVERY == _TEST_EVERY - 1)
