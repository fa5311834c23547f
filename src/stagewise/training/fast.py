"""Training of small convolution and pooling networks, several clients at once."""

import numpy as np
import torch
from torch import Tensor

from stagewise.datasets.dataset import ImageArray
from stagewise.training.data import TrainingData
from stagewise.training.jobs import (
    IMAGES_AT_ONCE,
    Board,
    EvaluateJob,
    Recipe,
    TrainJob,
    diverged,
)
from stagewise.training.kernels import cross_entropy_gradient, gather_images
from stagewise.training.layout import WeightLayout
from stagewise.training.network import Network
from stagewise.training.passes import ConvolutionPass, LinearPass, Pass, WeightAndBias
from stagewise.training.workspace import Workspace
from stagewise.world.scenario import FloatArray, IntArray


class FastTrainer:
    """Trains clients side by side with hand-written passes; cross entropy is the loss."""

    def __init__(self, recipe: Recipe, data: TrainingData, network: Network) -> None:
        self._recipe, self._data, self._network = recipe, data, network
        self._layout = WeightLayout(recipe.build(), recipe.dtype)
        self._workspace = Workspace(recipe.dtype)
        self._scale = data.scale(recipe.dtype).numpy()
        self._shift = data.shift(recipe.dtype).numpy()

    def train(self, job: TrainJob, board: Board) -> None:
        """Eq. 1 for the clients of the job, their batches padded to the largest."""
        clients = len(job.clients)
        samples, sizes = self._batches(job)
        vectors = self._workspace.array("vectors", clients, self._layout.length)
        gradients = self._workspace.array("gradients", clients, self._layout.length)
        torch.index_select(board.models, 0, torch.tensor(job.rows), out=vectors)
        images = self._image_buffer(clients, samples.shape[-1])
        passes = self._passes(images, vectors)
        for place, layer in enumerate(passes):
            layer.bind_backward(self._parts(place, gradients), first=place == 0)
        labels = self._data.train_labels.numpy()[samples]
        losses = np.empty((len(samples), clients))
        for step, chosen in enumerate(samples):
            self._gather(self._data.train_images.numpy(), chosen, images)
            outputs = _forward(passes)
            error = self._workspace.array("output gradient", *outputs.shape)
            cross_entropy_gradient(
                outputs.numpy(), labels[step], sizes, losses[step], error.numpy()
            )
            gradient: Tensor | None = error
            for layer in reversed(passes):
                assert gradient is not None
                gradient = layer.backward(gradient)
            self._descend(vectors, gradients, first=step == 0)
        _check_losses(losses, job)
        for slot, vector in zip(job.slots, vectors, strict=True):
            board.results[slot].copy_(vector)

    def evaluate(self, job: EvaluateJob, board: Board) -> tuple[int, float]:
        """Correct answers and the sum of losses on some test images."""
        images = self._image_buffer(1, IMAGES_AT_ONCE)
        passes = self._passes(images, board.models[:1])
        correct, loss = 0, 0.0
        for start in range(job.start, job.stop, IMAGES_AT_ONCE):
            real = min(IMAGES_AT_ONCE, job.stop - start)
            chosen = np.minimum(np.arange(start, start + IMAGES_AT_ONCE), job.stop - 1)
            self._gather(self._data.test_images.numpy(), chosen[None], images)
            outputs = _forward(passes)[0, :, :real]
            labels = self._data.test_labels[start : start + real]
            correct += int((outputs.argmax(0) == labels).sum())
            loss -= float(outputs.log_softmax(0).gather(0, labels[None]).sum())
        return correct, loss

    def _batches(self, job: TrainJob) -> tuple[IntArray, IntArray]:
        """Samples (steps, clients, batch), and how many of the batch are the client's (clients,).

        Shorter batches are filled up with a sample that does not count.
        """
        recipe = self._recipe
        sizes = recipe.batch_sizes[list(job.clients)]
        samples = np.empty((recipe.local_steps, len(sizes), sizes.max()), dtype=np.int64)
        for place, (client, size) in enumerate(zip(job.clients, sizes, strict=True)):
            own = self._data.samples(client).numpy()
            samples[:, place, :size] = own[recipe.batches(client, len(own), job)]
            samples[:, place, size:] = own[0]
        return samples, sizes

    def _image_buffer(self, clients: int, batch: int) -> Tensor:
        """Where the images of a step go, framed by the padding of the first convolution."""
        channels, height, width = self._data.train_images.shape[1:]
        frame = 2 * self._network.paddings[0]
        images = self._workspace.array(
            "images", clients, channels, height + frame, width + frame, batch
        )
        if frame:
            images.zero_()
        return images

    def _gather(self, source: ImageArray, samples: IntArray, images: Tensor) -> None:
        padding = self._network.paddings[0]
        gather_images(source, samples, self._scale, self._shift, padding, images.numpy())

    def _passes(self, images: Tensor, vectors: Tensor) -> list[Pass]:
        """The passes of the network over `images`, with the weights of `vectors`."""
        network, passes, inputs = self._network, list[Pass](), images
        for layer, padding in zip(network.convolutions, network.paddings[1:], strict=True):
            weights = self._parts(len(passes), vectors)
            passes.append(
                ConvolutionPass(layer, inputs, len(passes), padding, weights, self._workspace)
            )
            inputs = passes[-1].outputs
        inputs = inputs.view(len(inputs), -1, inputs.shape[-1])
        for linear in network.linears:
            last = linear is network.linears[-1]
            weights = self._parts(len(passes), vectors)
            passes.append(LinearPass(linear, inputs, last, weights, self._workspace))
            inputs = passes[-1].outputs
        return passes

    def _parts(self, place: int, vectors: Tensor) -> WeightAndBias:
        name = self._network.names[place]
        return (
            self._layout.stored(f"{name}.weight", vectors),
            self._layout.stored(f"{name}.bias", vectors),
        )

    def _descend(self, vectors: Tensor, gradients: Tensor, *, first: bool) -> None:
        """A step of stochastic gradient descent for all clients."""
        recipe, change = self._recipe, gradients
        if recipe.weight_decay:
            change.add_(vectors, alpha=recipe.weight_decay)
        if recipe.momentum:
            velocity = self._workspace.array("velocity", *vectors.shape)
            change = velocity.mul_(0 if first else recipe.momentum).add_(change)
        vectors.add_(change, alpha=-recipe.learning_rate)


def _forward(passes: list[Pass]) -> Tensor:
    for layer in passes:
        layer.forward()
    return passes[-1].outputs


def _check_losses(losses: FloatArray, job: TrainJob) -> None:
    wrong = np.argwhere(~np.isfinite(losses))
    if len(wrong):
        step, place = wrong[0]
        raise diverged(job.clients[place], job, int(step), float(losses[step, place]))
