"""The trainer: who takes part, evaluation, errors, and what it leaves untouched."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plain_loop import weighted_mean  # noqa: E402
from training_cases import (  # noqa: E402
    groups_of,
    largest_difference,
    nan_for_large_batches,
    noisy_network,
    small_task,
    smoothed_loss,
)

from stagewise.errors import StagewiseError  # noqa: E402
from stagewise.models import build_model  # noqa: E402
from stagewise.training import Trainer  # noqa: E402


@pytest.fixture(scope="module")
def trainer():
    with Trainer(small_task("mnist-cnn", (1, 28, 28))) as trainer:
        yield trainer


def test_without_clients_the_weights_stay(trainer):
    weights = trainer.initial_weights()
    for groups in ([], groups_of([], []), groups_of([5])):
        after, figures = trainer.train_round(weights, groups, 0)
        assert all(array.shape == (0,) for array in figures[:-1]) and figures.account is None
        assert largest_difference(weights, after) == 0


def test_one_client_alone_is_the_cloud(trainer):
    weights = trainer.initial_weights()
    alone, _ = trainer.train_round(weights, groups_of([2]), 0)
    elsewhere, _ = trainer.train_round(weights, groups_of([], [5], [2]), 0)
    assert largest_difference(alone, elsewhere) == 0
    assert largest_difference(alone, weights) > 1e-4


def test_the_cloud_is_the_mean_of_edges_by_data(trainer):
    weights = trainer.initial_weights()
    first, _ = trainer.train_round(weights, groups_of([0, 1]), 0)
    second, _ = trainer.train_round(weights, groups_of([4]), 0)
    both, _ = trainer.train_round(weights, groups_of([0, 1], [4]), 0)
    even, _ = trainer.train_round(weights, groups_of([0, 1], [4], []), 0, np.array([2.0, 2.0, 9.0]))
    for name in weights:
        mean = (73 * first[name] + 80 * second[name]) / 153
        np.testing.assert_allclose(both[name], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(even[name], (first[name] + second[name]) / 2, rtol=0, atol=1e-12)


def test_rounds_and_order_within_an_edge(trainer):
    weights = trainer.initial_weights()
    one, _ = trainer.train_round(weights, groups_of([0, 1, 6]), 0)
    same, _ = trainer.train_round(weights, groups_of([6, 0, 1]), 0)
    other, _ = trainer.train_round(weights, groups_of([0, 1, 6]), 1)
    assert largest_difference(one, same) == 0
    assert largest_difference(one, other) > 1e-5


@pytest.mark.parametrize("model", ["mnist-cnn", "lenet5", "cifar-cnn"])
def test_evaluation_equals_the_module(model):
    shape = (3, 32, 32) if model == "cifar-cnn" else (1, 28, 28)
    task = small_task(model, shape)
    module = build_model(model, 10, shape, task.seed).double()
    images = torch.from_numpy(task.dataset.scaled(task.dataset.test_images, np.float64))
    labels = torch.from_numpy(task.dataset.test_labels)
    with torch.no_grad():
        outputs = module(images)
    with Trainer(task) as trainer:
        found = trainer.evaluate(trainer.initial_weights())
    assert found.accuracy == (outputs.argmax(1) == labels).double().mean().item()
    assert found.loss == pytest.approx(
        torch.nn.functional.cross_entropy(outputs, labels).item(), abs=1e-12
    )


@pytest.mark.parametrize("loss", [torch.nn.functional.cross_entropy, smoothed_loss])
def test_losses_of_clients_equal_the_module(loss):
    """On all data of a client, by the fast path and, with a loss that it does not know, by the other."""
    shape = (1, 28, 28)
    task = small_task("mnist-cnn", shape, loss=loss)
    module = build_model("mnist-cnn", 10, shape, task.seed).double().eval()
    clients = np.array([4, 0, 5])  # the last has no data
    expected = []
    for client in clients[:2]:
        own = task.partition.index[slice(*task.partition.start[client : client + 2])]
        images = torch.from_numpy(task.dataset.scaled(task.dataset.train_images[own], np.float64))
        labels = torch.from_numpy(task.dataset.train_labels[own])
        with torch.no_grad():
            expected.append(loss(module(images), labels).item())
    with Trainer(task) as trainer:
        found = trainer.losses(trainer.initial_weights(), clients)
    assert found[:2] == pytest.approx(expected, abs=1e-10)
    assert np.isnan(found[2])


def test_training_learns():
    task = small_task("mnist-cnn", (1, 28, 28), dtype="float32", local_steps=10, edge_rounds=3)
    with Trainer(task) as trainer:
        weights = trainer.initial_weights()
        before = trainer.evaluate(weights)
        for round_index in range(5):
            weights, _ = trainer.train_round(weights, groups_of([0, 1, 2], [3, 4, 6]), round_index)
        after = trainer.evaluate(weights)
    assert weights["0.weight"].dtype == np.float32
    assert after.accuracy > before.accuracy + 0.4
    assert after.loss < before.loss


def test_buffers_are_averaged_and_counters_take_the_largest():
    states = [
        {"mean": torch.tensor([1.0, 3.0]), "batches": torch.tensor(4)},
        {"mean": torch.tensor([5.0, 7.0]), "batches": torch.tensor(9)},
    ]
    mean = weighted_mean(states, [1, 3])
    assert mean["mean"].tolist() == [4.0, 6.0]
    assert mean["batches"].item() == 9
    task = small_task(noisy_network, local_steps=3, edge_rounds=2)
    with Trainer(task) as trainer:
        weights, _ = trainer.train_round(trainer.initial_weights(), groups_of([0, 1], [2]), 0)
    assert weights["1.num_batches_tracked"] == 6
    np.testing.assert_array_equal(weights["6.weight"], weights["8.weight"])


def test_global_state_of_pytorch_is_left_alone():
    task = small_task(noisy_network)
    torch.set_num_threads(2)
    state = torch.get_rng_state()
    with Trainer(task) as trainer:
        weights, _ = trainer.train_round(trainer.initial_weights(), groups_of([0]), 0)
        trainer.evaluate(weights)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("loss", [torch.nn.functional.cross_entropy, smoothed_loss])
def test_divergence_names_the_client(loss):
    task = small_task("mnist-cnn", (1, 28, 28), learning_rate=1e300, loss=loss)
    with Trainer(task) as trainer, pytest.raises(StagewiseError) as caught:
        trainer.train_round(trainer.initial_weights(), groups_of([3]), 7)
    assert str(caught.value).startswith("client 3: the loss is ")
    assert "in round 7, edge round 0, step 1" in str(caught.value)


def test_divergence_of_one_among_many_names_it():
    task = small_task(loss=nan_for_large_batches)
    with Trainer(task) as trainer, pytest.raises(StagewiseError, match=r"^client 4: .* is nan"):
        trainer.train_round(trainer.initial_weights(), groups_of([0, 4], [1]), 0)


@pytest.mark.parametrize(
    ("groups", "edge_weights", "message"),
    [
        (groups_of([0, 7]), None, "groups: client 7: must be from 0 to 6"),
        (groups_of([-1]), None, "groups: client -1: must be from 0 to 6"),
        (groups_of([0, 1], [1]), None, "groups: client 1: must train at one edge"),
        (groups_of([0], [1]), [1.0], "edge_weights: must be 2 finite numbers"),
        (groups_of([0], [1]), [1.0, -1.0], "edge_weights: must be 2 finite numbers"),
        (groups_of([0], []), [0.0, 1.0], "edge_weights: must not be 0 for every edge"),
    ],
)
def test_wrong_groups_are_refused(trainer, groups, edge_weights, message):
    with pytest.raises(StagewiseError, match=message):
        trainer.train_round(trainer.initial_weights(), groups, 0, edge_weights)


@pytest.mark.parametrize("client_weights", [np.ones(2), np.zeros(7), np.full(7, np.nan)])
def test_wrong_weights_of_clients_are_refused(trainer, client_weights):
    with pytest.raises(StagewiseError, match="client_weights: must be 7 finite numbers above 0"):
        trainer.train_round(
            trainer.initial_weights(), groups_of([0]), 0, client_weights=client_weights
        )


def test_wrong_weights_are_refused(trainer):
    weights = trainer.initial_weights()
    with pytest.raises(StagewiseError, match="weights: extra is not part of the model"):
        trainer.evaluate({**weights, "extra": np.zeros(1)})
    missing = {name: part for name, part in weights.items() if name != "0.bias"}
    with pytest.raises(StagewiseError, match=r"weights: 0\.bias is missing"):
        trainer.evaluate(missing)
    with pytest.raises(StagewiseError, match=r"weights: 0.bias has the shape \(3,\): must be"):
        trainer.evaluate({**weights, "0.bias": np.zeros(3)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local_steps": 0}, "local_steps = 0: must be at least 1"),
        ({"edge_rounds": 0}, "edge_rounds = 0"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0"),
        ({"momentum": -1.0}, "momentum = -1.0"),
        ({"weight_decay": float("nan")}, "weight_decay = nan"),
        ({"dtype": "float16"}, "dtype = 'float16': must be one of float32, float64"),
        ({"device": "tpu"}, "device = 'tpu': must be 'cpu', 'cuda', 'cuda:N' or 'mps'"),
        ({"fraction": 0.0}, r"batch_fraction\[0\] = 0.0: must be above 0 and at most 1"),
        ({"fraction": 1.5}, r"batch_fraction\[0\] = 1.5"),
    ],
)
def test_wrong_tasks_are_refused(options, message):
    with pytest.raises(StagewiseError, match=message):
        small_task(**options)


def test_a_closed_team_says_so():
    trainer = Trainer(small_task())
    trainer.close()
    with pytest.raises(StagewiseError, match="the trainer is closed"):
        trainer.evaluate(trainer.initial_weights())
