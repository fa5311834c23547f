"""Runs that are stopped at any moment go on as if nothing had happened."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

pytest.importorskip("torch")

from helpers import wait_until
from small_runs import contents, small_run, small_scenario, stopped_after
from stagewise.errors import StagewiseError
from stagewise.policies.registry import make_policy, policy_names
from stagewise.policies.remedied import Remedied
from stagewise.runs import directory as directory_module
from stagewise.runs.config import Replanning
from stagewise.runs.directory import Recorder, RunDirectory
from stagewise.runs.run import load_run
from stagewise.selection.catalogue import selector_names
from stagewise.simulator.start import resume

TESTS = Path(__file__).parents[1]
TARGET = 0.55

# Forks instead of starting again each time: a child is at work within milliseconds.
KILLER = """
import os, random, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2]]
from small_runs import small_run
from stagewise.simulator.start import resume

folder, random = Path(sys.argv[1]), random.Random(1)
rounds = folder / "rounds.jsonl"
small_run(rounds=1)  # whatever is loaded late is loaded now


def kill_after(calls, size):
    # Ends this process at so many calls of ours once the file of rounds has that size.
    def count(frame, event, argument):
        nonlocal calls
        if "stagewise" in frame.f_code.co_filename and rounds.stat().st_size >= size:
            calls -= 1
            if calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


for kill in range(20):
    # Some are killed while they find their place, most after a round or two.
    finding = kill % 4 == 0
    size = 0 if finding else rounds.stat().st_size + random.choice((200, 400, 600))
    calls = random.randrange(8_000 if finding else 4_000)  # a round has 4,000
    child = os.fork()
    if child == 0:
        kill_after(calls, size)
        resume(folder)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the run ended before it could be killed"
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    small_run(folder)
    return folder


@pytest.mark.processes
def test_twenty_kills_lose_nothing(tmp_path, monkeypatch):
    options = {"rounds": 80, "replanning": Replanning(every=10, delay_rounds=2)}
    small_run(tmp_path / "whole", **options)
    stopped_after(1, tmp_path / "killed", monkeypatch, **options)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path / "killed"), str(TESTS)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert 10 < len(load_run(tmp_path / "killed").records) < 80
    resume(tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize("rounds", range(8))
def test_stopped_after_each_round(uninterrupted, tmp_path, monkeypatch, rounds):
    """Before the first checkpoint, with a plan under way, with one just adopted, before the last."""
    stopped_after(rounds, tmp_path / "run", monkeypatch)
    assert len(load_run(tmp_path / "run").records) == rounds
    assert resume(tmp_path / "run").finished
    assert contents(tmp_path / "run") == contents(uninterrupted)


def test_stopped_with_another_forecast(tmp_path, monkeypatch):
    """What the forecast learned is in the checkpoint, and its name in the settings."""
    options = {"replanning": Replanning(every=3, absence_gap=0.9, forecast="mixture")}
    small_run(tmp_path / "whole", **options)
    stopped_after(4, tmp_path / "run", monkeypatch, **options)
    assert resume(tmp_path / "run").finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    plans = contents(tmp_path / "whole")["plans/round-000005.json"]
    small_run(tmp_path / "rolling", replanning=Replanning(every=3))
    assert plans != contents(tmp_path / "rolling")["plans/round-000005.json"]


@pytest.mark.parametrize("policy", [n for n in policy_names() if n not in selector_names()])
def test_every_policy_goes_on_byte_for_byte(tmp_path, monkeypatch, policy):
    """Selectors and associators are resumed in tests of their own."""
    follows_plan = make_policy(policy, small_scenario()).plan is not None
    replanning = Replanning(every=2, delay_rounds=1) if follows_plan else Replanning()
    options = {"policy": policy, "replanning": replanning, "rounds": 5}
    small_run(tmp_path / "whole", **options)
    stopped_after(3, tmp_path / "run", monkeypatch, **options)
    assert resume(tmp_path / "run").finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_stopped_between_any_two_writes(uninterrupted, tmp_path, monkeypatch):
    """Every byte that reaches the disk is followed by a stop, once."""
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted, folder)
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    decided = (folder / "decisions.jsonl").read_bytes()
    stopped_after(5, tmp_path / "five", monkeypatch)
    for extra in (b"", lines[5][:1], lines[5][:-1], lines[5], lines[5] + lines[6][:40]):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "five", folder)
        with (folder / "rounds.jsonl").open("ab") as stream:
            stream.write(extra)
        with (folder / "decisions.jsonl").open("ab") as stream:
            stream.write(decided[: 100 + len(extra)])
        (folder / ".checkpoint.safetensors.abc.part").write_bytes(b"begun")
        assert len(load_run(folder).records) == 5
        resume(folder)
        assert contents(folder) == contents(uninterrupted)


def test_a_finished_run_stays_as_it_is(uninterrupted):
    before = {path: path.read_bytes() for path in uninterrupted.rglob("*") if path.is_file()}
    assert resume(uninterrupted).finished
    assert {path: path.read_bytes() for path in before} == before


def test_stop_at_accuracy_is_an_end(tmp_path, monkeypatch):
    options = {"stop_at_accuracy": TARGET}
    whole = small_run(tmp_path / "whole", **options)
    assert whole.finished
    assert 3 < len(whole.records) < 8
    accuracies = [record.accuracy for record in whole.records]
    assert mean(accuracies[-3:]) >= TARGET > mean(accuracies[-4:-1])
    assert max(accuracies[:-1]) > TARGET  # one evaluation above it was no end
    assert len(whole.online) == len(whole.records)
    # Stopped after the last round was written down, before the file of rounds was cut.
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "finish", lambda self, rounds: None)
        small_run(tmp_path / "cut", **options)
    assert resume(tmp_path / "cut").finished
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.parametrize("evaluate_every", [1, 2])
def test_the_end_is_the_same_after_an_interruption_in_any_round(
    tmp_path, monkeypatch, evaluate_every
):
    """The evaluations that count are those before the interruption, too."""
    options = {"stop_at_accuracy": TARGET, "evaluate_every": evaluate_every}
    whole = small_run(tmp_path / "whole", **options)
    assert whole.finished
    for rounds in range(1, len(whole.records)):
        folder = tmp_path / str(rounds)
        stopped_after(rounds, folder, monkeypatch, **options)
        assert not load_run(folder).finished
        assert resume(folder).finished
        assert contents(folder) == contents(tmp_path / "whole")


def test_two_processes_cannot_run_it_at_once(tmp_path, monkeypatch):
    stopped_after(2, tmp_path / "run", monkeypatch)
    before = contents(tmp_path / "run")
    with (
        RunDirectory.open(tmp_path / "run").recording(),
        pytest.raises(StagewiseError, match="another process is running it"),
    ):
        resume(tmp_path / "run")
    assert contents(tmp_path / "run") == before


def test_a_full_disk_leaves_the_last_checkpoint(uninterrupted, tmp_path, monkeypatch):
    """A line is written in part, as a disk does that fills up; then there is room again."""

    def write_some(stream, content):
        nonlocal left
        part = content[: max(0, left)]
        left -= len(content)
        stream.write(part)
        if len(part) < len(content):
            raise OSError(28, "No space left on device")

    for left in (1_000, 2_200):
        folder = tmp_path / str(left)
        with monkeypatch.context() as patch:
            patch.setattr(directory_module, "_write_all", write_some)
            with pytest.raises(StagewiseError, match=r"jsonl: cannot be written: No space left"):
                small_run(folder)
        assert 0 < len(load_run(folder).records) < 8
        resume(folder)
        assert contents(folder) == contents(uninterrupted)


def command(*arguments: str, before: str = "") -> list[str]:
    call = f"{sys.executable} -m stagewise {' '.join(arguments)}"
    return ["bash", "-c", f"{before} exec {call}"]


def test_a_real_limit_on_file_size_is_one_line(tmp_path, monkeypatch):
    """The shell lets no file grow beyond 12 KiB: the disk is full, for all the process knows."""
    options = {"rounds": 40, "model": "mlp", "replanning": Replanning()}
    stopped_after(1, tmp_path / "run", monkeypatch, **options)
    done = subprocess.run(
        command("resume", str(tmp_path / "run"), "--workers", "1", before="ulimit -f 12;"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert last.startswith(f"stagewise: {tmp_path}/run/")
    assert last.endswith("cannot be written: File too large")
    assert "Traceback" not in done.stderr
    assert 1 < len(load_run(tmp_path / "run").records) < 40


@pytest.mark.processes
def test_ctrl_c_says_how_to_go_on(tmp_path):
    """The signal goes to the whole group, as from a terminal; workers stay silent."""
    folder = tmp_path / "run"
    process = subprocess.Popen(
        command(
            *(["simulate", "--dataset", "digits", "--policy", "c2e-assoc-only", "--rounds", "500"]),
            *("--workers", "2", "--out", str(folder)),
        ),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until((folder / "checkpoint.safetensors").exists, 100)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == (
        f"stagewise: interrupted; to go on: stagewise resume {folder}"
    )
    assert "Traceback" not in errors
    assert 0 < len(load_run(folder).records) < 500


def test_a_policy_given_as_an_object_is_asked_for_again(tmp_path, monkeypatch):
    """A wrapper has the name of the policy in it; without it the run would go on as another."""
    policy = Remedied(make_policy("c2e-assoc-only", small_scenario()), "drop")
    out = tmp_path / "run"

    small_run(tmp_path / "whole", policy=policy, replanning=Replanning())
    with monkeypatch.context() as patch:
        true, calls = Recorder.add, []

        def add(self, *arguments):
            true(self, *arguments)
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt

        patch.setattr(Recorder, "add", add)
        with pytest.raises(KeyboardInterrupt):
            small_run(out, policy=policy, replanning=Replanning())
    with pytest.raises(StagewiseError, match="policy: must be given again"):
        resume(out)
    resume(out, policy=policy)
    assert contents(out) == contents(tmp_path / "whole")
