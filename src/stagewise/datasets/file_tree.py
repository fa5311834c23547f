"""A folder, a tar or a zip file as the same thing: names of files, and their bytes.

Archives are never unpacked to the disk; names in them that would leave the folder are refused.
"""

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from stagewise.errors import StagewiseError, one_line, shown
from stagewise.files import read_bytes

ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")

_LARGEST_FILE = 2**28
_LARGEST_COUNT = 2_000_000
_TAR_BLOCK = 512
_LARGEST_PADDING = 2**24


@dataclass(frozen=True)
class FileTree:
    """Files by their names, which have slashes between folders on every system."""

    path: Path
    names: list[str]
    """In the order in which reading them all is quickest."""
    content: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        with _explained(self.path):
            return self.content(name)

    def where(self, name: str) -> str:
        """The file as an error message names it."""
        return str(self.path / name) if self.path.is_dir() else f"{self.path}: {name}"


@contextmanager
def open_tree(path: Path) -> Iterator[FileTree]:
    """The files below a folder or in an archive; what it is shows in its content, not its name."""
    if path.is_dir():
        yield FileTree(path, _names_below(path), lambda name: read_bounded(path / name))
        return
    with _explained(path):
        file = path.open("rb")
    with file:
        with _explained(path):
            tree = _archive_tree(path, file)
        yield tree


def read_bounded(path: Path) -> bytes:
    """The bytes of a file, unless it is larger than any file of a data set."""
    with _explained(path):
        _check_size(path.parent, path.name, path.stat().st_size)
    return read_bytes(path)


def archive_stem(path: Path) -> str | None:
    """The name of an archive without its suffix; None for what is not named like one."""
    for suffix in ARCHIVE_SUFFIXES:
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    return None


def _names_below(path: Path) -> list[str]:
    names: list[str] = []
    for folder, _, files in os.walk(path):
        inside = Path(folder).relative_to(path)
        names += [(inside / name).as_posix() for name in files]
        _check_count(path, len(names))
    return sorted(names)


def _archive_tree(path: Path, file: IO[bytes]) -> FileTree:
    magic = file.read(2)
    file.seek(0)
    if magic == b"PK":
        return _zip_tree(path, zipfile.ZipFile(file))
    if magic == b"\x1f\x8b":
        return _tar_tree(path, _Bounded(path, gzip.GzipFile(fileobj=file)))
    return _tar_tree(path, _Bounded(path, file))


def _zip_tree(path: Path, archive: zipfile.ZipFile) -> FileTree:
    members = {
        _inside(path, member.filename): member
        for member in sorted(archive.infolist(), key=lambda member: member.header_offset)
        if not member.is_dir()
    }
    _check_count(path, len(members))

    def content(name: str) -> bytes:
        _check_size(path, name, members[name].file_size)
        return archive.read(members[name])

    return FileTree(path, list(members), content)


def _tar_tree(path: Path, stream: "_Bounded") -> FileTree:
    places: dict[str, tuple[int, int]] = {}
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            # A sparse file has no single place; images and batches are never sparse.
            if member.isreg() and not member.issparse():
                places[_inside(path, member.name)] = (member.offset_data, member.size)
                _check_count(path, len(places))
        # The module takes a broken header for the end; the end is a block of zeros. Reading on
        # through the padding lets gzip compare its checksum.
        stream.seek(archive.offset)
        rest = stream.read(_LARGEST_PADDING)
        if not rest.startswith(bytes(_TAR_BLOCK)) or len(rest) == _LARGEST_PADDING:
            raise EOFError

    def content(name: str) -> bytes:
        offset, size = places[name]
        stream.seek(offset)
        found = stream.read(size)
        if len(found) < size:
            raise EOFError
        return found

    return FileTree(path, list(places), content)


class _Bounded(io.BufferedIOBase):
    """A stream for `tarfile` that reads no more at once than a file may have.

    A header can declare any size, and a small gzip file can really have it.
    """

    def __init__(self, path: Path, stream: IO[bytes] | gzip.GzipFile) -> None:
        self.path = path
        self.stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        amount = -1 if size is None else size
        _check_size(self.path, "a part of it", amount)
        return self.stream.read(amount)

    def seek(self, place: int, whence: int = io.SEEK_SET, /) -> int:
        return self.stream.seek(place, whence)

    def tell(self) -> int:
        return self.stream.tell()


def _inside(path: Path, name: str) -> str:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise StagewiseError(f"{path}: member {shown(name)}: must stay inside the archive")
    return parts.as_posix()


def _check_count(path: Path, count: int) -> None:
    if count > _LARGEST_COUNT:
        raise StagewiseError(f"{path}: must have at most {_LARGEST_COUNT} files")


def _check_size(path: Path, name: str, size: int) -> None:
    if not 0 <= size <= _LARGEST_FILE:
        raise StagewiseError(
            f"{path}: {shown(name)}: declares {size} bytes: must be at most {_LARGEST_FILE}"
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except StagewiseError:
        raise
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError):
        raise StagewiseError(f"{path}: not a valid archive: it is damaged or cut short") from None
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError is an encrypted or unknown kind of zip file.
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StagewiseError(f"{path}: cannot be read: {one_line(reason)}") from None
