"""How the hot loops are compiled, and where the compiled code is kept."""

import hashlib
import os
import platform
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import njit


def _use_plain_tuning() -> None:
    """Compile for all instructions this processor has, but scheduled as for any x86-64.

    LLVM's model of some processors (znver4) makes the search fifteen times slower than its plain
    one. Who sets numba's own variables decides for themselves.
    """
    settings: Any = numba.config
    given = settings.CPU_NAME is not None or settings.CPU_FEATURES is not None
    if platform.machine().lower() in ("x86_64", "amd64") and not given:
        settings.CPU_FEATURES = llvm.get_host_cpu_features().flatten()
        settings.CPU_NAME = "x86-64"


_use_plain_tuning()


def compiled(function: Any) -> Any:
    """Compile `function` for the search: kept on disk, the GIL released, without reference counts.

    The search hands tuples of some thirty arrays from function to function. Counting references to
    each of them at every call took three quarters of the time; nothing compiled here allocates or
    keeps an array, so none needs counting.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _cache_folder()
    try:
        return njit(**options)(function)
    finally:
        settings.CACHE_DIR = before


@cache
def _cache_folder() -> str:
    """A folder for this very state of the compiled sources.

    numba notices a change in a function's own file, but not in a function that it calls from another
    one; with a folder for each state, code of two states can never mix.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(source)
    name = digest.hexdigest()[:16]
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(user) / "stagewise" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    # Without a home of one's own: a private folder, for this process alone.
    return str(folder) if usable else tempfile.mkdtemp(prefix="stagewise-")
