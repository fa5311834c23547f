"""A digest of the sources that decide what comes out of a cell."""

import hashlib
from functools import cache
from pathlib import Path

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


def digest_of(package: Path) -> str:
    """The digest of the sources below the folder of the package."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(_EXPERIMENTS) and not name.startswith(_WITH_EFFECT):
            continue
        if name.startswith(_WITHOUT_EFFECT):
            continue
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
