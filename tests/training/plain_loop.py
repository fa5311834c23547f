"""A round of training written plainly: a deep copy, a module and an optimiser for every client.

The backends are compared with this loop, in results and in speed.
"""

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from stagewise.outcomes import TrainingFigures
from stagewise.randomness import integer_seed
from stagewise.training.batches import draw_batches
from stagewise.training.task import PRECISIONS, TrainingTask
from stagewise.world.scenario import FloatArray, IntArray

State = dict[str, Tensor]


class ReferenceLoop:
    """The task's model and its data as floating-point tensors."""

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        self.model = task.builder().to(PRECISIONS[task.dtype].weights)
        images = task.dataset.scaled(
            task.dataset.train_images, np.float64 if task.dtype == "float64" else np.float32
        )
        self._images = torch.from_numpy(images)
        self._labels = torch.from_numpy(np.array(task.dataset.train_labels))

    def train_round(
        self,
        groups: Sequence[IntArray],
        round_index: int,
        client_weights: FloatArray | None = None,
    ) -> TrainingFigures:
        """Take the model through a round; where no client has data it stays as it is."""
        weights = np.ones(len(self.task.data_sizes)) if client_weights is None else client_weights
        edge_states, edge_data = [], []
        figures: dict[int, list[FloatArray]] = {}
        for group in groups:
            clients = [int(i) for i in group if self.task.data_sizes[i] > 0]
            if not clients:
                continue
            sizes = [int(self.task.data_sizes[i]) for i in clients]
            counted = [size * weights[i] for i, size in zip(clients, sizes, strict=True)]
            edge_model = deepcopy(self.model)
            for edge_round in range(self.task.edge_rounds):
                states = []
                for client in clients:
                    model = deepcopy(edge_model)
                    losses = self._train_client(model, client, round_index, edge_round)
                    norm = _distance(model, edge_model)
                    figures.setdefault(client, []).append(np.array([losses[0], losses[-1], norm]))
                    states.append(model.state_dict())
                edge_model.load_state_dict(weighted_mean(states, counted))  # Eq. 2
            edge_states.append(edge_model.state_dict())
            edge_data.append(sum(sizes))
        if edge_states:
            self.model.load_state_dict(weighted_mean(edge_states, edge_data))  # Eq. 3
        whose = np.array(list(figures), dtype=np.int64)
        by_edge_round = [np.array(part).T for part in zip(*figures.values(), strict=True)]
        if not by_edge_round:
            return TrainingFigures.none()
        return TrainingFigures.of(whose, by_edge_round)

    def _train_client(
        self, model: nn.Module, client: int, round_index: int, edge_round: int
    ) -> list[float]:
        """The loss of every batch; the model is trained in place."""
        task = self.task
        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=task.learning_rate,
            momentum=task.momentum,
            weight_decay=task.weight_decay,
        )
        own = task.partition.index[task.partition.start[client] : task.partition.start[client + 1]]
        batches = draw_batches(
            task.seed,
            client,
            round_index,
            edge_round,
            data_size=len(own),
            batch_size=int(task.batch_sizes[client]),
            steps=task.local_steps,
        )
        torch.manual_seed(integer_seed(task.seed, f"layers {client} {edge_round}", round_index))
        model.train()
        losses = []
        for batch in batches:  # Eq. 1
            samples = torch.from_numpy(own[batch])
            optimizer.zero_grad()
            loss = task.loss(model(self._images[samples]), self._labels[samples])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        return losses


def _distance(model: nn.Module, other: nn.Module) -> float:
    """The L2 norm of the difference of all parameters."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    squares = ((a.detach().double() - b.detach().double()).square().sum() for a, b in pairs)
    return math.sqrt(sum(float(square) for square in squares))


def weighted_mean(states: Sequence[State], sizes: Sequence[float]) -> State:
    """The mean by data size; whole-number buffers (batch counters) take the largest."""
    total = sum(sizes)
    mean = {}
    for name, first in states[0].items():
        values = [state[name] for state in states]
        if first.is_floating_point():
            mean[name] = sum(
                (value * (size / total) for value, size in zip(values, sizes, strict=True)),
                start=torch.zeros_like(first),
            )
        else:
            mean[name] = torch.stack(values).amax(0)
    return mean
