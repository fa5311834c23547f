"""A run on disk: every file of it, consistent whenever the process or the machine stops."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any

import msgspec

from stagewise.decisions import DecisionRecord
from stagewise.errors import StagewiseError
from stagewise.files import (
    decode_json_lines,
    explained,
    json_lines,
    read_bytes,
    umask,
    write_bytes,
    write_json_lines,
)
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import State
from stagewise.plans import Plan
from stagewise.plans import load_plan as read_plan
from stagewise.plans import save_plan as write_plan
from stagewise.pool.library_file import library_name
from stagewise.runs.chain import (
    CHAIN,
    chain_faults,
    chain_lines,
    lines_by_round,
    load_chain,
    next_chain_line,
)
from stagewise.runs.checkpoint import (
    checkpoint_content,
    load_defence,
    load_round,
    load_state,
    load_weights,
)
from stagewise.runs.checkpoint_files import CHECKPOINT, CheckpointFiles
from stagewise.runs.config import RunConfig, load_config, to_toml
from stagewise.runs.events import Event
from stagewise.runs.records import RoundRecord
from stagewise.world.rounds import Round
from stagewise.world.rounds_file import load_rounds, save_rounds
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import load_scenario, save_scenario

CONFIG, SCENARIO, ONLINE, PLAN = "config.toml", "scenario.json", "online.jsonl", "plan.json"
DECISIONS, ROUNDS = "decisions.jsonl", "rounds.jsonl"
EVENTS, PLANS = "events.jsonl", "plans"
NEXT = "next"
"""A folder of files that are to take the places of those of the same names."""


@dataclass(frozen=True)
class RunDirectory:
    """The files of a run.

    A round is complete once the checkpoint says so. Its lines are on disk before that, so that
    the two line files hold at least the rounds of the checkpoint; what they hold beyond is
    left by a process that was stopped, and is cut off when the run goes on.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """The run in `path`."""
        if not (Path(path) / CONFIG).is_file():
            raise StagewiseError(f"{path}: not a run: there must be a {CONFIG} in it")
        return cls(Path(path))

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: RunConfig,
        scenario: Scenario,
        rounds: Sequence[Round],
        plan: Plan | None,
        beside: Mapping[str, bytes] | None = None,
    ) -> "RunDirectory":
        """A new run in `path`, which must not exist or be empty; it appears whole or not at all.

        `beside` are further files, by name.
        """
        target = Path(path)
        part = _new_part(target)
        try:
            with explained(target):
                part.chmod(0o777 & ~umask())
            _write_start(part, config, scenario, plan)
            save_rounds(rounds, part / ONLINE)
            for name, content in {DECISIONS: b"", ROUNDS: b"", **(beside or {})}.items():
                write_bytes(part / name, content)
            with explained(target):
                if target.is_dir():
                    target.rmdir()
                part.rename(target)
        except BaseException as error:
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, StagewiseError):
                # The user knows the folder by its own name.
                raise StagewiseError(str(error).replace(str(part), str(target))) from None
            raise
        return cls(target)

    def config(self) -> RunConfig:
        return load_config(self.path / CONFIG)

    def scenario(self) -> Scenario:
        return load_scenario(self.path / SCENARIO)

    def online(self, scenario: Scenario) -> list[Round]:
        """Every round the run goes through."""
        return load_rounds(self.path / ONLINE, scenario)

    def plan(self, scenario: Scenario) -> Plan | None:
        """The plan the run began with, for a policy that has one."""
        path = self.path / PLAN
        return read_plan(path, scenario) if path.exists() else None

    def load_plan(self, ordered_in: int, made_for: Scenario) -> Plan | None:
        """The plan that was ordered in a round, once it has taken effect."""
        path = self._later_plan(ordered_in)
        return read_plan(path, made_for) if path.exists() else None

    def save_plan(self, ordered_in: int, plan: Plan) -> None:
        """Keep a plan that takes effect while the run goes on."""
        path = self._later_plan(ordered_in)
        with explained(path):
            path.parent.mkdir(exist_ok=True)
        write_plan(plan, path)

    def later_plans(self) -> list[Path]:
        """The files of plans ordered while the run went on, oldest first."""
        return sorted((self.path / PLANS).glob("round-*.json"))

    @property
    def complete(self) -> int:
        """How many rounds are complete, by the newest checkpoint."""
        path = self.path / CHECKPOINT
        return load_round(path) + 1 if path.exists() else 0

    def weights_of(self, round_index: int) -> ModelWeights | None:
        """The model after a round whose checkpoint is kept and undamaged; None of another."""
        path = self._checkpoints.of(round_index)
        return None if path is None or self._checkpoints.fault(path) else load_weights(path)

    def check_undamaged(self) -> None:
        """Raise an error where the newest checkpoint is not as it was written."""
        fault = self._checkpoints.fault(self.path / CHECKPOINT)
        if fault:
            raise StagewiseError(f"{fault}; going on with the run uses the one before it")

    def faults(self) -> list[str]:
        """What in records and checkpoints is not as it was written; a line each."""
        return [*chain_faults(self.path, self.complete), *self._checkpoints.faults()]

    def repair(self) -> list[str]:
        """Let the newest undamaged checkpoint be the newest; a line for each that is refused."""
        with self._locked():
            return self._checkpoints.repair()

    def roll_back(self, to: int) -> None:
        """Undo all rounds after `to` (from 0), whose checkpoint must be kept."""
        with self._locked():
            before = self.complete
            if to != before - 1:
                self._checkpoints.go_back(to)
                reason = f"by hand, from round {before}"
                event = Event(round=to + 1, kind="rolled-back", to=to, reason=reason)
                self._cut_events()
                _append(self.path / EVENTS, b"".join(json_lines([event])))
        with self.recording():
            pass  # which cuts off what is beyond the checkpoint

    @property
    def _checkpoints(self) -> "CheckpointFiles":
        return CheckpointFiles(self.path)

    def change_scenario(self, config: RunConfig, scenario: Scenario, plan: Plan | None) -> None:
        """Go on with another scenario and the plan for it; all of it is changed, or nothing."""
        with self._locked():
            part = _new_part(self.path / NEXT)
            try:
                _write_start(part, config, scenario, plan)
                with explained(part):
                    part.rename(self.path / NEXT)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
            self._take_next()

    def _take_next(self) -> None:
        """Put files in their places that a process which was stopped since had ready."""
        following = self.path / NEXT
        if following.exists():
            with explained(following):
                for path in sorted(following.iterdir()):
                    path.replace(self.path / path.name)
                following.rmdir()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.path / DECISIONS
        with explained(path), FileIO(path, "r+") as stream:
            lock(stream, self.path)
            self._take_next()
            yield

    def state(self) -> State:
        """The policy's state after the last complete round."""
        return load_state(self.path / CHECKPOINT)

    def defence(self) -> State:
        """What the run knew about wrong updates after the last complete round."""
        return load_defence(self.path / CHECKPOINT)

    def weights(self) -> ModelWeights:
        """The model after the last complete round."""
        return load_weights(self.path / CHECKPOINT)

    def rounds(self) -> list[RoundRecord]:
        """The lines of all complete rounds."""
        return self._records(ROUNDS, RoundRecord)

    def decisions(self) -> list[DecisionRecord]:
        """The decisions of all complete rounds."""
        return self._records(DECISIONS, DecisionRecord)

    def events(self) -> list[Event]:
        """What happened beside training in all complete rounds."""
        path, complete = self.path / EVENTS, self.complete
        # What follows the last line break is a line that was never finished.
        content = read_bytes(path).rpartition(b"\n")[0] if path.exists() else b""
        events = decode_json_lines(content, Event, str(path))
        # A round that was undone by hand is to be played again.
        undone = complete, "rolled-back"
        return [e for e in events if e.round < complete or (e.round, e.kind) == undone]

    @contextlib.contextmanager
    def recording(self) -> Iterator["Recorder"]:
        """Add rounds after the last complete one; only one process may at a time."""
        with contextlib.ExitStack() as stack:
            streams = {}
            for name in (DECISIONS, ROUNDS):
                with explained(self.path / name):
                    streams[name] = stack.enter_context(FileIO(self.path / name, "r+"))
            lock(streams[DECISIONS], self.path)
            self._take_next()
            self._sweep()
            complete = self.complete
            for name, stream in streams.items():
                kept = sum(len(line) + 1 for line in self._lines(name, complete))
                with explained(self.path / name):
                    stream.truncate(kept)
                    stream.seek(kept)
            self._cut_events()
            self._cut_chain()
            self._cut_plans()
            config = self.config()
            self._checkpoints.prune(config, complete - 1)
            yield Recorder(self, streams, config)

    def finish(self, rounds: Sequence[Round]) -> None:
        """Leave the rounds that took place alone in the file of rounds."""
        done = self.complete
        self._checkpoints.prune(self.config(), done - 1)
        if done < len(rounds):
            save_rounds(rounds[:done], self.path / ONLINE)

    def _cut_events(self) -> None:
        """Leave the events of complete rounds alone in their file."""
        path, events = self.path / EVENTS, self.events()
        if events:
            write_json_lines(path, events)
        elif path.exists():
            with explained(path):
                path.unlink()

    def _cut_chain(self) -> None:
        """Leave the records of complete rounds alone in the chain."""
        lines, records = chain_lines(self.path), load_chain(self.path)
        complete = self.complete
        pairs = zip(lines, records, strict=True)
        kept = [line + b"\n" for line, record in pairs if record.round < complete]
        if (self.path / CHAIN).exists():
            write_bytes(self.path / CHAIN, b"".join(kept))

    def _cut_plans(self) -> None:
        """Leave the plans ordered in complete rounds: in others, another may be ordered."""
        kept = self._later_plan(self.complete).name
        for path in self.later_plans():
            if path.name >= kept:
                for part in (path.with_name(library_name(path)), path):
                    with explained(part):
                        part.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what a killed process had begun to write."""
        for part in list(self.path.rglob(".*.part")):
            with explained(part):
                if part.is_dir():
                    shutil.rmtree(part)
                else:
                    part.unlink(missing_ok=True)

    def _later_plan(self, ordered_in: int) -> Path:
        return self.path / PLANS / f"round-{ordered_in:06d}.json"

    def _records(self, name: str, kind: type[Any]) -> list[Any]:
        lines = self._lines(name, self.complete)
        records = decode_json_lines(b"\n".join(lines), kind, str(self.path / name))
        if [record.round for record in records] != list(range(len(lines))):
            raise StagewiseError(f"{self.path / name}: the rounds must be in order, from 0 on")
        return records

    def _lines(self, name: str, count: int) -> list[bytes]:
        # What follows the last line break is a line that was never finished.
        lines = read_bytes(self.path / name).split(b"\n")[:-1]
        if len(lines) < count:
            raise StagewiseError(
                f"{self.path / name}: has {len(lines)} lines: must have at least {count}, as "
                f"{CHECKPOINT} says"
            )
        return lines[:count]


class Recorder:
    """Adds rounds to a run's files."""

    def __init__(
        self, directory: RunDirectory, streams: Mapping[str, FileIO], config: RunConfig
    ) -> None:
        self._directory, self._streams, self._config = directory, streams, config
        self._last_chain_line = next(reversed(chain_lines(directory.path)), None)

    def add(
        self,
        record: RoundRecord,
        decision: DecisionRecord,
        weights: ModelWeights,
        state: State,
        defence: State,
        events: Sequence[Event] = (),
        beside: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write down a round: first its lines, then the checkpoint that makes it count.

        `beside` are lines of the round that others wrote, by the names of their files.
        """
        path, lines = self._directory.path, dict(beside or {})
        if events:
            _append(path / EVENTS, b"".join(json_lines(events)))
        if (path / EVENTS).exists():
            lines[EVENTS] = lines_by_round(path / EVENTS).get(record.round, b"")
        for name, line in ((DECISIONS, decision), (ROUNDS, record)):
            lines[name] = msgspec.json.encode(line) + b"\n"
            with explained(path / name):
                _write_all(self._streams[name], lines[name])
                os.fsync(self._streams[name].fileno())
        content = checkpoint_content(weights, record.round, state, defence)
        self._last_chain_line = next_chain_line(self._last_chain_line, record.round, content, lines)
        _append(path / CHAIN, self._last_chain_line + b"\n")
        CheckpointFiles(path).replace(self._config, record.round, content)


def _write_start(folder: Path, config: RunConfig, scenario: Scenario, plan: Plan | None) -> None:
    """What a run begins with: its settings, the scenario, and the plan of a policy that has one."""
    save_scenario(scenario, folder / SCENARIO)
    if plan is not None:
        write_plan(plan, folder / PLAN)
    write_bytes(folder / CONFIG, _encoded(config))


def check_unused(path: str | Path) -> None:
    """Raise an error unless a new run can begin at `path`."""
    _new_part(Path(path)).rmdir()


def _new_part(path: Path) -> Path:
    """A folder beside `path` to fill and then rename; there must be nothing at `path`."""
    with explained(path):
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
        run = taken and (path / CONFIG).exists()
    if run:
        raise StagewiseError(
            f"{path}: holds a run already; to go on with it: stagewise resume {path}"
        )
    if taken:
        raise StagewiseError(f"{path}: must be a new or an empty folder")
    if path.parent.exists() and not path.parent.is_dir():
        raise StagewiseError(f"{path.parent}: must be a folder")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        return Path(name)


def _encoded(config: RunConfig) -> bytes:
    try:
        return to_toml(config).encode()
    except UnicodeEncodeError:
        raise StagewiseError("file names and names must be valid Unicode") from None


def _append(path: Path, content: bytes) -> None:
    """Add to a file; it is on disk when this returns."""
    with explained(path), FileIO(path, "a") as stream:
        _write_all(stream, content)
        os.fsync(stream.fileno())


def _write_all(stream: FileIO, content: bytes) -> None:
    """A full disk takes a part of the content before it refuses the rest."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def lock(stream: IO[bytes] | FileIO, path: Path) -> None:
    """Keep other processes out for as long as `stream` is open; a killed process keeps nobody out."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    for last in (False, True):
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if last:
                raise StagewiseError(f"{path}: another process is running it") from None
            time.sleep(0.2)  # `deploy status` holds it for a moment to see whether another does
        except OSError:  # a file system without locks
            return


def is_running(folder: Path) -> bool:
    """Whether a process is at work on the run: it holds a lock as long as it lives."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return False
    with (folder / DECISIONS).open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False
