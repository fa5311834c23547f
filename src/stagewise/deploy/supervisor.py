"""The programs of a machine, started from one process, started again when they end, and ended with it.

Programs of ours are forked from the supervisor after it has imported what they need, which takes seconds
of a processor and hundreds of megabytes once instead of once for each. On Linux the kernel kills them
when the supervisor ends, however it ends. It must not have threads of its own.
"""

import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from stagewise.child_processes import die_with_parent
from stagewise.deploy.layout import PROCESSES, PROGRAMS
from stagewise.deploy.programs import APPS, Command, Program
from stagewise.deploy.running import run
from stagewise.errors import StagewiseError
from stagewise.files import decode_json, read_bytes, write_bytes

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Before a program that ended is started again: twice as long each time."""

LASTING_S = 30.0
"""A program that ran so long has not failed to start."""

LOGS = "logs"
"""The folder of what programs print, in that of the machine."""

GRACE_S = 3.0
LOOK_EVERY_S = 1.0
_TICK_S = 0.05


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a program."""

    pid: int | None
    """None while it does not run."""
    since: float
    """When it was started last, or ended; seconds of the Unix epoch."""
    starts: int
    failures: int
    """How often in a row it ended soon after its start."""
    ended: str
    """How it ended last; empty if it never did."""
    log: str


class ProcessesFile(msgspec.Struct, frozen=True, kw_only=True):
    """`processes.json`: the programs of a machine, as the supervisor knows them."""

    format: str = "stagewise-processes/1"
    pid: int
    programs: dict[str, ProcessRecord]


def load_processes(folder: Path) -> dict[str, ProcessRecord]:
    """The programs of a machine by name; none if nothing was ever started in its folder."""
    path = folder / PROCESSES
    if not path.exists():
        return {}
    return decode_json(read_bytes(path), ProcessesFile, str(path)).programs


def last_line(log: Path) -> str:
    """The last line of a program's log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return (text.strip() or "it printed nothing").splitlines()[-1].strip()


@dataclass
class _Running:
    program: Program
    pid: int | None = None
    since: float = 0.0
    starts: int = 0
    failures: int = 0
    ended: str = ""
    due: float = 0.0
    """When to start it, on the monotonic clock."""


class Supervisor:
    """Runs programs until one that is `main` ends, or it is asked to end itself.

    `load` is called for the list of programs, at first, whenever the list in `folder` changes, and on
    SIGHUP.
    """

    def __init__(
        self,
        load: Callable[[], list[Program]],
        folder: Path,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self._load, self._folder, self._say = load, folder, say
        self._logs = folder / LOGS
        self._running: dict[str, _Running] = {}
        self._asked: int | None = None
        self._reload = True
        self._looked, self._changed = 0.0, self._list_changed()

    def run(self) -> int:
        """The exit status to end with, after all programs have ended."""
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        signal.signal(signal.SIGHUP, self._note)
        try:
            while self._asked is None:
                self._look()
                if self._reload:
                    self._reload = False
                    self._take_in()
                self._start_due()
                status = self._reap()
                if status is not None:
                    return status
                time.sleep(_TICK_S)
            return 128 + self._asked
        finally:
            self._end([each for each in self._running.values() if each.pid is not None])
            self._write()

    def _note(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._asked = number

    def _look(self) -> None:
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._looked = time.monotonic()
            changed, self._changed = self._changed, self._list_changed()
            self._reload = self._reload or changed != self._changed

    def _list_changed(self) -> float:
        try:
            return (self._folder / PROGRAMS).stat().st_mtime
        except OSError:
            return 0.0

    def _take_in(self) -> None:
        """The programs as the list has them now; those that are not in it any more are ended."""
        try:
            wanted = {program.name: program for program in self._load()}
        except StagewiseError as error:
            if not self._running:
                raise
            self._say(str(error))  # and go on with what it was
            return
        gone = [each for name, each in self._running.items() if name not in wanted]
        self._end([each for each in gone if each.pid is not None])
        for each in gone:
            del self._running[each.program.name]
        for name, program in wanted.items():
            self._running.setdefault(name, _Running(program)).program = program
        _preload([program.command for program in wanted.values()])
        self._write()

    def _start_due(self) -> None:
        due = [
            each
            for each in self._running.values()
            if each.pid is None and time.monotonic() >= each.due
        ]
        for each in due:
            each.starts += 1
            each.since = time.time()
            try:
                each.pid = self._start(each.program)
            except OSError as error:  # there is no such command, or no process left to have
                reason = f"{each.program.command[0]}: {error.strerror}"
                self._mark_ended(each, f"before it started: {reason}")
                self._delay(each)
        if due:
            self._write()

    def _start(self, program: Program) -> int:
        command = program.command
        with (self._logs / f"{program.name}.log").open("ab") as log:
            if _is_ours(command):
                return _fork(command, log.fileno())
            words = [sys.executable if word == "python" else word for word in command[:1]]
            process = subprocess.Popen(
                [*words, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=None if program.main else log,
                stderr=None if program.main else subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            process.returncode = 0  # it is waited for below, not by Python
            return process.pid

    def _reap(self) -> int | None:
        """Take note of those that ended; the exit status if that ends everything."""
        by_pid = {each.pid: each for each in self._running.values() if each.pid is not None}
        while by_pid:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return None
            each = by_pid.pop(pid, None)
            if each is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._mark_ended(each, f"by signal {-code}" if code < 0 else f"with status {code}")
            if each.program.main and code >= 0:
                return code
            self._delay(each)
        return None

    def _mark_ended(self, each: _Running, ended: str) -> None:
        ran_s = time.time() - each.since
        each.pid, each.since, each.ended = None, time.time(), ended
        each.failures = 0 if ran_s > LASTING_S else each.failures + 1

    def _delay(self, each: _Running) -> None:
        """Have a program that ended started again in a while, and say so."""
        pause_s = min(FIRST_PAUSE_S * 2 ** min(each.failures, 8), LONGEST_PAUSE_S)
        pause_s = FIRST_PAUSE_S if each.failures <= 1 else pause_s
        each.due = time.monotonic() + pause_s
        name = each.program.name
        self._write()
        self._say(
            f"{name} ended {each.ended} ({self._logs / f'{name}.log'}); "
            f"it is started again in {pause_s:g} s"
        )

    def _end(self, processes: list[_Running]) -> None:
        """End them: asked first, killed after a grace."""
        left = {each.pid for each in processes if each.pid is not None}
        for pid in left:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while left and time.monotonic() < deadline:
            left -= _ended(left)
            time.sleep(_TICK_S / 2)
        for pid in left:
            _signal(pid, signal.SIGKILL)  # and what it has started
        while left:
            left -= _ended(left)
        for each in processes:
            each.pid, each.since, each.ended = None, time.time(), "as it was asked to"

    def _write(self) -> None:
        programs = {
            name: ProcessRecord(
                pid=each.pid,
                since=each.since,
                starts=each.starts,
                failures=each.failures,
                ended=each.ended,
                log=str(self._logs / f"{name}.log"),
            )
            for name, each in self._running.items()
        }
        content = msgspec.json.encode(ProcessesFile(pid=os.getpid(), programs=programs))
        with contextlib.suppress(StagewiseError):  # a disk that is full must not end everything
            write_bytes(self._folder / PROCESSES, content + b"\n")


def _is_ours(command: Command) -> bool:
    return command[:2] == ["python", "-m"] and command[2].startswith(f"{APPS}.")


def _preload(commands: list[Command]) -> None:
    modules = sorted({command[2] for command in commands if _is_ours(command)})
    for name in modules:
        importlib.import_module(name)
    if any(not name.endswith("client_app") for name in modules):
        from stagewise.deploy.flower_api.superlink_server import preload

        preload()
    gc.freeze()  # so that looking for garbage does not copy what is shared


def _fork(command: Command, log: int) -> int:
    """A child that runs a program of ours; it shares what has been imported."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = command[2:]
        run(importlib.import_module(command[2]).main)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _ended(pids: set[int]) -> set[int]:
    ended = set()
    for pid in pids:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                ended.add(pid)
        except ChildProcessError:
            ended.add(pid)
    return ended


def _signal(pid: int, number: int) -> None:
    """To the process and all of its group, if it has not ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
