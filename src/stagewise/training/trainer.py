"""A round of hierarchical federated training (Eqs. 1-3)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from stagewise.errors import StagewiseError
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import TrainingFigures
from stagewise.robust.rules import is_mean
from stagewise.robust.safeguards import Safeguards
from stagewise.training.backends import CLIENTS_AT_ONCE, clients_at_once
from stagewise.training.data import TrainingData
from stagewise.training.device import single_thread
from stagewise.training.jobs import (
    EvaluateJob,
    TrainingSettings,
    TrainJob,
    WeightBuffers,
    update_norms,
)
from stagewise.training.layout import WeightLayout
from stagewise.training.output_bias import output_bias
from stagewise.training.participants import Participants
from stagewise.training.round_judge import RoundJudge
from stagewise.training.task import Evaluation, TrainingTask
from stagewise.training.worker_pool import LocalPool, ProcessPool
from stagewise.world.checks import whole
from stagewise.world.scenario import FloatArray, IntArray

IMAGES_PER_JOB = 200

TakeResult = Callable[[int, int], None]
"""Does something with the place of a client and the slot of its result."""

RESULT_BYTES = 2**28
"""What the results of clients that wait to be aggregated may take, where workers allow it."""


class Trainer:
    """Trains and evaluates the models of a task; to be closed, or used in a `with` block.

    With one worker everything happens in this process; with more, in processes of their own that
    live until it is closed. Results do not depend on their number.
    """

    def __init__(self, task: TrainingTask, workers: int = 1) -> None:
        whole("workers", workers, 1)
        if task.device != "cpu" and workers > 1:
            raise StagewiseError(f"workers = {workers}: must be 1 on the device {task.device}")
        self.task = task
        self._workers = workers
        self._settings = settings = TrainingSettings.of(task)
        model = settings.build()
        self._initial = {name: part.numpy().copy() for name, part in model.state_dict().items()}
        self._layout = WeightLayout(model, settings.dtype)
        self._clients_per_job = 1 if settings.network is None else CLIENTS_AT_ONCE
        self._window = self._jobs_at_once()
        data = TrainingData.of(task)
        self._pool = (
            LocalPool(settings, data) if workers == 1 else ProcessPool(settings, data, workers)
        )
        self._buffers = self._new_buffers(1)
        self.output_bias = output_bias(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def initial_weights(self) -> ModelWeights:
        """The weights training starts from; they depend on the task's seed alone."""
        return {name: array.copy() for name, array in self._initial.items()}

    def train_round(
        self,
        weights: ModelWeights,
        groups: Sequence[IntArray],
        round_index: int,
        edge_weights: FloatArray | None = None,
        safeguards: Safeguards = Safeguards(),  # noqa: B008 (it is frozen)
        client_weights: FloatArray | None = None,
    ) -> tuple[ModelWeights, TrainingFigures]:
        """The cloud's model after a round in which the clients `groups[j]` train at edge j.

        An edge whose clients have no data takes no part; where no edge takes part, the weights
        stay as they are. `edge_weights`, one for each group, replace the edges' data in Eq. 3;
        `client_weights`, one for each client of the task, multiply the clients' data in Eq. 2.
        `safeguards` say how models are combined, and which are left out.
        The figures are of the clients that trained, and cost no pass over data of their own.
        """
        who = Participants.of(groups, self.task, edge_weights, client_weights)
        edges = len(who.edge_share)
        if edges > len(self._buffers.models):
            self._buffers = self._new_buffers(edges)
        buffers = self._buffers
        if edges == 0:
            return {name: array.copy() for name, array in weights.items()}, TrainingFigures.none()
        self._layout.pack(weights, buffers.models[0], buffers.model_counters[0])
        judge = RoundJudge(who, safeguards, self.task.edge_rounds)
        with single_thread():
            buffers.models[1:edges] = buffers.models[0]
            buffers.model_counters[1:edges] = buffers.model_counters[0]
            before = buffers.models[0].clone()
            figures = [
                self._edge_round(judge, round_index, edge_round)
                for edge_round in range(self.task.edge_rounds)
            ]
            norms = self._update_norms(buffers.models[:edges], before)
            cloud, counted = judge.cloud_model(buffers.models[:edges], norms)
            trained = {name: array.copy() for name, array in weights.items()}
            if counted.any():
                counters = buffers.model_counters[:edges][torch.from_numpy(counted)].amax(0)
                trained = self._layout.unpack(cloud, counters)
        return trained, judge.figures(figures)

    def evaluate(self, weights: ModelWeights) -> Evaluation:
        """Accuracy and mean loss on the test set."""
        self._layout.pack(weights, self._buffers.models[0], self._buffers.model_counters[0])
        images = len(self.task.dataset.test_labels)
        jobs = [
            EvaluateJob(start, min(start + IMAGES_PER_JOB, images))
            for start in range(0, images, IMAGES_PER_JOB)
        ]
        with single_thread():
            results = list(self._pool.run(jobs, len(jobs)))
        correct = sum(right for right, _ in results)
        loss = sum(total for _, total in results)
        return Evaluation(correct / images, loss / images)

    def losses(self, weights: ModelWeights, clients: IntArray) -> FloatArray:
        """The mean loss on all training data of each of `clients`; NaN for one without data."""
        self._layout.pack(weights, self._buffers.models[0], self._buffers.model_counters[0])
        sizes = self.task.data_sizes[clients]
        jobs = [
            EvaluateJob(start, min(start + IMAGES_PER_JOB, size), client)
            for client, size in zip(clients.tolist(), sizes.tolist(), strict=True)
            for start in range(0, size, IMAGES_PER_JOB)
        ]
        total = dict.fromkeys(clients.tolist(), 0.0)
        with single_thread():
            for job, (_, loss) in zip(jobs, self._pool.run(jobs, len(jobs)), strict=True):
                assert job.client is not None
                total[job.client] += loss
        sums = np.array([total[client] for client in clients.tolist()])
        return np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)

    def _edge_round(self, judge: RoundJudge, round_index: int, edge_round: int) -> FloatArray:
        """Eqs. 1 and 2: every client trains from its edge's model, which becomes their mean.

        Returned are the figures of all clients, as a backend gives them.
        """
        if is_mean(judge.safeguards.aggregator):
            return self._mean_round(judge, round_index, edge_round)
        who, buffers = judge.who, self._buffers
        models = torch.empty(len(who.clients), self._layout.length, dtype=self._layout.dtype)
        counters = torch.zeros(len(who.clients), self._layout.counter_length, dtype=torch.int64)

        def keep(place: int, slot: int) -> None:
            models[place] = buffers.results[slot]
            counters[place] = buffers.result_counters[slot]

        figures = self._train_clients(who, round_index, edge_round, self._seen(judge, keep))
        for edge, members, combined in judge.combined(models, figures[2]):
            buffers.models[edge] = torch.from_numpy(combined)
            buffers.model_counters[edge] = counters[torch.from_numpy(members)].amax(0)
        return figures

    def _mean_round(self, judge: RoundJudge, round_index: int, edge_round: int) -> FloatArray:
        """The mean, summed while clients train; where one is refused, its edge trains again without."""
        buffers, edges = self._buffers, len(judge.who.edge_share)
        sums = self._sums[:edges].zero_()
        counters = torch.zeros_like(buffers.model_counters[:edges])

        def add(to: Participants) -> TakeResult:
            rows, shares = to.edge.tolist(), to.share.tolist()

            def add_one(place: int, slot: int) -> None:
                row = rows[place]
                sums[row].add_(buffers.results[slot], alpha=shares[place])
                counters[row] = torch.maximum(counters[row], buffers.result_counters[slot])

            return add_one

        take = self._seen(judge, add(judge.who))
        figures = self._train_clients(judge.who, round_index, edge_round, take)
        counted = judge.counted(figures[2])
        if not counted.all():
            again, changed, empty = judge.without_refused(counted)
            sums[changed], counters[changed] = 0, 0
            self._train_clients(again, round_index, edge_round, add(again))
            sums[empty] = buffers.models[empty]
            counters[empty] = buffers.model_counters[empty]
        buffers.models[:edges] = sums
        buffers.model_counters[:edges] = counters
        return figures

    def _seen(self, judge: RoundJudge, take: TakeResult) -> TakeResult:
        """`take`, before which the judge sees the biases of the outputs, where they are known."""
        labels = judge.safeguards.labels
        if labels is None:
            return take
        before = self._layout.stored(labels.outputs.name, self._buffers.models).numpy()
        after = self._layout.stored(labels.outputs.name, self._buffers.results).numpy()
        rows = judge.who.edge.tolist()

        def see_and_take(place: int, slot: int) -> None:
            judge.see(place, before[rows[place]], after[slot])
            take(place, slot)

        return see_and_take

    def _train_clients(
        self, who: Participants, round_index: int, edge_round: int, take: TakeResult
    ) -> FloatArray:
        """Have every client train; `take` is called with its place and the slot of its result."""
        jobs = list(self._jobs(who, round_index, edge_round))
        figures, place = [np.empty((3, 0))], 0
        for job, result in zip(jobs, self._pool.run(jobs, self._window), strict=True):
            figures.append(result)
            for slot in job.slots:
                take(place, slot)
                place += 1
        return np.concatenate(figures, axis=1)

    def _update_norms(self, models: Tensor, before: Tensor) -> FloatArray:
        trained = slice(self._layout.parameter_length)
        return update_norms(models[:, trained].numpy(), before[trained].numpy())

    def _jobs(self, who: Participants, round_index: int, edge_round: int) -> Iterator[TrainJob]:
        """Clients put into jobs in their order; the jobs do not depend on the workers."""
        first = number = 0
        while first < len(who.clients):
            batch = int(self.task.batch_sizes[who.clients[first]])
            chosen = slice(first, first + clients_at_once(self._settings, batch))
            clients, rows = who.clients[chosen].tolist(), who.edge[chosen].tolist()
            slot = number % self._window * self._clients_per_job
            slots = range(slot, slot + len(clients))
            yield TrainJob(tuple(clients), tuple(rows), tuple(slots), round_index, edge_round)
            first += len(clients)
            number += 1

    def _jobs_at_once(self) -> int:
        """How many jobs may be begun or waiting to be aggregated."""
        if self._workers == 1:
            return 1
        job_bytes = self._layout.length * self._layout.dtype.itemsize * self._clients_per_job
        return int(np.clip(RESULT_BYTES // job_bytes, 2 * self._workers, 16 * self._workers))

    def _new_buffers(self, models: int) -> WeightBuffers:
        buffers = WeightBuffers.of(self._layout, models, self._window * self._clients_per_job)
        self._pool.use(buffers)
        self._sums = torch.zeros(models, self._layout.length, dtype=self._layout.dtype)
        return buffers
