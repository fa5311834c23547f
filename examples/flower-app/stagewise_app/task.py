"""The model, its data, its training and its evaluation, in PyTorch."""

from functools import cache

import numpy as np
import torch
from flwr.app import ArrayRecord, UserConfig
from torch import Tensor, nn

from stagewise.datasets import Dataset, load_dataset, partition
from stagewise.randomness import generator, integer_seed
from stagewise.world.scenario import Scenario

Data = tuple[Tensor, Tensor]
"""Images of shape (samples, 1, 8, 8), and labels."""


def make_model(seed: int) -> nn.Module:
    """One hidden layer; the first weights depend on the seed alone."""
    torch.manual_seed(integer_seed(seed, "initial weights"))
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train_data(scenario: Scenario, client: int, seed: int) -> Data:
    """What one client holds: as many samples of each label as the scenario says."""
    dataset = _digits()
    samples = partition(dataset, scenario.clients.label_counts, seed).samples(client)
    return _tensors(dataset, dataset.train_images[samples], dataset.train_labels[samples])


def test_data() -> Data:
    dataset = _digits()
    return _tensors(dataset, dataset.test_images, dataset.test_labels)


def train(model: nn.Module, data: Data, config: UserConfig, client: int, order: str) -> list[float]:
    """SGD for `local-steps` batches of a tenth of the data (Eq. 1); the loss of each batch.

    Each `order`, which names a round and an edge round, has batches of its own.
    """
    images, labels = data
    rng = generator(int(config["seed"]), f"batches of client {client} in {order}")
    optimizer = torch.optim.SGD(model.parameters(), lr=float(config["learning-rate"]))
    losses = []
    for _ in range(int(config["local-steps"])):
        batch = torch.from_numpy(rng.choice(len(labels), max(1, len(labels) // 10), replace=False))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model: nn.Module, arrays: ArrayRecord, data: Data) -> dict[str, float]:
    """Accuracy and loss of the model with these weights."""
    images, labels = data
    model.load_state_dict(arrays.to_torch_state_dict())
    logits = model(images)
    return {
        "accuracy": (logits.argmax(1) == labels).float().mean().item(),
        "loss": nn.functional.cross_entropy(logits, labels).item(),
    }


@cache
def _digits() -> Dataset:
    return load_dataset("digits")


def _tensors(dataset: Dataset, images: np.ndarray, labels: np.ndarray) -> Data:
    return torch.from_numpy(dataset.scaled(images, np.float32)), torch.from_numpy(labels)
