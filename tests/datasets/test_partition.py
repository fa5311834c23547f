"""Dealing training samples to clients."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.datasets import Dataset, partition
from stagewise.errors import StagewiseError
from stagewise.world.generate import numeric


def dataset_of(labels, classes):
    labels = np.asarray(labels, dtype=np.int64)
    images = np.zeros((len(labels), 1, 1, 1), dtype=np.uint8)
    return Dataset("labels", images, labels, images[:1], labels[:1], classes)


@given(st.data())
def test_counts_are_exact_and_no_sample_is_used_more_than_need_be(data):
    classes = data.draw(st.integers(1, 5))
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=40))
    held = np.bincount(labels, minlength=classes)
    row = st.tuples(*(st.integers(0, 30 if amount else 0) for amount in held))
    counts = np.array(data.draw(st.lists(row, max_size=8)), dtype=np.int64).reshape(-1, classes)
    dealt = partition(dataset_of(labels, classes), counts, data.draw(st.integers(0, 9)))

    assert len(dealt) == len(counts)
    assert dealt.start.dtype == dealt.index.dtype == np.int64
    for client, expected in enumerate(counts):
        own = np.asarray(labels)[dealt.samples(client)]
        np.testing.assert_array_equal(np.bincount(own, minlength=classes), expected)
    uses = Counter(dealt.index.tolist())
    for label in range(classes):
        if held[label]:
            each = [uses[sample] for sample, own in enumerate(labels) if own == label]
            assert sum(each) == counts[:, label].sum()
            # A new shuffle begins only when the last is used up.
            assert max(each) - min(each) <= 1


def test_who_gets_what_depends_on_the_seed_alone():
    labels = np.arange(600) % 3
    counts = np.array([[50, 20, 0], [10, 100, 7], [0, 0, 30]])
    first, again, other = (partition(dataset_of(labels, 3), counts, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.index, again.index)
    assert set(first.samples(0)) != set(other.samples(0))
    # The samples of a class do not depend on what is asked of the others.
    fewer = counts.copy()
    fewer[:, 0] = 0
    alone = partition(dataset_of(labels, 3), fewer, 1)
    assert set(first.samples(1)) - set(alone.samples(1)) == set(first.samples(1)[:10])


def test_every_sample_has_the_same_chance():
    labels = np.zeros(20)
    uses = np.zeros(20)
    for seed in range(400):
        uses[partition(dataset_of(labels, 1), np.array([[5]]), seed).index] += 1
    # 400 draws of 5 of 20: each sample 100 times, with standard deviation 8.7.
    assert 60 < uses.min() < uses.max() < 140


def test_ten_thousand_clients_take_the_memory_of_their_index():
    counts = numeric(10_000, 4, 0).clients.label_counts
    dataset = dataset_of(np.arange(60_000) % 10, 10)
    tracemalloc.start()
    dealt = partition(dataset, counts, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(np.diff(dealt.start), counts.sum(axis=1))
    whose = np.repeat(np.arange(10_000), np.diff(dealt.start))
    found = np.zeros_like(counts)
    np.add.at(found, (whose, dataset.train_labels[dealt.index]), 1)
    np.testing.assert_array_equal(found, counts)
    assert peak < 2 * dealt.index.nbytes


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros((2, 2), int), r"shape \(2, 2\): must be whole numbers of shape \(clients, 3\)"),
        (np.zeros((2, 3)), "label_counts: float64"),
        (np.zeros(3, int), r"shape \(3,\)"),
        (np.array([[1, 0, 0], [0, -4, 0]]), r"label_counts\[1, 1\] = -4: must be at least 0"),
        (np.array([[0, 0, 1]]), r"label_counts\[:, 2\]: must be 0: labels has no training samples"),
        (np.array([[2**40, 0, 0]]), "label_counts: sum = 1099511627776: must be"),
        (np.array([[2**62, 2**62, 0], [2**62, 2**62, 0]]), "label_counts: sum"),
    ],
)
def test_counts_that_cannot_be_dealt(counts, message):
    with pytest.raises(StagewiseError, match=message):
        partition(dataset_of([0, 1, 0, 1], 3), counts, 0)


def test_a_seed_must_be_one():
    with pytest.raises(StagewiseError, match="seed = -1"):
        partition(dataset_of([0], 1), np.array([[1]]), -1)
