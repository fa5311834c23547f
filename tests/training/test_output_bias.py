"""Honest training never breaks the rule of the output biases; attacks do, wherever they arrive."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from training_cases import groups_of, largest_difference, noisy_network, small_task, smoothed_loss

from attacks import ATTACKS, AttackedTrainer, label_flipped
from stagewise.datasets import Partition
from stagewise.models import MODELS, build_model
from stagewise.robust.labels import LabelRule, OutputBias, bias_rise, judge_rise
from stagewise.robust.norms import TOO_LARGE
from stagewise.robust.safeguards import Safeguards
from stagewise.training import Trainer, train_client
from stagewise.training.output_bias import bias_name, output_bias
from stagewise.training.participants import Participants
from stagewise.training.round_judge import RoundJudge

LABELS = [(0,), (1, 2), (3, 4, 5), (6, 7, 8, 9), (0, 9), (2, 7)]
GROUPS = groups_of([0, 1, 2], [3, 4, 5])


def task_by_labels(model="mlp", **options):
    """Each client has samples of its labels alone."""
    task = small_task(model, sizes=[20] * len(LABELS), **options)
    found = task.dataset.train_labels
    own = [np.flatnonzero(np.isin(found, labels))[:20] for labels in LABELS]
    start = np.concatenate([[0], np.cumsum([len(part) for part in own])])
    return replace(task, partition=Partition(start, np.concatenate(own)))


def held():
    return np.array([[label in own for label in range(10)] for own in LABELS])


def guard_of(task):
    return Safeguards(labels=LabelRule(output_bias(task), held()))


def rises(task, weights, rounds, client):
    """What `rounds` honest updates of one client after the other do, and their negatives."""
    rule, own = output_bias(task), held()[client]
    for round_index in range(rounds):
        after, _ = train_client(task, weights, client, round_index, 0)
        before, moved = weights[rule.name], after[rule.name]
        yield bias_rise(before, moved, own, rule), bias_rise(before, 2 * before - moved, own, rule)
        weights = after


@pytest.mark.parametrize("model", ["mlp", noisy_network])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("momentum", "weight_decay", "rate"), [(0, 0, 0.1), (0.9, 0, 1.0), (0.5, 0.1, 0.3), (0, 1, 0.1)]
)
def test_no_honest_update_breaks_the_rule(model, dtype, momentum, weight_decay, rate):
    options = {"momentum": momentum, "weight_decay": weight_decay, "learning_rate": rate}
    task = task_by_labels(model, local_steps=5, dtype=dtype, **options)
    with Trainer(task) as trainer:
        weights = trainer.initial_weights()
    for client in range(len(LABELS)):
        for honest, flipped in rises(task, weights, 4, client):
            assert honest.foreign == 0 and honest.rise <= 1 + 1e-6
            if momentum == weight_decay == 0:  # else it may move among its own labels alone
                assert judge_rise(flipped).endswith("has no samples of: must be at most 0.1")


def test_the_largest_rise_is_that_of_a_model_that_is_always_wrong():
    """Outputs that put all probability on a label that the client does not have, at every step."""
    task = task_by_labels(local_steps=3, learning_rate=1e-3, momentum=0.5)
    rule = output_bias(task)
    assert rule.most == pytest.approx(1e-3 * (1 + 1.5 + 1.75))
    with Trainer(task) as trainer:
        weights = trainer.initial_weights()
    weights[rule.name][5] = 1e3
    after, _ = train_client(task, weights, 0, 0, 0)
    found = bias_rise(weights[rule.name], after[rule.name], held()[0], rule)
    # The bias of 1,000 falls by rounding's allowance more than it must.
    assert found.rise == pytest.approx(1.0) and found.foreign == 0
    tenfold = weights[rule.name] + 10 * (after[rule.name] - weights[rule.name])
    reason = judge_rise(bias_rise(weights[rule.name], tenfold, held()[0], rule))
    assert reason.startswith("it raises the biases of the outputs by 10 times")


def test_a_rise_that_cannot_be_computed_is_the_largest_number():
    """Infinity has no place in messages."""
    rule, own = OutputBias("bias", most=0.2, slack=0.0), np.arange(10) < 5
    for before, after in ((0.0, 1e308), (-1e308, 1.7e308)):
        found = bias_rise(np.full(10, before), np.full(10, after), own, rule)
        assert found == (TOO_LARGE, 0.5) and judge_rise(found)
    assert bias_rise(np.zeros(10), np.where(own, 1e308, 0.0), own, rule) == (TOO_LARGE, 0.0)
    assert bias_rise(np.zeros(10), np.zeros(10), own, rule) == (0.0, 0.0)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_ours_has_output_biases(name):
    shape = (1, 28, 28) if name == "mnist-cnn" else (3, 32, 32)
    model = build_model(name, 10, shape)
    found = bias_name(model, 10, shape)
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    assert dict(model.named_parameters())[found] is last.bias


class Unusual(nn.Module):
    """Its output layer is not the last of its modules, and another is as wide."""

    def __init__(self, bias=True):
        super().__init__()
        self.head = nn.Linear(10, 10, bias=bias)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh())

    def forward(self, images):
        return self.head(self.body(images)).log_softmax(1)


def test_the_output_biases_are_found_by_what_they_do():
    assert bias_name(Unusual(), 10, (1, 8, 8)) == "head.bias"
    assert bias_name(Unusual(bias=False), 10, (1, 8, 8)) is None
    assert output_bias(task_by_labels(lambda: Unusual(bias=False))) is None
    assert output_bias(task_by_labels(loss=smoothed_loss)) is None
    assert isinstance(output_bias(task_by_labels(loss=cross_entropy)), OutputBias)


class Recurrent(nn.Module):
    """Rows are its steps; its state is in the default precision, whatever its own is."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, images):
        rows, _ = self.cell(images[:, 0], torch.zeros(1, len(images), 16))
        return self.head(rows[:, -1])


class InSinglePrecision(Unusual):
    def forward(self, images):
        return super().forward(images.float())


class Refusing(Unusual):
    """It does not like the images that it is tried with."""

    def forward(self, images):
        if images.min() < 0:
            raise ValueError("no negative numbers")
        return super().forward(images)


def test_a_model_is_tried_as_it_is_trained():
    for model in (Recurrent, InSinglePrecision):
        task = task_by_labels(model, dtype="float32")
        assert output_bias(task).name == "head.bias"
        with Trainer(task) as trainer:
            trainer.train_round(trainer.initial_weights(), GROUPS, 0)
    assert output_bias(task_by_labels(Refusing)) is None
    assert output_bias(task_by_labels(lambda: nn.Flatten())) is None


class Changed(Unusual):
    """Its outputs are multiplied by a number that is 1 at first, or given to `layer`."""

    def __init__(self, layer=None):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()), requires_grad=layer is None)
        self.layer = layer

    def forward(self, images):
        outputs = self.scale * self.head(self.body(images))
        return outputs if self.layer is None else self.layer(outputs)


class Twice(Unusual):
    """Its output biases are those of its hidden layer, too."""

    def __init__(self):
        super().__init__()
        self.body[1].bias = self.head.bias


def test_what_is_the_output_bias_at_first_or_in_evaluation_only_is_none():
    shape = (1, 8, 8)
    assert bias_name(Changed(), 10, shape) is None
    assert bias_name(Changed(nn.Dropout(0.02)), 10, shape) is None
    assert bias_name(Twice(), 10, shape) is None
    assert bias_name(Changed(nn.Identity()), 10, shape) == "head.bias"
    assert bias_name(Changed(nn.BatchNorm1d(10)), 10, shape) == "layer.bias"


def test_trying_a_model_leaves_no_trace():
    model = noisy_network().eval()
    before = {name: part.clone() for name, part in model.state_dict().items()}
    state = torch.random.get_rng_state()
    assert bias_name(model, 10, (1, 8, 8)) == "9.bias"
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not model.training and all(part.grad is None for part in model.parameters())


@pytest.mark.parametrize("aggregator", ["mean", "trimmed-mean"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_wrong_update_is_refused_and_honest_ones_change_no_bit(attack, aggregator):
    """Of norms nothing is learned, and no other update is ten times as small as these."""
    task = task_by_labels()
    guard = replace(guard_of(task), aggregator=aggregator)
    with AttackedTrainer(task, 1, ATTACKS[attack], [4]) as attacked, Trainer(task) as honest:
        weights = honest.initial_weights()
        for round_index in range(3):
            found, figures = attacked.train_round(weights, GROUPS, round_index, safeguards=guard)
            without = groups_of([0, 1, 2], [3, 5])
            expected, _ = honest.train_round(weights, without, round_index, safeguards=guard)
            if ATTACKS[attack] is label_flipped:  # labels 0 and 9 become 9 and 0
                assert not figures.account.reasons
                break
            assert {client for _, client in figures.account.reasons} == {4}
            assert largest_difference(found, expected) < 1e-9
            weights = expected
        plain, _ = honest.train_round(weights, GROUPS, 9, safeguards=Safeguards(aggregator))
        judged, figures = honest.train_round(weights, GROUPS, 9, safeguards=guard)
    assert largest_difference(plain, judged) == 0 and not figures.account.reasons
    assert figures.account.rises.shape == (task.edge_rounds, 6, 2)
    assert np.all(figures.account.rises[..., 1] == 0)


def test_other_labels_are_seen():
    task = task_by_labels()
    with AttackedTrainer(task, 1, label_flipped, [1, 2, 5]) as attacked:
        weights = attacked.initial_weights()
        _, figures = attacked.train_round(weights, GROUPS, 0, safeguards=guard_of(task))
    assert {client for _, client in figures.account.reasons} == {1, 2}  # 5 has 2 and 7


def test_updates_may_be_seen_in_any_order():
    """Whoever is seen last of an edge round, it is judged by its own labels."""
    task = task_by_labels()
    who, guard = Participants.of(GROUPS, task, None), guard_of(task)
    before = np.zeros(10)
    for places in ([5, 3, 0, 1, 4, 2], range(6)):
        judge = RoundJudge(who, guard, task.edge_rounds)
        for own in (held(), ~held()):
            for place in places:
                judge.see(place, before, 1e-3 * own[who.clients[place]])
            judge.counted(np.ones(6))
        account = judge.figures([np.ones((3, 6))] * 2).account
        assert account.counted.tolist() == [[True] * 6, [False] * 6]
        np.testing.assert_array_equal(account.rises[..., 1], [[0.0] * 6, [1.0] * 6])
