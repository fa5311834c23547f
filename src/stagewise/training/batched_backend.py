"""Training of small convolution and pooling networks, several clients at once."""

import numpy as np
import torch
from torch import Tensor

from stagewise.datasets.dataset import ImageArray
from stagewise.training.bfloat16 import as_array
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
from stagewise.training.kernels import cross_entropy_gradient, gather_images
from stagewise.training.layers import ConvolutionLayer, Layer, LinearLayer, WeightAndBias
from stagewise.training.layout import WeightLayout
from stagewise.training.network import Network
from stagewise.training.workspace import Workspace
from stagewise.world.scenario import FloatArray, IntArray


class BatchedBackend:
    """Trains clients side by side with layers of our own; cross entropy is the loss.

    The products of convolutions have the type that the settings say, those of linear layers, which
    are few, that of the weights.
    """

    def __init__(self, settings: TrainingSettings, data: TrainingData, network: Network) -> None:
        self._settings, self._data, self._network = settings, data, network
        self._layout = WeightLayout(settings.build(), settings.dtype)
        self._workspace = Workspace(settings.dtype)
        self._scale = data.scale(settings.dtype).numpy()
        self._shift = data.shift(settings.dtype).numpy()

    def train(self, job: TrainJob, buffers: WeightBuffers) -> FloatArray:
        """Eq. 1 for the clients of the job, their batches padded to the largest.

        Returned are the loss of their first and of their last batch and the norm of their update,
        shape (3, clients).
        """
        clients = len(job.clients)
        samples, sizes = self._batches(job)
        vectors = self._workspace.array("vectors", clients, self._layout.length)
        gradients = self._workspace.array("gradients", clients, self._layout.length)
        torch.index_select(buffers.models, 0, torch.tensor(job.rows), out=vectors)
        images = self._image_buffer(clients, samples.shape[-1], self._settings.product_dtype)
        layers = self._layers(images, vectors)
        for place, layer in enumerate(layers):
            layer.bind_backward(self._parts(place, gradients), first=place == 0)
        labels = self._data.train_labels.numpy()[samples]
        losses = np.empty((len(samples), clients))
        for step, chosen in enumerate(samples):
            self._gather(self._data.train_images.numpy(), chosen, images)
            outputs = _forward(layers)
            error = self._workspace.array("output gradient", *outputs.shape)
            cross_entropy_gradient(
                outputs.numpy(), labels[step], sizes, losses[step], error.numpy()
            )
            gradient: Tensor | None = error
            for layer in reversed(layers):
                assert gradient is not None
                gradient = layer.backward(gradient)
            self._descend(vectors, gradients, first=step == 0)
        _check_losses(losses, job)
        for slot, vector in zip(job.slots, vectors, strict=True):
            buffers.results[slot].copy_(vector)
        trained = slice(self._layout.parameter_length)
        before = buffers.models.numpy()[list(job.rows), trained]
        norms = update_norms(vectors.numpy()[:, trained], before)
        return np.stack([losses[0], losses[-1], norms])

    def evaluate(self, job: EvaluateJob, buffers: WeightBuffers) -> tuple[int, float]:
        """Correct answers and the sum of losses on the images of the job."""
        data, own = self._data, None
        source, all_labels = data.test_images.numpy(), data.test_labels
        if job.client is not None:
            own = data.samples(job.client).numpy()
            source, all_labels = data.train_images.numpy(), data.train_labels
        images = self._image_buffer(1, IMAGES_AT_ONCE, self._settings.dtype)
        layers = self._layers(images, buffers.models[:1])
        correct, loss = 0, 0.0
        for start in range(job.start, job.stop, IMAGES_AT_ONCE):
            real = min(IMAGES_AT_ONCE, job.stop - start)
            chosen = np.minimum(np.arange(start, start + IMAGES_AT_ONCE), job.stop - 1)
            chosen = chosen if own is None else own[chosen]
            self._gather(source, chosen[None], images)
            outputs = _forward(layers)[0, :, :real]
            labels = all_labels[torch.from_numpy(chosen[:real])]
            correct += int((outputs.argmax(0) == labels).sum())
            loss -= float(outputs.log_softmax(0).gather(0, labels[None]).sum())
        return correct, loss

    def _batches(self, job: TrainJob) -> tuple[IntArray, IntArray]:
        """Samples (steps, clients, batch), and how many of the batch are the client's (clients,).

        Shorter batches are filled up with a sample that does not count.
        """
        settings = self._settings
        sizes = settings.batch_sizes[list(job.clients)]
        samples = np.empty((settings.local_steps, len(sizes), sizes.max()), dtype=np.int64)
        for place, (client, size) in enumerate(zip(job.clients, sizes, strict=True)):
            own = self._data.samples(client).numpy()
            samples[:, place, :size] = own[settings.batches(client, len(own), job)]
            samples[:, place, size:] = own[0]
        return samples, sizes

    def _image_buffer(self, clients: int, batch: int, product_dtype: torch.dtype) -> Tensor:
        """Where the images of a step go, framed by the padding of the first convolution.

        Its type is that of the products of convolutions.
        """
        channels, height, width = self._data.train_images.shape[1:]
        frame = 2 * self._network.paddings[0]
        shape = (clients, channels, height + frame, width + frame, batch)
        dtype = product_dtype if self._network.convolutions else self._settings.dtype
        images = self._workspace.array("images", *shape, dtype=dtype)
        if frame:
            images.zero_()
        return images

    def _gather(self, source: ImageArray, samples: IntArray, images: Tensor) -> None:
        padding = self._network.paddings[0]
        gather_images(source, samples, self._scale, self._shift, padding, as_array(images))

    def _layers(self, images: Tensor, vectors: Tensor) -> list[Layer]:
        """The layers of the network over `images`, with the weights of `vectors`."""
        network, layers, inputs = self._network, list[Layer](), images
        for layer, padding in zip(network.convolutions, network.paddings[1:], strict=True):
            weights = self._parts(len(layers), vectors)
            depth, last = len(layers), layer is network.convolutions[-1]
            output_dtype = self._settings.dtype if last else inputs.dtype
            layers.append(
                ConvolutionLayer(
                    layer, inputs, depth, padding, weights, self._workspace, output_dtype
                )
            )
            inputs = layers[-1].outputs
        inputs = inputs.view(len(inputs), -1, inputs.shape[-1])
        for linear in network.linears:
            last = linear is network.linears[-1]
            weights = self._parts(len(layers), vectors)
            layers.append(LinearLayer(linear, inputs, last, weights, self._workspace))
            inputs = layers[-1].outputs
        return layers

    def _parts(self, place: int, vectors: Tensor) -> WeightAndBias:
        name = self._network.names[place]
        return (
            self._layout.stored(f"{name}.weight", vectors),
            self._layout.stored(f"{name}.bias", vectors),
        )

    def _descend(self, vectors: Tensor, gradients: Tensor, *, first: bool) -> None:
        """A step of stochastic gradient descent for all clients."""
        settings, change = self._settings, gradients
        if settings.weight_decay:
            change.add_(vectors, alpha=settings.weight_decay)
        if settings.momentum:
            velocity = self._workspace.array("velocity", *vectors.shape)
            change = velocity.mul_(0 if first else settings.momentum).add_(change)
        vectors.add_(change, alpha=-settings.learning_rate)


def _forward(layers: list[Layer]) -> Tensor:
    for layer in layers:
        layer.forward()
    return layers[-1].outputs


def _check_losses(losses: FloatArray, job: TrainJob) -> None:
    wrong = np.argwhere(~np.isfinite(losses))
    if len(wrong):
        step, place = wrong[0]
        raise diverged(job.clients[place], job, int(step), float(losses[step, place]))
