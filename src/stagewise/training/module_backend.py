"""Training of any module: one resident model whose tensors are views of a flat vector."""

import math
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from stagewise.randomness import integer_seed
from stagewise.training.data import TrainingData
from stagewise.training.jobs import (
    IMAGES_AT_ONCE,
    EvaluateJob,
    TrainingSettings,
    TrainJob,
    WeightBuffers,
    diverged,
    update_norms,
)
from stagewise.training.layout import WeightLayout
from stagewise.world.scenario import FloatArray


class ModuleBackend:
    """Trains clients one after the other on the same model, without copies of modules.

    Weights come from the buffers and go back to them, which are in main memory; all else is on the
    device.
    """

    def __init__(self, settings: TrainingSettings, data: TrainingData) -> None:
        device = settings.device
        self._settings, self._data = settings, data.on(device)
        self._model = settings.build().to(device)
        layout = WeightLayout(self._model, settings.dtype)
        self._vector = torch.zeros(layout.length, dtype=settings.dtype, device=device)
        self._counters = torch.zeros(layout.counter_length, dtype=torch.int64, device=device)
        self._parameter_length = layout.parameter_length
        self._trained = layout.attach(self._model, self._vector, self._counters)
        self._scale = data.scale(settings.dtype).view(1, -1, 1, 1).to(device)
        self._shift = data.shift(settings.dtype).view(1, -1, 1, 1).to(device)
        convolves = any(isinstance(module, nn.Conv2d) for module in self._model.modules())
        self._format = torch.channels_last if convolves else torch.contiguous_format

    def train(self, job: TrainJob, buffers: WeightBuffers) -> FloatArray:
        """Eq. 1 for the clients of the job, one after the other; returned is as of the other."""
        self._model.train()
        figures = np.empty((3, len(job.clients)))
        places = zip(job.clients, job.rows, job.slots, strict=True)
        for place, (client, row, slot) in enumerate(places):
            self._vector.copy_(buffers.models[row])
            self._counters.copy_(buffers.model_counters[row])
            losses = self._train_client(client, job)
            buffers.results[slot].copy_(self._vector)
            buffers.result_counters[slot].copy_(self._counters)
            figures[0, place], figures[1, place] = losses[0], losses[-1]
            after, before = buffers.results[[slot]], buffers.models[[row]]
            figures[2, place] = _norm(after, before, self._parameter_length)
        return figures

    @torch.no_grad()
    def evaluate(self, job: EvaluateJob, buffers: WeightBuffers) -> tuple[int, float]:
        """Correct answers and the sum of losses on the images of the job."""
        data, own = self._data, None
        images, all_labels = data.test_images, data.test_labels
        if job.client is not None:
            own, images, all_labels = data.samples(job.client), data.train_images, data.train_labels
        self._model.eval()
        self._vector.copy_(buffers.models[0])
        self._counters.copy_(buffers.model_counters[0])
        correct, loss = 0, 0.0
        for start in range(job.start, job.stop, IMAGES_AT_ONCE):
            part = slice(start, min(start + IMAGES_AT_ONCE, job.stop))
            chosen = part if own is None else own[part]
            labels = all_labels[chosen]
            outputs = self._model(self._inputs(images[chosen]))
            correct += int((outputs.argmax(1) == labels).sum())
            loss += self._settings.loss(outputs, labels).item() * len(labels)
        return correct, loss

    def _train_client(self, client: int, job: TrainJob) -> list[float]:
        """Take the model through the client's local steps; the loss of every batch."""
        settings, data = self._settings, self._data
        own = data.samples(client)
        batches = torch.from_numpy(settings.batches(client, len(own), job)).to(settings.device)
        # For layers that draw at random, such as dropout.
        torch.manual_seed(
            integer_seed(settings.seed, f"layers {client} {job.edge_round}", job.round_index)
        )
        losses: list[float] = []
        velocity: list[Tensor] = []
        for step, batch in enumerate(batches):
            samples = own[batch]
            inputs = self._inputs(data.train_images[samples])
            with self._products():
                outputs = self._model(inputs)
            loss = settings.loss(outputs.to(settings.dtype), data.train_labels[samples])
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise diverged(client, job, step, losses[-1])
            gradients = torch.autograd.grad(loss, self._trained, materialize_grads=True)
            velocity = self._descend(gradients, velocity)
        return losses

    @torch.no_grad()
    def _descend(self, change: tuple[Tensor, ...], velocity: list[Tensor]) -> list[Tensor]:
        """A step of stochastic gradient descent; the velocity for the next step is returned."""
        settings = self._settings
        if settings.weight_decay:
            change = torch._foreach_add(change, self._trained, alpha=settings.weight_decay)
        if settings.momentum:
            if velocity:
                torch._foreach_mul_(velocity, settings.momentum)
                torch._foreach_add_(velocity, change)
            else:
                velocity = [part.clone() for part in change]
            change = tuple(velocity)
        torch._foreach_add_(self._trained, change, alpha=-settings.learning_rate)
        return velocity

    def _products(self) -> AbstractContextManager[object]:
        """Within it matrices are multiplied as the settings say."""
        settings = self._settings
        if settings.product_dtype == settings.dtype:
            return nullcontext()
        return torch.autocast(settings.device.type, settings.product_dtype)

    def _inputs(self, images: Tensor) -> Tensor:
        """Images as the model reads them: scaled by the mean and deviation of their channels."""
        numbers = images.to(self._settings.dtype, memory_format=self._format)
        return numbers.mul_(self._scale).add_(self._shift)


def _norm(after: Tensor, before: Tensor, length: int) -> float:
    """The norm of the change of the first `length` numbers."""
    return float(update_norms(after[:, :length].numpy(), before[:, :length].numpy())[0])
