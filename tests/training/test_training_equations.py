"""Every way of training against a plain loop, and that loop against Eqs. 1-3 in NumPy."""

from copy import deepcopy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from plain_loop import ReferenceLoop  # noqa: E402
from torch import nn  # noqa: E402
from training_cases import (  # noqa: E402
    RAGGED,
    assert_like_figures,
    groups_of,
    largest_difference,
    noisy_network,
    reference_weights,
    small_task,
    smoothed_loss,
)

from stagewise.training import Trainer  # noqa: E402
from stagewise.training.batches import draw_batches  # noqa: E402
from stagewise.training.network import read_network  # noqa: E402

GROUPS = groups_of([4, 0], [], [2, 3, 6], [5])
"""An edge without clients, and one whose client has no data."""

MODELS = [
    ("mnist-cnn", (1, 28, 28)),
    ("lenet5", (1, 28, 28)),
    ("mlp", (1, 8, 8)),
    ("cifar-cnn", (3, 32, 32)),
    ("vgg-light", (3, 16, 16)),
]


def assert_like_reference(task, groups=GROUPS, rounds=1, client_weights=None):
    reference = ReferenceLoop(task)
    with Trainer(task) as trainer:
        initial = weights = trainer.initial_weights()
        for round_index in range(rounds):
            weights, figures = trainer.train_round(
                weights, groups, round_index, client_weights=client_weights
            )
            with torch.random.fork_rng():
                expected = reference.train_round(groups, round_index, client_weights)
            assert_like_figures(figures, expected)
    assert largest_difference(weights, reference_weights(reference.model)) < 1e-9
    assert largest_difference(weights, initial) > 1e-4
    return weights


@pytest.mark.parametrize("sizes", [RAGGED, (40,) * 7], ids=["ragged", "fixed"])
@pytest.mark.parametrize(("model", "shape"), MODELS)
def test_a_round_equals_the_reference(model, shape, sizes):
    assert_like_reference(small_task(model, shape, sizes))


@pytest.mark.parametrize(("model", "shape"), [MODELS[0], (noisy_network, (1, 8, 8))])
def test_clients_with_weights_equal_the_reference(model, shape):
    """Eq. 2 by weight times data, Eq. 3 by data alone; who does not train has any weight."""
    weights = np.array([0.2, 9.0, 3.0, 1.0, 0.5, 7.0, 1e-3])
    task = small_task(model, shape)
    weighted = assert_like_reference(task, rounds=2, client_weights=weights)
    plain = assert_like_reference(task, rounds=2)
    assert largest_difference(plain, weighted) > 1e-4
    with Trainer(task) as trainer:
        first = trainer.initial_weights()
        alike, largest = (
            trainer.train_round(first, GROUPS, 0, client_weights=given)[0]
            for given in (None, np.full(7, np.finfo(float).max))
        )
    assert largest_difference(alike, largest) < 1e-12


@pytest.mark.parametrize("sizes", [(24, 17, 20), (20, 20, 20)], ids=["ragged", "fixed"])
def test_a_round_of_resnet_equals_the_reference(sizes):
    # Normalising the last stage over two or three numbers would magnify rounding without limit.
    task = small_task("resnet18", (3, 8, 8), sizes, fraction=0.5, learning_rate=0.01, local_steps=1)
    assert_like_reference(task, groups_of([0], [2, 1]))


@pytest.mark.parametrize("model", ["mnist-cnn", "vgg-light"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 0.0), (0.0, 0.1), (0.5, 0.05)])
def test_momentum_and_weight_decay_equal_the_reference(model, momentum, weight_decay):
    shape = (1, 28, 28) if model == "mnist-cnn" else (3, 16, 16)
    task = small_task(
        model, shape, momentum=momentum, weight_decay=weight_decay, local_steps=3, edge_rounds=1
    )
    assert_like_reference(task, rounds=2)


def test_any_module_and_loss_equal_the_reference():
    assert_like_reference(small_task(noisy_network, loss=smoothed_loss), rounds=2)


def test_full_batches_and_batches_of_one_equal_the_reference():
    assert_like_reference(small_task("lenet5", (1, 28, 28), (9, 4, 1, 2, 7, 0, 3), fraction=1.0))
    assert_like_reference(small_task("mnist-cnn", (1, 28, 28), fraction=0.01))


@st.composite
def plain_networks(draw):
    """Convolutions, pools and linear layers in every arrangement that `BatchedBackend` knows."""
    channels = draw(st.integers(1, 3))
    height, width = draw(st.integers(8, 15)), draw(st.integers(8, 15))
    shape, layers = (channels, height, width), []
    for _ in range(draw(st.integers(0, 3))):
        kernel, padding = draw(st.integers(1, 5)), draw(st.integers(0, 2))
        sides = [(side + 2 * padding - kernel + 1) // 2 for side in (height, width)]
        if min(sides) < 1 or padding >= kernel:
            break
        filters = draw(st.integers(1, 4))
        after = draw(st.permutations([nn.MaxPool2d(2), nn.ReLU()]))
        layers += [nn.Conv2d(channels, filters, kernel, padding=padding), *after]
        channels, (height, width) = filters, sides
    layers.append(nn.Flatten())
    features = channels * height * width
    for hidden in draw(st.lists(st.integers(1, 6), max_size=2)):
        layers += [nn.Linear(features, hidden), nn.ReLU()]
        features = hidden
    return shape, nn.Sequential(*layers, nn.Linear(features, 10))


@settings(max_examples=25)
@given(plain_networks())
def test_plain_networks_are_trained_in_batches_and_equal_the_reference(case):
    shape, network = case
    assert read_network(network) is not None
    task = small_task(lambda: deepcopy(network), shape, local_steps=1)
    reference = ReferenceLoop(task)
    expected = reference.train_round(GROUPS, 0)
    with Trainer(task) as trainer:
        weights, figures = trainer.train_round(trainer.initial_weights(), GROUPS, 0)
    assert_like_figures(figures, expected)
    assert largest_difference(weights, reference_weights(reference.model)) < 1e-9


@pytest.mark.parametrize(
    "change",
    [
        lambda layers: layers[0].requires_grad_(False),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, 3, stride=2)),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, 3, dilation=2)),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, (3, 2))),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, 3, bias=False)),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, 3, padding="same")),
        lambda layers: layers.__setitem__(0, nn.Conv2d(2, 4, 3, groups=2)),
        lambda layers: layers.__setitem__(0, nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect")),
        lambda layers: layers.__setitem__(1, nn.MaxPool2d(3, 2)),
        lambda layers: layers.__setitem__(1, nn.MaxPool2d(2, ceil_mode=True)),
        lambda layers: layers.__setitem__(2, nn.Tanh()),
        lambda layers: layers.__setitem__(3, nn.Flatten(0)),
        lambda layers: layers.insert(4, nn.Dropout()),
        lambda layers: layers.append(nn.ReLU()),
        lambda layers: layers.pop(),
        lambda layers: layers.__setitem__(4, nn.Linear(4, 10, bias=False)),
    ],
)
def test_other_networks_are_not_trained_in_batches(change):
    layers = [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 10)]
    assert read_network(nn.Sequential(*layers)) is not None
    change(layers)
    assert read_network(nn.Sequential(*layers)) is None


def softmax_regression():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def by_hand(task, groups, round_index, weight, bias):
    """Eqs. 1-3 for softmax regression, in NumPy: weight, bias, and (losses, norm) by client."""
    dataset, partition = task.dataset, task.partition
    images = (dataset.train_images / 255 - dataset.mean[0]) / dataset.std[0]
    images = images.reshape(len(images), -1)
    edge_models, edge_data, losses, norms = [], [], {}, {}
    for group in groups:
        data = sum(int(task.data_sizes[i]) for i in group)
        if data == 0:
            continue
        edge_weight, edge_bias = weight.copy(), bias.copy()
        for edge_round in range(task.edge_rounds):
            new_weight, new_bias = np.zeros_like(weight), np.zeros_like(bias)
            for client in group:
                size = int(task.data_sizes[client])
                if size == 0:
                    continue
                batches = draw_batches(
                    task.seed,
                    int(client),
                    round_index,
                    edge_round,
                    data_size=size,
                    batch_size=max(1, round(task.batch_fraction[client] * size)),
                    steps=task.local_steps,
                )
                w, b = edge_weight.copy(), edge_bias.copy()
                for batch in batches:
                    chosen = partition.samples(client)[batch]
                    x, y = images[chosen], dataset.train_labels[chosen]
                    scores = np.exp(x @ w.T + b)
                    shares = scores / scores.sum(1, keepdims=True)
                    loss = -np.log(shares[np.arange(len(y)), y]).mean()
                    losses.setdefault(int(client), []).append(loss)
                    error = shares - np.eye(10)[y]
                    w, b = (
                        w - task.learning_rate * error.T @ x / len(y),
                        b - task.learning_rate * error.mean(0),
                    )
                change = np.concatenate([(w - edge_weight).ravel(), b - edge_bias])
                norms[int(client)] = np.sqrt((change**2).sum())
                new_weight += size * w
                new_bias += size * b
            edge_weight, edge_bias = new_weight / data, new_bias / data
        edge_models.append((edge_weight, edge_bias))
        edge_data.append(data)
    total = sum(edge_data)
    weight, bias = (
        sum(data * model[part] for data, model in zip(edge_data, edge_models, strict=True)) / total
        for part in (0, 1)
    )
    return weight, bias, {client: (losses[client], norms[client]) for client in losses}


@pytest.mark.parametrize("way", ["batched", "module", "reference"])
def test_equations_one_to_three_by_hand(way):
    options = {"loss": lambda *a: nn.functional.cross_entropy(*a)} if way == "module" else {}
    task = small_task(softmax_regression, local_steps=3, edge_rounds=3, **options)
    with Trainer(task) as trainer:
        weights = trainer.initial_weights()
        expected = by_hand(task, GROUPS, 4, weights["1.weight"], weights["1.bias"])
        if way == "reference":
            reference = ReferenceLoop(task)
            figures = reference.train_round(GROUPS, 4)
            weights = reference_weights(reference.model)
        else:
            weights, figures = trainer.train_round(weights, GROUPS, 4)
    np.testing.assert_allclose(weights["1.weight"], expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights["1.bias"], expected[1], rtol=0, atol=1e-12)
    clients = sorted(expected[2])
    assert figures.client.tolist() == clients
    for number, client in enumerate(clients):
        losses, norm = expected[2][client]
        assert len(losses) == 9
        assert figures.loss_before[number] == pytest.approx(losses[0], rel=1e-12)
        assert figures.loss_after[number] == pytest.approx(losses[-1], rel=1e-12)
        assert figures.update_norm[number] == pytest.approx(norm, rel=1e-12)
