"""Child processes that end with the process that started them, however that one ends."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
# Loaded now: between fork and exec a process must not load libraries.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent ends; on Linux only.

    It is meant for programs that are not ours, as the `preexec_fn` of `subprocess.Popen`. The kernel
    also acts when the *thread* that started the process ends. `parent` is the process id of the
    parent, if it may have ended before this is called.
    """
    if _PRCTL is None:
        return
    _PRCTL(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def exit_with_parent() -> None:
    """End this `multiprocessing` process with its parent, even in the middle of a computation.

    On every system, and whichever thread of the parent started it.
    """
    threading.Thread(target=_wait_and_exit, daemon=True).start()


def _wait_and_exit() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
