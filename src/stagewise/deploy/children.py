"""Processes that end with the one that started them, whatever ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from stagewise.errors import StagewiseError

GRACE_S = 3.0
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


class Children:
    """Processes by name, each with a log of its own in `logs`; none outlives this process.

    On Linux the kernel kills them when the thread that started them ends, also by `kill -9`.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._environment = logs, dict(os.environ) | dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._parent = os.getpid()
        self._prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str | Path]) -> None:
        """Start a process; what it prints is added to its log."""
        self.kill(name)
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # Ctrl-C is for the parent, which then ends them in order.
                start_new_session=True,
                preexec_fn=None if self._prctl is None else self._die_with_parent,
            )

    def kill(self, name: str) -> None:
        """End a process at once, with whatever it started; none of the name is no error."""
        process = self._running.pop(name, None)
        if process is not None:
            _signal(process, signal.SIGKILL)
            process.wait()

    def ended(self) -> list[str]:
        """The names of processes that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def running(self) -> dict[str, int]:
        """The process ids by name."""
        return {name: p.pid for name, p in self._running.items() if p.poll() is None}

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def last_line(self, name: str) -> str:
        """The last line of a process's log."""
        log = self.log(name)
        text = log.read_text(errors="replace") if log.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it printed nothing"

    def end(self) -> None:
        """End all: asked first, killed after a grace."""
        for process in self._running.values():
            _signal(process, signal.SIGTERM)
        give_up = time.monotonic() + GRACE_S
        for process in self._running.values():
            try:
                process.wait(max(give_up - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                pass
            finally:
                _signal(process, signal.SIGKILL)
        for process in self._running.values():
            process.wait()
        self._running = {}

    def _die_with_parent(self) -> None:
        assert self._prctl is not None
        self._prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != self._parent:  # it died before the kernel knew
            os._exit(1)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for_port(children: Children, name: str, port: int, deadline_s: float) -> None:
    """Until the process listens; an error with its last words if it ends or takes too long."""
    give_up = time.monotonic() + deadline_s
    while time.monotonic() < give_up:
        if name not in children.running():
            raise StagewiseError(f"{name}: ended: {children.last_line(name)}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise StagewiseError(f"{name}: not ready within {deadline_s:.0f} s: {children.last_line(name)}")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the process and all of its group, if it has not ended."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return
