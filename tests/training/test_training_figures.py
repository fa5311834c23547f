"""The figures of a round: what they are of, and that they cost no further pass over the data."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from training_cases import (  # noqa: E402
    assert_like_figures,
    groups_of,
    noisy_network,
    small_task,
    smoothed_loss,
)

from stagewise.training import Trainer, train_client  # noqa: E402

GROUPS = groups_of([4, 0], [], [2, 3, 6], [5])
WAYS = [
    pytest.param(("mnist-cnn", (1, 28, 28)), {}, id="batched"),
    pytest.param((noisy_network, (1, 8, 8)), {"loss": smoothed_loss}, id="module"),
]


def round_of(task, groups, round_index=0, workers=1):
    with Trainer(task, workers) as trainer:
        return trainer.train_round(trainer.initial_weights(), groups, round_index)


@pytest.mark.parametrize(("model", "options"), WAYS)
def test_they_are_of_the_clients_that_trained_by_rising_number(model, options):
    task = small_task(*model, **options)
    _, figures = round_of(task, GROUPS)
    assert figures.client.tolist() == [0, 2, 3, 4, 6]
    assert np.all(figures.update_norm > 0)


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("model", "options"), WAYS)
def test_edge_rounds_of_one_client_after_the_other_give_the_same(model, options, precision):
    """As deployed clients train, each in a process of its own."""
    task = small_task(*model, dtype=precision, edge_rounds=3, **options)
    weights, expected = round_of(task, groups_of([2]), 5)
    with Trainer(task) as trainer:
        trained = trainer.initial_weights()
    figures = []
    for edge_round in range(3):
        trained, of_edge_round = train_client(task, trained, 2, 5, edge_round)
        figures.append(of_edge_round)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, trained[name])
    whole = figures[-1]._replace(loss_before=figures[0].loss_before)
    assert_like_figures(whole, expected, tolerance=0)


class Counting(nn.Module):
    """Counts the batches that go through it."""

    forwards = 0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, images):
        Counting.forwards += 1
        return self.linear(images.flatten(1))


def test_there_is_one_forward_pass_for_each_local_step():
    with Trainer(small_task(Counting, local_steps=3, edge_rounds=2)) as trainer:
        weights = trainer.initial_weights()
        Counting.forwards = 0  # without those to find its biases
        trainer.train_round(weights, groups_of([0, 1], [2]), 0)
    assert Counting.forwards == 3 * 3 * 2


def test_norms_are_of_parameters_and_count_a_shared_one_once():
    # A learning rate of nearly nothing changes nothing but the buffers of batch normalisation.
    task = small_task(noisy_network, learning_rate=1e-300, edge_rounds=1)
    weights, figures = round_of(task, groups_of([0]))
    with Trainer(task) as trainer:
        before = trainer.initial_weights()
    assert np.abs(weights["1.running_mean"] - before["1.running_mean"]).max() > 1e-3
    assert figures.update_norm[0] < 1e-200
    # The rows of `6` and `8` are one tensor.
    task = replace(task, learning_rate=0.1)
    weights, figures = round_of(task, groups_of([0]))
    module = noisy_network()
    squares = sum(
        np.square(weights[name] - before[name]).sum() for name, _ in module.named_parameters()
    )
    assert figures.update_norm[0] == pytest.approx(np.sqrt(squares), rel=1e-9)


def test_norms_in_float32_are_summed_in_float64():
    """The sum of a million small squares beside a large one, which float32 would lose."""
    from stagewise.training.jobs import update_norms

    after = np.full((2, 1_000_003), 1e-3, dtype=np.float32)
    after[1, 0] = 4096.0
    norms = update_norms(after, np.zeros((2, 1_000_003), np.float32))
    expected = np.sqrt(4096.0**2 + 1_000_002 * float(np.float32(1e-3)) ** 2)
    assert norms[1] == pytest.approx(expected, rel=1e-10)
    norms = update_norms(after[:, :3], np.zeros((2, 3), np.float32))
    assert norms[1] == pytest.approx(np.sqrt(4096.0**2 + 2e-6), rel=1e-10)
