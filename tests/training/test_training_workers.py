"""Worker processes: the same results whatever their number, and no end that leaves one behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_cases import (  # noqa: E402
    groups_of,
    largest_difference,
    nan_for_large_batches,
    noisy_network,
    small_task,
    smoothed_loss,
)

from stagewise.errors import StagewiseError  # noqa: E402
from stagewise.training import TrainingTeam  # noqa: E402

GROUPS = groups_of([4, 0], [], [2, 3, 6], [1])

FAST = small_task("mnist-cnn", (1, 28, 28), dtype="float32")
LEAN = small_task(noisy_network, dtype="float32", loss=smoothed_loss, momentum=0.5)


def two_rounds(task, workers):
    with TrainingTeam(task, workers) as team:
        weights = team.train_round(team.initial_weights(), GROUPS[:1], 0)
        weights = team.train_round(weights, GROUPS, 1)
        return weights, team.evaluate(weights)


@pytest.mark.parametrize(("task", "workers"), [(FAST, 2), (FAST, 3), (LEAN, 2)])
def test_results_do_not_depend_on_the_number_of_workers(task, workers):
    alone, evaluation = two_rounds(task, 1)
    together, same = two_rounds(task, workers)
    assert largest_difference(alone, together) == 0
    assert evaluation == same
    assert not multiprocessing.active_children()


def test_a_killed_worker_ends_the_round_with_one_line():
    with TrainingTeam(LEAN, 2) as team:
        weights = team.train_round(team.initial_weights(), GROUPS, 0)
        victim = multiprocessing.active_children()[0]
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(StagewiseError) as caught:
            team.train_round(weights, GROUPS, 1)
        assert "was killed by signal 9" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not multiprocessing.active_children()
        with pytest.raises(StagewiseError, match="the training team is closed"):
            team.evaluate(weights)


def test_divergence_in_a_worker_names_the_client():
    task = small_task(loss=nan_for_large_batches)
    with TrainingTeam(task, 2) as team:
        with pytest.raises(StagewiseError, match=r"^client 4: .* is nan"):
            team.train_round(team.initial_weights(), GROUPS, 0)
        assert not multiprocessing.active_children()


def test_a_model_that_other_processes_cannot_import_is_refused():
    task = small_task(lambda: noisy_network())
    with pytest.raises(StagewiseError, match="must be functions that other processes can import"):
        TrainingTeam(task, 2)
    assert not multiprocessing.active_children()


SCRIPT = """
import multiprocessing, sys, time
sys.path.insert(0, {folder!r})
from training_cases import groups_of, small_task
from stagewise.training import TrainingTeam

if __name__ == "__main__":
    team = TrainingTeam(small_task(), 2)
    team.train_round(team.initial_weights(), groups_of([0, 1], [2]), 0)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the state of processes from /proc")
def test_workers_die_with_a_killed_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(_alive(pid) for pid in workers)
        parent.kill()
    deadline = time.monotonic() + 60
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in workers)


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
