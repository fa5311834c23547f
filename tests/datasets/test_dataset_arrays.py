"""`Dataset`: its rules, its moments, scaling and the fingerprint."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import random_split

from stagewise.datasets import Dataset
from stagewise.errors import StagewiseError


def random_dataset(seed, samples=7, shape=(3, 4, 5), classes=4):
    return Dataset(
        "noise", *random_split(seed, samples, shape, classes),
        *random_split(seed + 1, 3, shape, classes), classes,
    )  # fmt: skip


@given(
    st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([(1, 1, 1), (3, 2, 5), (2, 9, 1)])
)
def test_mean_and_deviation_are_those_of_numpy(seed, samples, shape):
    dataset = random_dataset(seed, samples, shape)
    scaled = dataset.train_images / 255
    np.testing.assert_allclose(dataset.mean, scaled.mean(axis=(0, 2, 3)), rtol=1e-12)
    std = scaled.std(axis=(0, 2, 3))
    np.testing.assert_allclose(dataset.std, np.where(std == 0, 1, std), rtol=1e-9)


def test_moments_over_many_chunks():
    dataset = random_dataset(3, samples=900, shape=(3, 16, 16))
    np.testing.assert_allclose(
        dataset.std, (dataset.train_images / 255).std(axis=(0, 2, 3)), rtol=1e-12
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_scaled(dtype, tolerance):
    dataset = random_dataset(0, samples=50)
    before = dataset.test_images.copy()
    scaled = dataset.scaled(dataset.test_images, dtype)
    assert scaled.dtype == dtype
    mean, std = (dataset.mean[:, None, None], dataset.std[:, None, None])
    expected = (dataset.test_images / 255 - mean) / std
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=5 * tolerance)
    np.testing.assert_array_equal(dataset.test_images, before)
    train = dataset.scaled(dataset.train_images, np.float64)
    np.testing.assert_allclose(train.mean(axis=(0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(train.std(axis=(0, 2, 3)), 1, rtol=1e-12)


def test_a_channel_without_contrast_stays_finite():
    images = np.full((4, 1, 2, 2), 200, dtype=np.uint8)
    labels = np.zeros(4, dtype=np.int64)
    dataset = Dataset("grey", images, labels, images, labels, 1)
    assert dataset.std.tolist() == [1.0]
    np.testing.assert_allclose(dataset.scaled(images, np.float64), 0, atol=1e-15)


def test_the_fingerprint_is_of_the_contents_and_of_all_of_them():
    dataset = random_dataset(5)
    assert replace(dataset, name="other").fingerprint == dataset.fingerprint
    transposed = np.ascontiguousarray(dataset.train_images.transpose(0, 2, 3, 1))
    same = replace(dataset, train_images=transposed.transpose(0, 3, 1, 2))
    assert same.fingerprint == dataset.fingerprint
    seen = {dataset.fingerprint, replace(dataset, classes=5).fingerprint}
    for field in ("train_images", "train_labels", "test_images", "test_labels"):
        changed = getattr(dataset, field).copy()
        changed.flat[-1] = 3 - changed.flat[-1] % 2
        changed.flat[-1] -= changed.flat[-1] == getattr(dataset, field).flat[-1]
        seen.add(replace(dataset, **{field: changed}).fingerprint)
    shape = {
        field: getattr(dataset, field).reshape(-1, 3, 5, 4)
        for field in ("train_images", "test_images")
    }
    seen.add(replace(dataset, **shape).fingerprint)
    assert len(seen) == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": np.zeros((7, 3, 4, 5))}, "training images: float64"),
        ({"test_images": np.zeros((0, 3, 4, 5), np.uint8)}, "must be uint8 of shape"),
        ({"test_images": np.zeros((3, 60), np.uint8)}, r"test images: uint8 of shape \(3, 60\)"),
        ({"train_labels": np.zeros(6, np.int64)}, r"must be int64 of shape \(7,\)"),
        ({"train_labels": np.zeros(7, np.int32)}, "training labels: int32"),
        ({"test_labels": np.array([0, 4, 1])}, r"test labels\[1\] = 4: must be from 0 to 3"),
        ({"test_labels": np.array([0, -1, 1])}, r"test labels\[1\] = -1"),
        ({"test_images": np.zeros((3, 3, 4, 4), np.uint8)}, "must be the same"),
        ({"classes": 0}, "classes = 0: must be at least 1"),
    ],
)
def test_arrays_that_are_no_dataset(changes, message):
    with pytest.raises(StagewiseError, match=message) as error:
        replace(random_dataset(0), **changes)
    assert "\n" not in str(error.value)
