"""The biases of a model's outputs: where they are, and what a task's training can do to them."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from stagewise.robust.labels import OutputBias
from stagewise.training.task import DTYPES, TrainingTask


def output_bias(task: TrainingTask) -> OutputBias | None:
    """None where the model has no such biases, or the loss is another than cross entropy."""
    if task.loss is not cross_entropy:
        return None
    name = bias_name(task.builder(), task.dataset.classes, task.dataset.image_shape)
    if name is None:
        return None
    return OutputBias.of(
        name,
        learning_rate=task.learning_rate,
        momentum=task.momentum,
        weight_decay=task.weight_decay,
        local_steps=task.local_steps,
        precision=float(torch.finfo(DTYPES[task.dtype]).eps),
    )


@torch.no_grad()
def bias_name(model: nn.Module, classes: int, image_shape: tuple[int, int, int]) -> str | None:
    """The parameter that is added to the outputs, one number a label: found by adding to it."""
    images = torch.from_numpy(np.random.default_rng(0).normal(size=(2, *image_shape)))
    model = model.double().eval()
    more = torch.linspace(0.0, 1.0, classes, dtype=torch.float64)
    outputs = model(images)
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.shape != (classes,) or not parameter.requires_grad:
            continue
        kept = parameter.clone()
        parameter.add_(more)
        # Cross entropy takes outputs that differ by one number for all labels as the same.
        found, expected = log_softmax(model(images), 1), log_softmax(outputs + more, 1)
        parameter.copy_(kept)
        if torch.allclose(found, expected):
            return name
    return None
