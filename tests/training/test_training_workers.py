"""Worker processes: the same results whatever their number, and no end that leaves one behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_cases import (  # noqa: E402
    assert_like_figures,
    groups_of,
    largest_difference,
    nan_for_large_batches,
    noisy_network,
    small_task,
    smoothed_loss,
)

from helpers import wait_until  # noqa: E402
from stagewise.errors import StagewiseError  # noqa: E402
from stagewise.training import Trainer  # noqa: E402

GROUPS = groups_of([4, 0], [], [2, 3, 6], [1])

BATCHED = small_task("mnist-cnn", (1, 28, 28), dtype="float32")
MODULE = small_task(noisy_network, dtype="float32", loss=smoothed_loss, momentum=0.5)


def two_rounds(task, workers):
    with Trainer(task, workers) as trainer:
        weights, _ = trainer.train_round(trainer.initial_weights(), GROUPS[:1], 0)
        weights, figures = trainer.train_round(weights, GROUPS, 1)
        losses = trainer.losses(weights, np.arange(5)).tolist()
        return weights, figures, (trainer.evaluate(weights), losses)


@pytest.mark.parametrize(("task", "workers"), [(BATCHED, 2), (BATCHED, 3), (MODULE, 2)])
def test_results_do_not_depend_on_the_number_of_workers(task, workers):
    alone, figures, evaluation = two_rounds(task, 1)
    together, same_figures, same = two_rounds(task, workers)
    assert_like_figures(figures, same_figures, tolerance=0)
    assert largest_difference(alone, together) == 0
    assert evaluation == same
    assert not multiprocessing.active_children()


def test_a_killed_worker_ends_the_round_with_one_line():
    with Trainer(MODULE, 2) as trainer:
        weights, _ = trainer.train_round(trainer.initial_weights(), GROUPS, 0)
        victim = multiprocessing.active_children()[0]
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(StagewiseError) as caught:
            trainer.train_round(weights, GROUPS, 1)
        assert "was killed by signal 9" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not multiprocessing.active_children()
        with pytest.raises(StagewiseError, match="the trainer is closed"):
            trainer.evaluate(weights)


def test_divergence_in_a_worker_names_the_client():
    task = small_task(loss=nan_for_large_batches)
    with Trainer(task, 2) as trainer:
        with pytest.raises(StagewiseError, match=r"^client 4: .* is nan"):
            trainer.train_round(trainer.initial_weights(), GROUPS, 0)
        assert not multiprocessing.active_children()


def test_a_model_that_other_processes_cannot_import_is_refused():
    task = small_task(lambda: noisy_network())
    with pytest.raises(StagewiseError, match="must be functions that other processes can import"):
        Trainer(task, 2)
    assert not multiprocessing.active_children()


SCRIPT = """
import multiprocessing, sys, time
sys.path.insert(0, {folder!r})
from training_cases import groups_of, small_task
from stagewise.training import Trainer

if __name__ == "__main__":
    trainer = Trainer(small_task(), 2)
    trainer.train_round(trainer.initial_weights(), groups_of([0, 1], [2]), 0)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    while True:
        time.sleep(0.1)
"""


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the state of processes from /proc")
def test_workers_die_with_a_killed_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(_alive(pid) for pid in workers)
        parent.kill()
    wait_until(lambda: not any(_alive(pid) for pid in workers))


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
