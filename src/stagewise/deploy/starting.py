"""The start of a deployment, for those who wait for it: its phase, and who has not answered yet."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from stagewise.deploy.exchange import Transport
from stagewise.deploy.in_process import covering_edges
from stagewise.errors import StagewiseError
from stagewise.files import decode_json, explained, read_bytes, write_bytes
from stagewise.runs.progress import announce
from stagewise.world.scenario import Scenario

STARTING = "starting.json"
"""In the folder beside the run's own, which does not exist before its first round."""

SAY_EVERY_S = 5.0
ROLL_CALL_S = 20.0
_PAUSE_S = 0.2
_NAMED = 8


class StartRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is going on before the first round."""

    format: str = "stagewise-starting/1"
    phase: str
    began: float
    """When the phase began, in seconds of the Unix epoch."""
    changed: float
    pid: int
    links: int = 0
    """How many links there are to wait for."""
    missing: list[str] = []
    """The links that nobody has answered through yet."""
    processes: dict[str, int] = {}
    """The programs on this machine that run, by name."""


def beside(out: Path) -> Path:
    """The folder beside a run's own: keys, logs, and what is known before there is a run."""
    whole = out.resolve()
    return whole.with_name(f"{whole.name}.site")


class Start:
    """Says how far a start is: in a file that `deploy status` reads and, where asked to, in lines."""

    def __init__(self, folder: Path, show: bool = False) -> None:
        self._folder, self._show = folder, show
        self._phase, self._began, self._said = "", 0.0, 0.0
        self.processes: Callable[[], Mapping[str, int]] = dict
        """The programs on this machine; set by whoever starts them."""

    def phase(self, name: str) -> None:
        """A new phase begins."""
        self._phase, self._began, self._said = name, time.time(), time.monotonic()
        self._say(name)
        self._write((), 0)

    def missing(self, missing: Sequence[tuple[str, str]], links: int) -> None:
        """So many of the links have not been answered through."""
        names = [f"{client} at {edge}" for client, edge in missing]
        self._write(names, links)
        if time.monotonic() >= self._said + SAY_EVERY_S:
            self._said = time.monotonic()
            taken_s = time.time() - self._began
            self._say(
                f"{links - len(names)} of {links} links have answered after {taken_s:.0f} s; "
                f"missing: {listed(names)}"
            )

    def over(self) -> None:
        """The rounds begin."""
        with contextlib.suppress(OSError):
            (self._folder / STARTING).unlink(missing_ok=True)

    def _say(self, line: str) -> None:
        if self._show:
            announce(line)

    def _write(self, missing: Sequence[str], links: int) -> None:
        record = StartRecord(
            phase=self._phase,
            began=self._began,
            changed=time.time(),
            pid=os.getpid(),
            links=links,
            missing=list(missing),
            processes=dict(self.processes()),
        )
        with explained(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(self._folder / STARTING, msgspec.json.encode(record) + b"\n")


@contextlib.contextmanager
def starting(out: Path, show: bool = False) -> Iterator[Start]:
    """The start of the run in `out`; its record goes when the block ends."""
    start = Start(beside(out), show)
    try:
        yield start
    finally:
        start.over()


def read_start(out: str | Path) -> StartRecord | None:
    """The start that is under way for the run in `out`; None if there is none."""
    path = beside(Path(out)) / STARTING
    if not path.exists():
        return None
    record = decode_json(read_bytes(path), StartRecord, str(path))
    return record if _runs(record.pid) else None


def wait_for_links(
    scenario: Scenario,
    transport: Transport,
    wait_s: float,
    start: Start,
    check: Callable[[], None] = lambda: None,
) -> list[tuple[str, str]]:
    """Call the roll until every link has been answered through once, or `wait_s` have passed.

    Answers accumulate: on a busy machine they need not come in the same roll call. Returns the links,
    by client and edge, that nobody answered through; `check` may end the wait.
    """
    deadline = time.monotonic() + wait_s
    links = [(client, e) for client, edges in covering_edges(scenario).items() for e in edges]
    missing = links
    while missing and (left_s := deadline - time.monotonic()) > 0:
        check()
        edges_of = transport.roll_call(min(left_s, ROLL_CALL_S)).edges_of
        missing = [(client, e) for client, e in missing if e not in edges_of.get(client, ())]
        start.missing(missing, len(links))
        if missing:
            time.sleep(min(left_s, _PAUSE_S))
    return missing


def all_must_answer(missing: Sequence[tuple[str, str]]) -> None:
    """Refuse to go on without some."""
    if missing:
        names = [f"{client} at {edge}" for client, edge in missing]
        raise StagewiseError(f"{listed(names)}: must answer, and did not in time")


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
