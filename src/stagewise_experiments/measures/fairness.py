"""Whom a run served: who ever trained, and how the model does for those it serves worst."""

import math

import numpy as np

from stagewise import Dataset
from stagewise.runs.run import Run
from stagewise.world.scenario import FloatArray

_AT_ONCE = 500  # test images that go through a model together

WORST = 0.1
"""The share of clients that the fairness of a model is read off."""


def clients_trained(run: Run) -> float:
    """The share of clients that were ever chosen."""
    ever = {client for decision in run.decisions for client in decision.assignment}
    return len(ever) / len(run.scenario.clients)


def worst_tenth(run: Run, data: Dataset) -> float | None:
    """The mean accuracy of the clients for whom the model is worst; None without a model.

    A client's accuracy is that on test images with its own mix of labels.
    """
    by_label = label_accuracies(run, data)
    if by_label is None:
        return None
    clients = run.scenario.clients
    own = clients.label_counts / np.maximum(clients.data, 1)[:, None]
    accuracies = np.sort((own @ by_label)[clients.data > 0])
    return float(accuracies[: math.ceil(WORST * len(accuracies))].mean())


def label_accuracies(run: Run, data: Dataset) -> FloatArray | None:
    """Of the run's last model, on the test images of each label; 0 for a label without any."""
    import torch

    from stagewise.models import build_model

    if run.weights is None:
        return None
    model = build_model(run.config.model, data.classes, data.image_shape)
    model.load_state_dict({name: torch.from_numpy(part) for name, part in run.weights.items()})
    model.eval()
    right = np.zeros(len(data.test_labels), dtype=bool)
    mean, std = (torch.from_numpy(x).float().view(-1, 1, 1) for x in (data.mean, data.std))
    with torch.no_grad():
        for start in range(0, len(right), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            images = (torch.from_numpy(data.test_images[part]).float() / 255 - mean) / std
            right[part] = model(images).argmax(1).numpy() == data.test_labels[part]
    held = np.bincount(data.test_labels, minlength=data.classes)
    return np.bincount(data.test_labels, right, minlength=data.classes) / np.maximum(held, 1)
