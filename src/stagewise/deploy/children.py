"""Processes that end with the one that started them, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from stagewise.child_processes import die_with_parent

GRACE_S = 6.0


class Children:
    """Processes by name, each with a log of its own in `logs`; none outlives this process.

    On Linux the kernel kills them when the thread that started them ends, also by `kill -9`.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._environment = logs, dict(os.environ) | dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str | Path], say: bool = False) -> None:
        """Start a process; what it prints is added to its log, or with `say` what it says on
        standard output; the rest is said here."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if say else subprocess.STDOUT,
                env=self._environment,
                # Ctrl-C is for the parent, which then ends them in order.
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )

    def ended(self) -> list[str]:
        """The names of processes that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def running(self) -> dict[str, int]:
        """The process ids by name."""
        return {name: p.pid for name, p in self._running.items() if p.poll() is None}

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def listens(self, port: int) -> bool:
        """Whether anybody listens at a port of this machine."""
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End all: asked first, killed after a grace."""
        for process in self._running.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.01))
            _signal(process, signal.SIGKILL)  # and what it has started
            process.wait()
        self._running = {}


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody uses at the moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the process and all of its group, if it has not ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
