"""Runs under a folder: those of `simulate` and `deploy up`, finished, stopped or going on."""

from pathlib import Path
from typing import Any

import msgspec

from stagewise.deploy.records import DEPLOYMENT, LIVE, STATUS
from stagewise.errors import StagewiseError, one_line
from stagewise.runs.directory import (
    CONFIG,
    DECISIONS,
    ONLINE,
    PLAN,
    ROUNDS,
    SCENARIO,
    RunDirectory,
    is_running,
)
from stagewise.runs.run import Run, load_run
from stagewise.serve.refusals import Refusal, Unknown

FILES = (CONFIG, SCENARIO, ONLINE, PLAN, DECISIONS, ROUNDS, LIVE, STATUS, DEPLOYMENT)
"""What may be fetched of a run."""

_DEEPEST = 3
_MOST = 2000


class RunSummary(msgspec.Struct, kw_only=True, frozen=True):
    """A run as lists show it."""

    name: str
    policy: str | None = None
    dataset: str | None = None
    rounds: int = 0
    complete: int = 0
    """Rounds that are."""
    running: bool = False
    deployed: bool = False
    accuracy: float | None = None
    cost: float | None = None
    """Of all rounds together."""
    changed: float = 0.0
    error: str | None = None
    files: list[str] = []
    """Those that can be fetched."""


class RunsFolder:
    """The runs in a folder and the folders in it."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)

    def names(self) -> list[str]:
        """The paths of all runs below the folder, with slashes."""
        if self.path is None or not self.path.is_dir():
            return []
        found: list[str] = []
        level = [self.path]
        for _ in range(_DEEPEST):
            below: list[Path] = []
            for folder in level:
                for inner in _folders(folder):
                    if (inner / CONFIG).is_file():
                        found.append(inner.relative_to(self.path).as_posix())
                    else:
                        below.append(inner)
                    if len(found) == _MOST:
                        return sorted(found)
            level = below
        return sorted(found)

    def folder(self, name: str) -> Path:
        """The folder of a run; nothing outside of ours can be reached."""
        if self.path is not None and "\0" not in name:
            parts = name.split("/")
            folder = self.path.joinpath(*parts)
            inside = all(part not in ("", ".", "..") for part in parts)
            try:
                if inside and (folder / CONFIG).is_file():
                    return folder
            except OSError:  # a name that no file can have
                pass
        raise Unknown(f"run {one_line(repr(name), 80)}: must be one of those that are listed")

    def run(self, name: str) -> Run:
        return load_run(self.folder(name))

    def file(self, name: str, file: str) -> Path:
        """A file of a run."""
        path = self.folder(name) / file
        if file not in FILES or not path.is_file():
            raise Unknown(f"run {name!r}: has no file {one_line(repr(file), 80)}")
        return path

    def content(self, name: str, file: str, first: int = 0, count: int | None = None) -> bytes:
        """What a file holds of complete rounds; the end of a line that is being written is left out.

        Of a file of lines, so many from number `first` on.
        """
        content = self.file(name, file).read_bytes()
        if not file.endswith(".jsonl"):
            if first or count is not None:
                raise Refusal(f"first, count: must not be given for {file}, which has no lines")
            return content
        lines = content.split(b"\n")[:-1]
        if file in (DECISIONS, ROUNDS, LIVE):
            lines = lines[: RunDirectory(self.folder(name)).complete]
        return b"".join(line + b"\n" for line in lines[first:][:count])

    def summary(self, name: str) -> RunSummary:
        """What is told of a run in lists; of one that cannot be read, why."""
        folder = self.folder(name)
        there = [file for file in FILES if (folder / file).is_file()]
        told: dict[str, Any] = {"name": name, "files": there}
        try:
            directory = RunDirectory(folder)
            config, records = directory.config(), directory.rounds()
            running, changed = is_running(folder), (folder / ROUNDS).stat().st_mtime
        except (StagewiseError, OSError) as error:
            return RunSummary(**told, error=one_line(str(error)))
        known = [record.accuracy for record in records if record.accuracy is not None]
        return RunSummary(
            **told,
            policy=config.policy,
            dataset=config.dataset,
            rounds=config.rounds,
            complete=len(records),
            running=running,
            deployed=(folder / DEPLOYMENT).is_file(),
            accuracy=known[-1] if known else None,
            cost=sum(record.objective for record in records),
            changed=changed,
        )


def _folders(folder: Path) -> list[Path]:
    try:
        return [inner for inner in folder.iterdir() if inner.is_dir() and inner.name[0] != "."]
    except OSError:
        return []
