"""Runs under a folder, and what the service needs to look at them."""

import subprocess
import sys

import pytest

from small_runs import small_run
from stagewise.errors import StagewiseError
from stagewise.runs.checkpoint_files import CHECKPOINT
from stagewise.runs.config import Replanning
from stagewise.runs.directory import RunDirectory
from stagewise.serve.event_routes import rounds_of_run
from stagewise.serve.runs_folder import RunsFolder
from stagewise.simulator.start import resume

OTHERS = "cryptography flwr torch mlxtend PIL pandas matplotlib jinja2 yaml distributed psycopg"
OTHERS += " opentelemetry"
"""What other extras bring."""

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"{name}: of another extra", name=name)

sys.meta_path.insert(0, Blocked())
import stagewise.serve.app, stagewise.serve.server
"""


def test_the_service_starts_with_what_its_extra_brings():
    command = [sys.executable, "-c", BLOCKED, *OTHERS.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_that_lost_a_file_is_listed_with_the_reason(tmp_path):
    small_run(tmp_path / "a", rounds=1)
    for lost in ("decisions.jsonl", "rounds.jsonl"):
        kept = (tmp_path / "a" / lost).read_bytes()
        (tmp_path / "a" / lost).unlink()
        found = RunsFolder(tmp_path).summary("a")
        assert found.error is not None
        assert lost in found.error
        (tmp_path / "a" / lost).write_bytes(kept)
    assert RunsFolder(tmp_path).summary("a").error is None


def test_rounds_of_a_run_are_read_again_only_when_there_are_more(tmp_path, monkeypatch):
    small_run(tmp_path / "a", rounds=3)
    read, content = [], RunsFolder.content

    def counted(self, name, file, *part):
        read.append(file)
        return content(self, name, file, *part)

    monkeypatch.setattr(RunsFolder, "content", counted)
    checkpoint = tmp_path / "a" / CHECKPOINT
    kept = checkpoint.read_bytes()
    checkpoint.unlink()
    newer = rounds_of_run(RunsFolder(tmp_path), "a")
    assert newer(-1) == []
    assert read == []
    checkpoint.write_bytes(kept)
    assert [number for number, _, _ in newer(0)] == [1, 2]
    assert newer(2) == newer(2) == []
    assert len(read) == 1


def test_of_a_run_that_went_back_the_newest_round_is_told_again(tmp_path):
    """Also if it has as many rounds again before anybody looks: they are others now."""
    small_run(tmp_path / "a", policy="fedcs", rounds=4, replanning=Replanning())
    newer = rounds_of_run(RunsFolder(tmp_path), "a")
    assert [number for number, _, _ in newer(-1)] == [0, 1, 2, 3]
    RunDirectory(tmp_path / "a").roll_back(1)
    assert [number for number, _, _ in newer(3)] == [1]
    resume(tmp_path / "a")
    assert [number for number, _, _ in newer(1)] == [2, 3]
    RunDirectory(tmp_path / "a").roll_back(1)
    resume(tmp_path / "a")
    assert [number for number, _, _ in newer(3)] == [3]
    assert newer(3) == []


def test_a_file_is_read_on_from_where_its_reader_left_off(tmp_path):
    """Lines of rounds that are not complete, and one that is being written, are not there yet."""
    small_run(tmp_path / "a", policy="fedcs", rounds=5, replanning=Replanning())
    folder = RunsFolder(tmp_path)
    RunDirectory(tmp_path / "a").roll_back(3)
    for file, known in (("decisions.jsonl", 4), ("rounds.jsonl", 4), ("online.jsonl", 5)):
        with (tmp_path / "a" / file).open("ab") as stream:
            stream.write(b'{"not compl')
        lines = folder.content("a", file).splitlines(keepends=True)
        assert len(lines) == known
        for first in range(known + 2):
            assert folder.content("a", file, first) == b"".join(lines[first:])
            assert folder.content("a", file, first, 2) == b"".join(lines[first : first + 2])
    with pytest.raises(StagewiseError, match=r"scenario\.json, which has no lines"):
        folder.content("a", "scenario.json", 1)
