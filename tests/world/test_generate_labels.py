"""Label allocation: every client's labels, sizes and split, and that none is favoured."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.world.generate import TASKS, Task, allocate_labels, task_of


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    labels = draw(st.integers(1, 12))
    low = draw(st.integers(1, labels))
    smallest = draw(st.integers(1, 50))
    return Task(
        name="any",
        labels=labels,
        labels_per_client=(low, draw(st.integers(low, labels))),
        data_range=(smallest, draw(st.integers(smallest, 60))),
        sample_bits=8,
        model_bits=32,
    )


@given(tasks(), st.integers(1, 40), st.integers(0, 2**31))
def test_every_client_keeps_the_ranges_and_splits_equally(task, clients, seed):
    counts = allocate_labels(task, clients, np.random.default_rng(seed))
    assert counts.shape == (clients, task.labels)
    assert counts.dtype == np.int64
    for row in counts.tolist():
        held = [count for count in row if count]
        size = sum(row)
        assert task.data_range[0] <= size <= task.data_range[1]
        assert len(held) <= task.labels_per_client[1]
        # Fewer labels than asked for is possible only where the data does not go round.
        assert len(held) >= min(task.labels_per_client[0], size)
        if size >= task.labels_per_client[1]:
            assert sorted(held) == sorted(
                size // len(held) + (place < size % len(held)) for place in range(len(held))
            )


@pytest.mark.parametrize("name", TASKS)
def test_the_tasks_reach_both_ends_of_their_ranges(name):
    task = TASKS[name]
    counts = allocate_labels(task, 20_000, generator(1, "test"))
    held, size = (counts > 0).sum(axis=1), counts.sum(axis=1)
    assert (held.min(), held.max()) == task.labels_per_client
    assert (size.min(), size.max()) == task.data_range
    # Uniform numbers of labels: each within six standard deviations of its expected share.
    options = task.labels_per_client[1] - task.labels_per_client[0] + 1
    share = np.bincount(held)[task.labels_per_client[0] :] / len(held)
    assert np.abs(share - 1 / options).max() < 6 * np.sqrt(1 / options / len(held))


def test_no_label_and_no_pair_of_labels_is_favoured():
    clients = 60_000
    task = replace(TASKS["mnist"], labels_per_client=(2, 2))
    has = (allocate_labels(task, clients, generator(2, "test")) > 0).astype(float)
    together = has.T @ has / clients
    pairs = together[~np.eye(10, dtype=bool)]
    assert np.abs(np.diag(together) - 0.2).max() < 0.01
    assert np.abs(pairs - 1 / 45).max() < 0.004


def test_the_remainder_favours_no_label():
    task = replace(TASKS["mnist"], labels_per_client=(3, 3), data_range=(301, 301))
    counts = allocate_labels(task, 30_000, generator(3, "test"))
    assert np.abs((counts == 101).mean(axis=0) - 0.1).max() < 0.012


def test_more_clients_begin_with_the_same_ones(monkeypatch):
    few = allocate_labels(TASKS["cifar100"], 50, generator(4, "test"))
    monkeypatch.setattr("stagewise.world.generate.labels._KEYS_AT_ONCE", 700)
    many = allocate_labels(TASKS["cifar100"], 120, generator(4, "test"))
    np.testing.assert_array_equal(many[:50], few)
    assert (many[50:].sum(axis=1) > 0).all()


def test_the_tasks_of_the_paper():
    assert TASKS["mnist"].model_bits == 698_880
    assert TASKS["mnist"].sample_bits == 6272
    assert TASKS["cifar10"].sample_bits == 24_576
    assert [task.labels for task in TASKS.values()] == [10, 10, 10, 100, 200]


def test_resnet_34_has_the_parameters_the_task_says():
    def block(inside: int, outside: int) -> int:
        shortcut = inside * outside + 2 * outside if inside != outside else 0
        return 9 * inside * outside + 9 * outside * outside + 4 * outside + shortcut

    parameters = 9 * 3 * 64 + 2 * 64 + 512 * 200 + 200
    inside = 64
    for outside, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for _ in range(blocks):
            parameters += block(inside, outside)
            inside = outside
    assert TASKS["tiny-imagenet"].model_bits == 32 * parameters


def test_an_unknown_task_is_refused():
    with pytest.raises(
        StagewiseError, match=r"task = 'cifar': must be one of mnist, fashion-mnist"
    ):
        task_of("cifar")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels_per_client", (0, 3)),
        ("labels_per_client", (3, 2)),
        ("labels_per_client", (3, 11)),
        ("data_range", (10, 9)),
        ("sample_bits", float("nan")),
        ("model_bits", 0),
    ],
)
def test_an_impossible_task_is_refused(field, value):
    with pytest.raises(StagewiseError, match=field):
        replace(TASKS["mnist"], **{field: value})
