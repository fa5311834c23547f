"""Clients that send wrong updates: what they do to a model, and a trainer that has some of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch

from stagewise import training
from stagewise.datasets import Partition
from stagewise.randomness import generator
from stagewise.training import Trainer, TrainingTask
from stagewise.training.jobs import TrainJob, update_norms

Vector = npt.NDArray[Any]
Attack = Callable[[Vector, np.random.Generator], Vector]
"""A wrong update in the place of an honest one."""

FACTOR = 10.0


def scaled(update: Vector, random: np.random.Generator) -> Vector:
    return FACTOR * update


def sign_flipped(update: Vector, random: np.random.Generator) -> Vector:
    return -update


def gaussian(update: Vector, random: np.random.Generator) -> Vector:
    """Noise, ten times as large as the update."""
    noise = random.normal(size=update.shape)
    return FACTOR * np.linalg.norm(update) / np.linalg.norm(noise) * noise


def label_flipped(update: Vector, random: np.random.Generator) -> Vector:
    """The update is honest, the labels that it is trained on are not."""
    return update


def enormous(update: Vector, random: np.random.Generator) -> Vector:
    return np.full_like(update, 1e6)


ATTACKS: dict[str, Attack] = {
    "scaled": scaled,
    "sign-flipped": sign_flipped,
    "gaussian": gaussian,
    "label-flipped": label_flipped,
}


class AttackedTrainer(Trainer):
    """A trainer of whose clients some send wrong updates, by their numbers."""

    def __init__(
        self, task: TrainingTask, workers: int, attack: Attack, attackers: Sequence[int]
    ) -> None:
        if attack is label_flipped:
            task = with_flipped_labels(task, attackers)
        super().__init__(task, workers)
        self._attack, self._attackers = attack, frozenset(attackers)
        self._honest_run, self._pool.run = self._pool.run, self._run  # type: ignore[method-assign]

    def _run(self, jobs: Sequence[Any], window: int) -> Iterator[Any]:
        for job, result in zip(jobs, self._honest_run(jobs, window), strict=True):
            if isinstance(job, TrainJob):
                self._falsify(job, result)
            yield result

    def _falsify(self, job: TrainJob, figures: Vector) -> None:
        length = self._layout.parameter_length
        for place, client in enumerate(job.clients):
            if client in self._attackers:
                random = generator(7, f"attack {client} {job.edge_round}", job.round_index)
                before = self._buffers.models[job.rows[place]].numpy()[:length]
                after = self._buffers.results[job.slots[place]]
                update = self._attack(after.numpy()[:length] - before, random)
                after[:length] = torch.from_numpy(before + update)
                figures[2, place] = update_norms(update[None], np.zeros_like(update)[None])[0]


def with_flipped_labels(task: TrainingTask, attackers: Sequence[int]) -> TrainingTask:
    """The task in which the attackers have each label c as the last minus c."""
    data, start, index = task.dataset, task.partition.start, task.partition.index.copy()
    samples = len(data.train_labels)
    for client in attackers:  # they have copies of their own
        index[start[client] : start[client + 1]] += samples
    labels = data.train_labels
    wrong = replace(
        data,
        train_images=np.concatenate([data.train_images, data.train_images]),
        train_labels=np.concatenate([labels, data.classes - 1 - labels]),
    )
    return replace(task, dataset=wrong, partition=Partition(start, index))


@contextmanager
def attacking(attack: Attack, attackers: Sequence[int]) -> Iterator[None]:
    """Runs that are simulated in the block have these attackers."""

    def make(task: TrainingTask, workers: int = 1) -> AttackedTrainer:
        return AttackedTrainer(task, workers, attack, attackers)

    with patch.object(training, "Trainer", make):
        yield
