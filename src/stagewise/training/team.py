"""A round of hierarchical federated training, done by a team of workers (Eqs. 1-3)."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import torch

from stagewise.errors import StagewiseError
from stagewise.training.crew import Crew, LocalCrew, ProcessCrew
from stagewise.training.data import TrainingData
from stagewise.training.jobs import Board, EvaluateJob, Recipe, TrainJob
from stagewise.training.layout import WeightLayout
from stagewise.training.participants import Participants
from stagewise.training.task import Evaluation, TrainingTask, Weights
from stagewise.training.trainers import CLIENTS_AT_ONCE, clients_at_once
from stagewise.world.checks import whole
from stagewise.world.scenario import FloatArray, IntArray

IMAGES_PER_JOB = 200

RESULT_BYTES = 2**28
"""What the results of clients that wait to be aggregated may take, where workers allow it."""


class TrainingTeam:
    """Trains and evaluates the models of a task; to be closed, or used in a `with` block.

    With one worker everything happens in this process; with more, in processes of their own that
    live as long as the team. Results do not depend on their number.
    """

    def __init__(self, task: TrainingTask, workers: int = 1) -> None:
        whole("workers", workers, 1)
        if task.device != "cpu" and workers > 1:
            raise StagewiseError(f"workers = {workers}: must be 1 on the device {task.device}")
        self.task = task
        self._workers = workers
        self._recipe = recipe = Recipe.of(task)
        model = recipe.build()
        self._initial = {name: part.numpy().copy() for name, part in model.state_dict().items()}
        self._layout = WeightLayout(model, recipe.dtype)
        self._slots_per_job = 1 if recipe.network is None else CLIENTS_AT_ONCE
        self._window = self._jobs_at_once()
        data = TrainingData.of(task)
        self._crew: Crew = (
            LocalCrew(recipe, data) if workers == 1 else ProcessCrew(recipe, data, workers)
        )
        self._board = self._new_board(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._crew.close()

    def initial_weights(self) -> Weights:
        """The weights training starts from; they depend on the task's seed alone."""
        return {name: array.copy() for name, array in self._initial.items()}

    def train_round(
        self,
        weights: Weights,
        groups: Sequence[IntArray],
        round_index: int,
        edge_weights: FloatArray | None = None,
    ) -> Weights:
        """The cloud's model after a round in which the clients `groups[j]` train at edge j.

        An edge whose clients have no data takes no part; where no edge takes part, the weights
        stay as they are. `edge_weights`, one for each group, replace the edges' data in Eq. 3.
        """
        who = Participants.of(groups, self.task, edge_weights)
        edges = len(who.edge_share)
        if edges > len(self._board.models):
            self._board = self._new_board(edges)
        board = self._board
        if edges == 0:
            return {name: array.copy() for name, array in weights.items()}
        self._layout.pack(weights, board.models[0], board.model_counters[0])
        with single_thread():
            board.models[1:edges] = board.models[0]
            board.model_counters[1:edges] = board.model_counters[0]
            for edge_round in range(self.task.edge_rounds):
                self._edge_round(who, round_index, edge_round)
            cloud = torch.from_numpy(who.edge_share).to(board.models.dtype) @ board.models[:edges]
            return self._layout.unpack(cloud, board.model_counters[:edges].amax(0))  # Eq. 3

    def evaluate(self, weights: Weights) -> Evaluation:
        """Accuracy and mean loss on the test set."""
        self._layout.pack(weights, self._board.models[0], self._board.model_counters[0])
        images = len(self.task.dataset.test_labels)
        jobs = [
            EvaluateJob(start, min(start + IMAGES_PER_JOB, images))
            for start in range(0, images, IMAGES_PER_JOB)
        ]
        with single_thread():
            results = list(self._crew.run(jobs, len(jobs)))
        correct = sum(right for right, _ in results)
        loss = sum(total for _, total in results)
        return Evaluation(correct / images, loss / images)

    def _edge_round(self, who: Participants, round_index: int, edge_round: int) -> None:
        """Eqs. 1 and 2: every client trains from its edge's model, which becomes their mean."""
        board, edges = self._board, len(who.edge_share)
        sums, counters = self._sums[:edges].zero_(), torch.zeros_like(board.model_counters[:edges])
        jobs = list(self._jobs(who, round_index, edge_round))
        shares = iter(who.share.tolist())
        for job, _ in zip(jobs, self._crew.run(jobs, self._window), strict=True):
            for row, slot in zip(job.rows, job.slots, strict=True):
                sums[row].add_(board.results[slot], alpha=next(shares))
                counters[row] = torch.maximum(counters[row], board.result_counters[slot])
        board.models[:edges] = sums
        board.model_counters[:edges] = counters

    def _jobs(self, who: Participants, round_index: int, edge_round: int) -> Iterator[TrainJob]:
        """Clients dealt to jobs in their order; the jobs do not depend on the workers."""
        first = number = 0
        while first < len(who.clients):
            batch = int(self.task.batch_sizes[who.clients[first]])
            chosen = slice(first, first + clients_at_once(self._recipe, batch))
            clients, rows = who.clients[chosen].tolist(), who.edge[chosen].tolist()
            slot = number % self._window * self._slots_per_job
            slots = range(slot, slot + len(clients))
            yield TrainJob(tuple(clients), tuple(rows), tuple(slots), round_index, edge_round)
            first += len(clients)
            number += 1

    def _jobs_at_once(self) -> int:
        """How many jobs may be begun or waiting to be aggregated."""
        if self._workers == 1:
            return 1
        job_bytes = self._layout.length * self._layout.dtype.itemsize * self._slots_per_job
        return int(np.clip(RESULT_BYTES // job_bytes, 2 * self._workers, 16 * self._workers))

    def _new_board(self, models: int) -> Board:
        slots = self._window * self._slots_per_job
        layout = self._layout
        board = Board(
            torch.zeros(models, layout.length, dtype=layout.dtype),
            torch.zeros(slots, layout.length, dtype=layout.dtype),
            torch.zeros(models, layout.counter_length, dtype=torch.int64),
            torch.zeros(slots, layout.counter_length, dtype=torch.int64),
        )
        self._crew.use(board)
        self._sums = torch.zeros(models, layout.length, dtype=layout.dtype)
        return board


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """One thread for PyTorch inside the block, as in a worker; its generator is put back after."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
