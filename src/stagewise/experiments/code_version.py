"""A digest of the sources that decide what comes out of a cell."""

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from stagewise.policy import ENTRY_POINTS

_WITHOUT_EFFECT = (
    "__main__.py",
    "check/",
    "cli/",
    "comparison.py",
    "deploy/",
    "flower/",
    "report/",
    "testing.py",
)
"""What only users touch."""
_EXPERIMENTS = "experiments/"
_WITH_EFFECT = ("experiments/measures/", "experiments/setting.py")
"""Of the experiments: the rest only orders and presents what these measure."""


@cache
def code_version() -> str:
    """16 hexadecimal digits, the same wherever the sources are."""
    return digest_of(Path(__file__).parent.parent)


@cache
def policy_version(name: str) -> str | None:
    """The same for the sources of the package that a policy comes from; None for our own."""
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name:
            spec = find_spec(point.module.partition(".")[0])
            if spec is None:
                return None
            if spec.submodule_search_locations:
                return _digest(Path(next(iter(spec.submodule_search_locations))), lambda name: True)
            return hashlib.sha256(Path(str(spec.origin)).read_bytes()).hexdigest()[:16]
    return None


def digest_of(package: Path) -> str:
    """The digest of our own sources below the folder of the package."""
    return _digest(package, _has_effect)


def _has_effect(name: str) -> bool:
    if name.startswith(_EXPERIMENTS):
        return name.startswith(_WITH_EFFECT)
    return not name.startswith(_WITHOUT_EFFECT)


def _digest(folder: Path, wanted: Callable[[str], bool]) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if wanted(name):
            content = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
