"""What the readers of all data sets share: where files are found, and what a name promises."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stagewise.datasets.checksums import Digests
from stagewise.datasets.dataset import Dataset, Splits
from stagewise.errors import StagewiseError


@dataclass(frozen=True)
class Found:
    """The files of a data set, in one of the layouts it comes in."""

    layout: str
    folder: Path
    paths: tuple[Path, ...]
    missing: tuple[str, ...] = ()
    """Names of files that are missing in the folder; with any, the set cannot be loaded."""

    @property
    def size_bytes(self) -> int:
        """What the files take on the disk."""
        return sum(_size(path) for path in self.paths)


def found_files(layout: str, folder: Path, files: Mapping[str, Path | None]) -> Found | None:
    """The files that there are, by the names of those that there should be; None without any."""
    present = tuple(path for path in files.values() if path is not None)
    missing = tuple(name for name, path in files.items() if path is None)
    return Found(layout, folder, present, missing) if present else None


class Source(Protocol):
    """A data set by name: how to find and read its files."""

    @property
    def name(self) -> str: ...

    @property
    def expects(self) -> str:
        """The files, as an error message names them."""

    def find(self, root: Path | None) -> Found | None:
        """The files below a data folder; None where there is no trace of them. Reads no images."""

    def load(self, found: Found) -> Dataset:
        """Read what `find` has found complete."""


@dataclass(frozen=True)
class Contents:
    """What a data set must hold to go by its name."""

    classes: int
    train: int
    test: int
    array_sha256: Digests | None = None
    """As `Dataset.array_sha256`, where the contents are the same in every copy and known."""

    def dataset(self, name: str, where: Path, *splits: *Splits) -> Dataset:
        """The data set of these images and labels, both splits', if it is what its name says."""
        return self.check(Dataset(name, *splits, self.classes), where)

    def check(self, dataset: Dataset, where: Path) -> Dataset:
        """`dataset` if it is what its name says."""
        found = (dataset.classes, len(dataset.train_labels), len(dataset.test_labels))
        if found != (self.classes, self.train, self.test):
            raise StagewiseError(
                f"{where}: {found[0]} classes, {found[1]} training and {found[2]} test images: "
                f"{dataset.name} has {self.classes}, {self.train} and {self.test}"
            )
        if self.array_sha256 is not None:
            kinds = ("training images", "training labels", "test images", "test labels")
            for kind, digest, known in zip(
                kinds, dataset.array_sha256, self.array_sha256, strict=True
            ):
                if digest != known:
                    raise StagewiseError(
                        f"{where}: {kind}: not those of {dataset.name}: SHA-256 is {digest}, "
                        f"must be {known}"
                    )
        return dataset


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(path)
        for name in names
        if (Path(folder) / name).is_file()
    )
