"""The data that cells read: by name, whether they are found, and what tells two copies apart."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from stagewise.datasets.catalogue import SOURCES, available, data_root
from stagewise.errors import StagewiseError
from stagewise.instances.real_systems import EUA_WINDOW_FILES, MESH_FILES
from stagewise.world.generate import TASKS
from stagewise_experiments.measures.scenarios import TRACE_FILE
from stagewise_experiments.setting import Setting

_FILES = {"eua": EUA_WINDOW_FILES, "nycmesh": MESH_FILES, "availability-trace": (TRACE_FILE,)}
"""Data other than images, with their places below the data folder."""

MISSING = "missing"


def data_of(setting: Setting) -> list[str]:
    """The data that a cell reads."""
    names = [setting.dataset] if setting.measure == "training" else []
    task = setting.scenario.task or setting.dataset
    if task not in TASKS and task not in names:  # its sizes are counted
        names.append(task)
    if setting.scenario.kind in _FILES:
        names.append(setting.scenario.kind)
    if setting.participation.model == "trace":
        names.append("availability-trace")
    return names


def missing_data() -> set[str]:
    """The data sets and files that are not found here."""
    root = data_root()
    missing = {finding.name for finding in available() if not finding.found}
    return missing | {name for name in _FILES if not _found(name, root)}


def fingerprint(name: str) -> str:
    """A digest of the data of that name, or `missing`."""
    found = _fingerprint(name, data_root())
    if found == MISSING:
        _fingerprint.cache_clear()  # it may be there when it is asked for again
    return found


@cache
def _fingerprint(name: str, root: Path | None) -> str:
    if name in _FILES:
        found = _found(name, root)
        return _digest(found) if found else MISSING
    source = SOURCES[name]
    images = source.find(root)
    if images is None or images.missing:
        return MISSING
    contents = getattr(source, "contents", None)
    if contents is not None and contents.array_sha256 is not None:
        # Whatever the layout: other contents are refused when they are read.
        return hashlib.sha256("\n".join(contents.array_sha256).encode()).hexdigest()
    return _digest(list(images.paths))


def _found(name: str, root: Path | None) -> list[Path]:
    """The files of data other than images; none unless all are there."""
    paths = [] if root is None else [root / file for file in _FILES[name]]
    return paths if all(path.is_file() for path in paths) else []


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    try:
        for path, name in _files(paths):
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{name}\n{content}\n".encode())
    except OSError as error:
        raise StagewiseError(f"{error.filename}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def _files(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Every file with its name below its folder, wherever that is."""
    for path in paths:
        if path.is_file():
            yield path, path.name
        else:
            below = sorted(p for p in path.rglob("*") if p.is_file())
            yield from ((p, p.relative_to(path).as_posix()) for p in below)
