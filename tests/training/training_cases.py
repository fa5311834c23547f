"""Small tasks for the tests of training, and models that other processes can import."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from stagewise.datasets import Dataset, Partition
from stagewise.training import TrainingTask

# Two threads that wait for each other on a busy machine take many times as long.
torch.set_num_threads(1)

RAGGED = (40, 33, 57, 12, 80, 0, 25)
"""How many samples the clients hold."""


def small_task(
    model="mlp", shape=(1, 8, 8), sizes=RAGGED, *, classes=10, samples=300, fraction=0.2, **options
):
    """A task on random images that differ by class; the batches of its clients differ in size."""
    rng = np.random.default_rng(7)
    patterns = rng.integers(0, 256, (classes, *shape))

    def draw(count):
        labels = rng.integers(0, classes, count)
        noise = rng.integers(0, 200, (count, *shape))
        return np.clip(patterns[labels] * 0.4 + noise, 0, 255).astype(np.uint8), labels

    dataset = Dataset("patterns", *draw(samples), *draw(137), classes)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    index = np.concatenate([rng.choice(samples, size, replace=False) for size in sizes])
    settings = {
        "local_steps": 2,
        "edge_rounds": 2,
        "learning_rate": 0.1,
        "seed": 3,
        "dtype": "float64",
    }
    return TrainingTask(
        dataset,
        Partition(start, index.astype(np.int64)),
        model,
        batch_fraction=np.full(len(sizes), fraction),
        **{**settings, **options},
    )


def groups_of(*members):
    return [np.array(group, dtype=np.int64) for group in members]


def noisy_network():
    """A network with layers that draw at random, keep buffers and share a parameter."""
    shared = nn.Linear(16, 16)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(36, 16),
        shared,
        nn.Tanh(),
        shared,
        nn.Linear(16, 10),
    )


def smoothed_loss(outputs, labels):
    """A loss that `BatchedBackend` does not know."""
    return cross_entropy(outputs, labels, label_smoothing=0.1)


def nan_for_large_batches(outputs, labels):
    """Not a number for clients whose batches are larger than any other's."""
    return cross_entropy(outputs, labels) * (float("nan") if len(labels) == 16 else 1)


def reference_weights(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def largest_difference(weights, others):
    assert weights.keys() == others.keys()
    return max(np.abs(weights[name] - others[name]).max() for name in weights)


def assert_like_figures(figures, expected, tolerance=1e-6):
    np.testing.assert_array_equal(figures.client, expected.client)
    for name in ("loss_before", "loss_after", "update_norm"):
        found, wanted = getattr(figures, name), getattr(expected, name)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=0, err_msg=name)
