"""A digest of the sources that decide what comes out of a cell."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import stagewise
from stagewise.policies.registry import ENTRY_POINTS
from stagewise.selection.catalogue import LABEL_WEIGHTS, parts_of

_WITHOUT_EFFECT = (
    "__main__.py",
    "checker/",
    "cli/",
    "comparison.py",
    "deploy/",
    "flower/",
    "report/",
    "testing.py",
)
"""Of the library: what only users touch."""
_TRAINING = ("datasets/", "models/", "training/", "runs/", "simulator/", "versions.py")
"""Of the library: what only comes after a decision."""
_WITH_EFFECT = ("measures/", "regimes.py", "setting.py")
"""Of the experiments: the rest only schedules and presents what these measure."""
_DECIDING = ("measures/decided.py",)
"""Of the experiments: what makes policies of settings."""


@cache
def code_version() -> str:
    """16 hexadecimal digits, the same wherever the sources are."""
    return digest_of(*_packages())


@cache
def deciding_version() -> str:
    """The same of the sources that decide, given a scenario and rounds."""
    return deciding_digest_of(*_packages())


@cache
def policy_version(name: str) -> str | None:
    """The same for the sources of the packages that a policy comes from; None for our own."""
    # Behind a colon stands how a method is read.
    own = name.removesuffix(LABEL_WEIGHTS).partition(":")[0]
    named = [(ENTRY_POINTS, own)]
    groups = (f"stagewise.{kind}s" for kind in ("selector", "associator"))
    for group, part in zip(groups, parts_of(name) or (), strict=False):
        named.append((group, part.partition(",")[0]))
    found = [
        version
        for group, wanted in named
        for point in entry_points(group=group)
        if point.name == wanted and (version := _package_version(point.module)) is not None
    ]
    return "+".join(found) or None


def _package_version(module: str) -> str | None:
    spec = find_spec(module.partition(".")[0])
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return _digest(_sources(Path(next(iter(spec.submodule_search_locations)))))
    return hashlib.sha256(Path(str(spec.origin)).read_bytes()).hexdigest()[:16]


def digest_of(library: Path, experiments: Path) -> str:
    """The digest of our own sources below the folders of the two packages."""
    return _digest_without(library, _WITHOUT_EFFECT, experiments, _WITH_EFFECT)


def deciding_digest_of(library: Path, experiments: Path) -> str:
    """The same of those that decide."""
    return _digest_without(library, _WITHOUT_EFFECT + _TRAINING, experiments, _DECIDING)


def _packages() -> tuple[Path, Path]:
    return Path(stagewise.__file__).parent, Path(__file__).parent


def _digest_without(
    library: Path, without: tuple[str, ...], experiments: Path, only: tuple[str, ...]
) -> str:
    ours = [(n, path) for n, path in _sources(library) if not n.startswith(without)]
    measures = [(n, path) for n, path in _sources(experiments) if n.startswith(only)]
    return _digest([*ours, *((f"experiments/{name}", path) for name, path in measures)])


def _sources(folder: Path) -> list[tuple[str, Path]]:
    """Every module below the folder, with its name there."""
    return [(p.relative_to(folder).as_posix(), p) for p in sorted(folder.rglob("*.py"))]


def _digest(sources: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in sources:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
