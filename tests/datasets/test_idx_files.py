"""MNIST's layout, where people keep it and how it may be damaged."""

import gzip

import numpy as np
import pytest
from small_files import IDX_NAMES, idx_bytes, random_split, use_small, write_idx_set

from stagewise.datasets import available, load_dataset
from stagewise.datasets.idx import read_idx
from stagewise.errors import StagewiseError

TRAIN = random_split(0, 12, (1, 5, 4), 3)
TEST = random_split(1, 6, (1, 5, 4), 3)


@pytest.fixture(autouse=True)
def small_sets(monkeypatch):
    for name in ("mnist", "fashion-mnist"):
        use_small(monkeypatch, name, 3, 12, 6)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "mnist/MNIST/raw", "."])
def test_every_place_with_and_without_gzip(tmp_path, folder, packed):
    write_idx_set(tmp_path / folder, TRAIN, TEST, packed=packed)
    dataset = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(dataset.train_images, TRAIN[0])
    np.testing.assert_array_equal(dataset.train_labels, TRAIN[1])
    np.testing.assert_array_equal(dataset.test_images, TEST[0])
    np.testing.assert_array_equal(dataset.test_labels, TEST[1])
    assert dataset.image_shape == (1, 5, 4)


def test_a_dot_in_the_names(tmp_path):
    names = [name.replace("-idx", ".idx") for name in IDX_NAMES]
    write_idx_set(tmp_path / "fashion-mnist", TRAIN, TEST, names=names)
    assert len(load_dataset("fashion-mnist", tmp_path).train_labels) == 12


def test_missing_files_are_named(tmp_path):
    write_idx_set(tmp_path / "mnist", TRAIN, TEST)
    (tmp_path / "mnist" / IDX_NAMES[1]).unlink()
    with pytest.raises(StagewiseError, match=r"mnist: .*mnist: missing train-labels-idx1-ubyte"):
        load_dataset("mnist", tmp_path)
    finding = next(f for f in available(tmp_path) if f.name == "mnist")
    assert not finding.found
    assert finding.missing == ("train-labels-idx1-ubyte[.gz]",)
    with pytest.raises(StagewiseError, match=r"fashion-mnist: not found in .*t10k-images-idx3"):
        load_dataset("fashion-mnist", tmp_path)


def damaged_cases():
    good = idx_bytes(TRAIN[0][:, 0])
    huge = good[:4] + b"\xff" * 12 + good[16:]
    return {
        "empty": (b"", "begins with nothing"),
        "labels instead": (idx_bytes(TRAIN[1]), "begins with 00000801"),
        "floats": (b"\0\0\x0d\x03" + good[4:], "begins with 00000d03"),
        "text": (b"<html>not found</html>", "begins with 3c68746d"),
        "header cut": (good[:9], "cut short in its header"),
        "data cut": (good[:-1], "declares 240 bytes and has 239"),
        "too long": (good + b"\0", "declares 240 bytes and has more"),
        "huge": (huge, "must be at most"),
        "gzip cut": (gzip.compress(good)[:-9], "not valid gzip"),
        "gzip damaged": (gzip.compress(good)[:-6] + b"\0\0\0\0\0\0", "not valid gzip"),
        "gzip bomb": (gzip.compress(good[:16] + bytes(10**7)), "has more"),
        "huge in gzip": (gzip.compress(huge), "must be at most"),
        "gzip alone": (b"\x1f\x8b", "not valid gzip"),
    }


@pytest.mark.parametrize("case", damaged_cases())
def test_damaged_files(tmp_path, case):
    content, message = damaged_cases()[case]
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(StagewiseError, match=message) as error:
        read_idx(path, 3)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_every_cut_of_a_gzip_file_is_refused(tmp_path):
    content = gzip.compress(idx_bytes(TEST[0][:, 0]))
    for size in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(StagewiseError):
            read_idx(tmp_path / "cut", 3)


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(StagewiseError, match="cannot be read"):
        read_idx(tmp_path, 1)


def test_labels_and_sizes_must_be_those_of_the_set(tmp_path):
    write_idx_set(tmp_path / "mnist", TRAIN, (TEST[0], TEST[1] + 1))
    with pytest.raises(StagewiseError, match=r"test labels\[\d\] = 3: must be from 0 to 2"):
        load_dataset("mnist", tmp_path)
    write_idx_set(tmp_path / "mnist", (TRAIN[0], TRAIN[1][:-1]), TEST)
    with pytest.raises(StagewiseError, match=r"training labels: .*must be int64 of shape"):
        load_dataset("mnist", tmp_path)
    write_idx_set(tmp_path / "mnist", TEST, TEST)
    message = "3 classes, 6 training and 6 test images: mnist has 3, 12 and 6"
    with pytest.raises(StagewiseError, match=message):
        load_dataset("mnist", tmp_path)
