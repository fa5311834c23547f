"""CIFAR-10 and CIFAR-100: python and binary batches, archived or not, and PNG sheets."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from stagewise.datasets.dataset import Dataset, ImageArray
from stagewise.datasets.file_tree import open_tree, read_bounded
from stagewise.datasets.image_files import decode_image, require_pillow
from stagewise.datasets.pickled import read_pickled
from stagewise.datasets.source import Contents, Found, found_files
from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json
from stagewise.world.scenario import IntArray

_SIDE = 32
_VALUES = 3 * _SIDE * _SIDE
_SHEET_LABELS = ("train_lables.json", "test_lables.json")  # as the sheets' publisher spells it


class _Batch(NamedTuple):
    images: ImageArray
    labels: IntArray


@dataclass(frozen=True)
class CifarSource:
    """A data set in CIFAR's layouts. Of several labels of an image the finest, the last, is read."""

    name: str
    published_name: str
    """As in the names of the archives."""
    train_batches: tuple[str, ...]
    test_batches: tuple[str, ...]
    folders: Mapping[str, str]
    """Where the archive of each layout (python, binary) unpacks to."""
    label_key: str
    """Of the labels in a python batch."""
    label_bytes: int
    """Before each image of a binary batch."""
    contents: Contents
    batch_md5: Mapping[str, str]
    """Of the batch files as published, by name, where that is known."""

    @property
    def expects(self) -> str:
        return (
            f"{self.published_name}-python.tar.gz or {self.published_name}-binary.tar.gz, or their "
            f"files, or {self.train_batches[0]}.png, ... with {' and '.join(_SHEET_LABELS)}, "
            f"in {self.name}/ or {self.published_name}/"
        )

    @property
    def _batches(self) -> tuple[str, ...]:
        return (*self.train_batches, *self.test_batches)

    def find(self, root: Path | None) -> Found | None:
        if root is None:
            return None
        found = [
            candidate
            for folder in (root / self.name, root / self.published_name, root)
            for candidate in self._candidates(folder)
        ]
        return min(found, key=lambda f: len(f.missing), default=None)

    def _candidates(self, folder: Path) -> Iterator[Found]:
        """The layouts of which anything is in the folder, the quickest to read first."""
        for layout, suffix in (("binary", ".bin"), ("python", "")):
            for place in (folder / self.folders[layout], folder):
                yield from _files(layout, place, [f"{batch}{suffix}" for batch in self._batches])
        for layout in ("binary", "python"):
            for suffix in (".tar", ".tar.gz"):
                archive = folder / f"{self.published_name}-{layout}{suffix}"
                if archive.is_file():
                    yield Found(f"{layout} archive", folder, (archive,))
        sheets = [f"{batch}.png" for batch in self._batches]
        yield from _files("PNG sheets", folder, [*sheets, *_SHEET_LABELS])

    def load(self, found: Found) -> Dataset:
        read = self._sheets if found.layout == "PNG sheets" else self._read_batches
        batches = read(found)
        train, test = (
            [
                np.concatenate(parts)
                for parts in zip(*(batches[name] for name in names), strict=True)
            ]
            for names in (self.train_batches, self.test_batches)
        )
        return self.contents.dataset(self.name, found.folder, train[0], train[1], test[0], test[1])

    def _read_batches(self, found: Found) -> dict[str, _Batch]:
        """The batches of a folder or an archive, of the binary or the python kind."""
        binary = found.layout.startswith("binary")
        wanted = {f"{batch}.bin" if binary else batch: batch for batch in self._batches}
        parse = self._binary if binary else self._python
        batches = {}
        for name, where, content in _contents(found, wanted.keys()):
            self._check_md5(name, content, where)
            batches[wanted[name]] = parse(content, where)
        if missing := [file for file, batch in wanted.items() if batch not in batches]:
            raise StagewiseError(f"{found.paths[0]}: must have {', '.join(missing)}")
        return batches

    def _check_md5(self, name: str, content: bytes, where: str) -> None:
        known = self.batch_md5.get(name)
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if known is not None and digest != known:
            raise StagewiseError(
                f"{where}: not that of {self.name}: MD5 is {digest}, must be {known}"
            )

    def _python(self, content: bytes, where: str) -> _Batch:
        record = read_pickled(content, where)
        images, labels = record.get("data"), record.get(self.label_key)
        if not isinstance(images, np.ndarray) or images.shape[1:] != (_VALUES,):
            raise StagewiseError(
                f"{where}: data: must be an array of {_VALUES} bytes for each image"
            )
        return _Batch(_planes(images), _labels(labels, len(images), f"{where}: {self.label_key}"))

    def _binary(self, content: bytes, where: str) -> _Batch:
        row = self.label_bytes + _VALUES
        if len(content) % row or not content:
            raise StagewiseError(f"{where}: has {len(content)} bytes: must be a multiple of {row}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, row)
        labels = rows[:, self.label_bytes - 1].astype(np.int64)
        return _Batch(_planes(rows[:, self.label_bytes :]), labels)

    def _sheets(self, found: Found) -> dict[str, _Batch]:
        require_pillow(self.name)
        *sheets, train_labels, test_labels = found.paths
        images = {path.stem: _sheet(path) for path in sheets}
        batches = {}
        for names, path in ((self.train_batches, train_labels), (self.test_batches, test_labels)):
            amounts = [len(images[name]) for name in names]
            record = decode_json(read_bounded(path), list[int], str(path))
            labels = _labels(record, sum(amounts), str(path))
            parts = np.split(labels, np.cumsum(amounts)[:-1])
            for name, part in zip(names, parts, strict=True):
                batches[name] = _Batch(images[name], part)
        return batches


def _files(layout: str, folder: Path, names: list[str]) -> Iterator[Found]:
    paths = {name: folder / name for name in names}
    there = {name: path if path.is_file() else None for name, path in paths.items()}
    if found := found_files(layout, folder, there):
        yield found


def _contents(found: Found, wanted: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    """(name, place for errors, bytes) of the wanted files, one at a time."""
    if not found.layout.endswith("archive"):
        for path in found.paths:
            yield path.name, str(path), read_bounded(path)
        return
    with open_tree(found.paths[0]) as tree:
        for file in tree.names:
            name = PurePosixPath(file).name
            if name in wanted:
                yield name, tree.where(file), tree.read(file)


def _planes(rows: ImageArray) -> ImageArray:
    return rows.reshape(-1, 3, _SIDE, _SIDE)


def _sheet(path: Path) -> ImageArray:
    """A picture with an image in each row: 1024 pixels, which are 32 x 32."""
    pixels = decode_image(read_bounded(path), str(path))
    if pixels.shape[1] != _SIDE * _SIDE:
        raise StagewiseError(
            f"{path}: is {pixels.shape[1]} pixels wide: must be {_SIDE * _SIDE}, an image in a row"
        )
    return np.ascontiguousarray(pixels.reshape(-1, _SIDE, _SIDE, 3).transpose(0, 3, 1, 2))


def _labels(values: object, amount: int, where: str) -> IntArray:
    if not isinstance(values, list) or len(values) != amount:
        raise StagewiseError(f"{where}: must be a list of {amount} labels, one for each image")
    for number, value in enumerate(values):
        if type(value) is not int or not 0 <= value < 2**31:
            raise StagewiseError(f"{where}[{number}] = {shown(value)}: must be a label")
    return np.array(values, dtype=np.int64)
