"""The checkpoints of a run: the newest, and those kept of the rounds before it."""

import os
from dataclasses import dataclass
from pathlib import Path

from stagewise.errors import StagewiseError
from stagewise.files import explained, read_bytes, write_bytes
from stagewise.runs.chain import CHAIN, digest, load_chain
from stagewise.runs.checkpoint import load_round
from stagewise.runs.config import RunConfig

CHECKPOINT, CHECKPOINTS = "checkpoint.safetensors", "checkpoints"


@dataclass(frozen=True)
class CheckpointFiles:
    """The files in the folder of a run."""

    folder: Path

    @property
    def newest(self) -> Path:
        return self.folder / CHECKPOINT

    def kept(self) -> dict[int, Path]:
        """Those before the newest by their rounds, oldest first."""
        found = sorted((self.folder / CHECKPOINTS).glob("round-*.safetensors"))
        return {int(path.stem.removeprefix("round-")): path for path in found}

    def of(self, round_index: int) -> Path | None:
        """The checkpoint after a round, if there is one."""
        if self.newest.exists() and load_round(self.newest) == round_index:
            return self.newest
        return self.kept().get(round_index)

    def replace(self, config: RunConfig, round_index: int, content: bytes) -> None:
        """Make `content` the newest; the one before is kept as long as the settings say."""
        if self.newest.exists():
            self._keep(load_round(self.newest))
        write_bytes(self.newest, content)
        self.prune(config, round_index)

    def prune(self, config: RunConfig, newest: int) -> None:
        """Remove what is not to be kept when `newest` is the last complete round.

        Kept is the last evaluated round, too: a run returns to it when training collapses.
        """
        oldest = newest + 1 - config.keep_checkpoints
        wanted = set(range(oldest, newest))
        for last in (newest, oldest):  # whichever of the kept ones the run may return to
            wanted.add(next((r for r in range(last, -1, -1) if config.evaluates(r)), -1))
        for round_index, path in self.kept().items():
            if round_index not in wanted or round_index == newest:
                with explained(path):
                    path.unlink()
        folder = self.folder / CHECKPOINTS
        if folder.is_dir() and not any(folder.iterdir()):
            with explained(folder):
                folder.rmdir()

    def fault(self, path: Path) -> str:
        """Why a checkpoint is not as it was written; empty if it is, or if nothing says how it was."""
        if not path.exists():
            return ""
        content = read_bytes(path)  # first: the line of its round is there before it is
        digests = {link.checkpoint for link in load_chain(self.folder)}
        if not digests or digest(content) in digests:
            return ""
        return f"{path}: damaged: its SHA-256 is not the one in {CHAIN}"

    def faults(self) -> list[str]:
        """Those of all checkpoints."""
        return [fault for path in self._newest_first() if (fault := self.fault(path))]

    def repair(self) -> list[str]:
        """Put the newest undamaged checkpoint in the place of a damaged or missing one.

        Returned is a line for each that is refused on the way.
        """
        refused: list[str] = []
        for path in self._newest_first():
            fault = self.fault(path)
            if fault:
                refused.append(fault)
                continue
            if path != self.newest:
                write_bytes(self.newest, read_bytes(path))
            return refused
        if refused:
            raise StagewiseError(f"{refused[0]}; there is no other that is undamaged")
        return refused

    def go_back(self, to: int) -> None:
        """Make the checkpoint after round `to` the newest."""
        path = self.kept().get(to)
        if path is None:
            known = ", ".join(map(str, self.kept())) or "none"
            raise StagewiseError(f"to = {to}: must be a round whose checkpoint is kept: {known}")
        fault = self.fault(path)
        if fault:
            raise StagewiseError(fault)
        write_bytes(self.newest, read_bytes(path))

    def _newest_first(self) -> list[Path]:
        return [path for path in (self.newest, *reversed(self.kept().values())) if path.exists()]

    def _keep(self, round_index: int) -> None:
        path = self.folder / CHECKPOINTS / f"round-{round_index:06d}.safetensors"
        with explained(path):
            path.parent.mkdir(exist_ok=True)
            if path.exists():
                return
            try:
                os.link(self.newest, path)
            except OSError:  # a file system without links
                write_bytes(path, read_bytes(self.newest))
