"""Compiled code by parts: loaded from disk, or compiled where this machine has not done so before.

A part is a function that calls all of its compiled functions once.
`python -m stagewise.loading MODULE:PART …` compiles parts, for a process that asked for them.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numba

from stagewise import compiled
from stagewise.cores import available_cores

Part = Callable[[], None]

LOGGER = logging.getLogger(__name__)
"""Receives a line before something is compiled, which takes seconds."""

_loaded: set[Part] = set()


def load(*parts: Part) -> None:
    """Load or compile `parts`; those that are not on disk are shared out among the cores there are."""
    missing = [part for part in parts if part not in _loaded and not is_compiled(part)]
    if missing and not _is_interpreted():
        LOGGER.info("compiling for this machine, once; this takes seconds")
        processes = min(available_cores(), len(missing)) if code_folder() is not None else 1
        with _compiled_elsewhere(*(missing[place::processes] for place in range(1, processes))):
            for part in missing[::processes]:
                _load(part)
    for part in parts:
        _load(part)


def is_compiled(part: Part) -> bool:
    """Whether the part is on disk, as the sources are now and for this processor."""
    folder = code_folder()
    return folder is not None and _mark(folder, part).exists()


def code_folder() -> Path | None:
    """Where other processes find what one has compiled; None where nothing is compiled or kept."""
    return None if _is_interpreted() else compiled.lasting_folder()


def _is_interpreted() -> bool:
    """Whether numba is told to compile nothing."""
    settings: Any = numba.config
    return bool(settings.DISABLE_JIT)


def _mark(folder: Path, part: Part) -> Path:
    return folder / f"{part.__module__}.{part.__name__}"


def _load(part: Part) -> None:
    if part in _loaded:
        return
    part()
    _loaded.add(part)
    folder = code_folder()
    if folder is not None:
        _mark(folder, part).touch()


@contextmanager
def _compiled_elsewhere(*shares: list[Part]) -> Iterator[None]:
    """Compile each of `shares` in another process. What goes wrong there is left to this one."""
    quiet = subprocess.DEVNULL
    processes = []
    for share in shares if sys.executable else ():
        names = (f"{part.__module__}:{part.__name__}" for part in share)
        command = [sys.executable, "-P", "-m", __name__, *names]  # -P: no modules of this folder
        with suppress(OSError):
            processes.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))
    try:
        yield
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    for given in sys.argv[1:]:
        module, _, name = given.partition(":")
        load(getattr(import_module(module), name))
