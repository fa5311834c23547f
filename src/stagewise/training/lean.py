"""Training of any module: one resident model whose tensors are views of a flat vector."""

import torch
from torch import Tensor, nn

from stagewise.randomness import integer_seed
from stagewise.training.data import TrainingData
from stagewise.training.jobs import (
    IMAGES_AT_ONCE,
    Board,
    EvaluateJob,
    Recipe,
    TrainJob,
    diverged,
)
from stagewise.training.layout import WeightLayout


class LeanTrainer:
    """Trains clients one after the other on the same model, without copies of modules.

    Weights come from the board and go back to it, which is in main memory; all else is on the device.
    """

    def __init__(self, recipe: Recipe, data: TrainingData) -> None:
        device = recipe.device
        self._recipe, self._data = recipe, data.on(device)
        self._model = recipe.build().to(device)
        layout = WeightLayout(self._model, recipe.dtype)
        self._vector = torch.zeros(layout.length, dtype=recipe.dtype, device=device)
        self._counters = torch.zeros(layout.counter_length, dtype=torch.int64, device=device)
        self._trained = layout.attach(self._model, self._vector, self._counters)
        self._scale = data.scale(recipe.dtype).view(1, -1, 1, 1).to(device)
        self._shift = data.shift(recipe.dtype).view(1, -1, 1, 1).to(device)
        convolves = any(isinstance(module, nn.Conv2d) for module in self._model.modules())
        self._format = torch.channels_last if convolves else torch.contiguous_format

    def train(self, job: TrainJob, board: Board) -> None:
        """Eq. 1 for every client of the job."""
        self._model.train()
        for client, row, slot in zip(job.clients, job.rows, job.slots, strict=True):
            self._vector.copy_(board.models[row])
            self._counters.copy_(board.model_counters[row])
            self._train_client(client, job)
            board.results[slot].copy_(self._vector)
            board.result_counters[slot].copy_(self._counters)

    @torch.no_grad()
    def evaluate(self, job: EvaluateJob, board: Board) -> tuple[int, float]:
        """Correct answers and the sum of losses on some test images."""
        self._model.eval()
        self._vector.copy_(board.models[0])
        self._counters.copy_(board.model_counters[0])
        correct, loss = 0, 0.0
        for start in range(job.start, job.stop, IMAGES_AT_ONCE):
            chosen = slice(start, min(start + IMAGES_AT_ONCE, job.stop))
            labels = self._data.test_labels[chosen]
            outputs = self._model(self._inputs(self._data.test_images[chosen]))
            correct += int((outputs.argmax(1) == labels).sum())
            loss += self._recipe.loss(outputs, labels).item() * len(labels)
        return correct, loss

    def _train_client(self, client: int, job: TrainJob) -> None:
        recipe, data = self._recipe, self._data
        own = data.samples(client)
        batches = torch.from_numpy(recipe.batches(client, len(own), job)).to(recipe.device)
        # For layers that draw at random, such as dropout.
        torch.manual_seed(
            integer_seed(recipe.seed, f"layers {client} {job.edge_round}", job.round_index)
        )
        velocity: list[Tensor] = []
        for step, batch in enumerate(batches):
            samples = own[batch]
            outputs = self._model(self._inputs(data.train_images[samples]))
            loss = recipe.loss(outputs, data.train_labels[samples])
            if not loss.isfinite():
                raise diverged(client, job, step, loss.item())
            gradients = torch.autograd.grad(loss, self._trained, materialize_grads=True)
            velocity = self._descend(gradients, velocity)

    @torch.no_grad()
    def _descend(self, change: tuple[Tensor, ...], velocity: list[Tensor]) -> list[Tensor]:
        """A step of stochastic gradient descent; the velocity to go on with is returned."""
        recipe = self._recipe
        if recipe.weight_decay:
            change = torch._foreach_add(change, self._trained, alpha=recipe.weight_decay)
        if recipe.momentum:
            if velocity:
                torch._foreach_mul_(velocity, recipe.momentum)
                torch._foreach_add_(velocity, change)
            else:
                velocity = [part.clone() for part in change]
            change = tuple(velocity)
        torch._foreach_add_(self._trained, change, alpha=-recipe.learning_rate)
        return velocity

    def _inputs(self, images: Tensor) -> Tensor:
        """Images as the model reads them: scaled by the mean and deviation of their channels."""
        numbers = images.to(self._recipe.dtype, memory_format=self._format)
        return numbers.mul_(self._scale).add_(self._shift)
