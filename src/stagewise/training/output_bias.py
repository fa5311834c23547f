"""The biases of a model's outputs: where they are, and what a task's training can do to them."""

from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stagewise.robust.labels import OutputBias
from stagewise.training.device import single_thread
from stagewise.training.jobs import TrainingSettings
from stagewise.training.task import TrainingTask

IMAGES, POINTS = 8, 2
"""A parameter is tried with so many images, at so many points of the weights."""


def output_bias(task: TrainingTask) -> OutputBias | None:
    """None where the model has no such biases, or the loss is another than cross entropy."""
    if task.loss is not cross_entropy:
        return None
    settings, dataset = TrainingSettings.of(task), task.dataset
    name = bias_name(settings.build(), dataset.classes, dataset.image_shape, settings.dtype)
    if name is None:
        return None
    return OutputBias.of(
        name,
        learning_rate=task.learning_rate,
        momentum=task.momentum,
        weight_decay=task.weight_decay,
        local_steps=task.local_steps,
        precision=torch.finfo(settings.dtype).eps,
    )


def bias_name(
    model: nn.Module,
    classes: int,
    image_shape: tuple[int, int, int],
    dtype: torch.dtype = torch.float32,
) -> str | None:
    """The parameter, one number a label, whose gradient is that of the biases of the outputs.

    None if there is none, or if the model cannot be tried with random images.
    """
    try:
        # A process that is forked later would wait for further threads forever.
        with single_thread(), torch.enable_grad():
            torch.default_generator.manual_seed(0)
            model = deepcopy(model).train()
            names = [
                name
                for name, parameter in model.named_parameters()
                if parameter.shape == (classes,) and parameter.requires_grad
            ]
            for _ in range(POINTS):
                _move(model)
                images = torch.randn(IMAGES, *image_shape, dtype=dtype)
                names = list(_like_biases(model, images, names))
    except Exception:  # of whatever kind: it is the model's, and may be due to such images alone
        return None
    return names[-1] if names else None


@torch.no_grad()
def _move(model: nn.Module) -> None:
    """Change all that is trained: what holds for the initial weights only should not hold there."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            size = float(parameter.square().mean().sqrt())
            parameter.add_(torch.randn_like(parameter), alpha=size / 2 if size > 0 else 0.1)


def _like_biases(model: nn.Module, images: Tensor, names: list[str]) -> Iterator[str]:
    """Those of the parameters with the gradient that the biases of the outputs have."""
    outputs = model(images)
    shares = outputs.softmax(1).mean(0)
    label = int(shares.argmin())  # of all images: so the gradient is far from 0
    labels = torch.full((len(images),), label)
    parameters = [model.get_parameter(name) for name in names]
    gradients = torch.autograd.grad(
        cross_entropy(outputs, labels), parameters, materialize_grads=True
    )
    expected = shares.detach().clone()
    expected[label] -= 1
    tolerance = torch.finfo(outputs.dtype).eps ** 0.5
    for name, gradient in zip(names, gradients, strict=True):
        if torch.allclose(gradient, expected, rtol=0, atol=tolerance):
            yield name
