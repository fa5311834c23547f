"""CIFAR in each layout: all give the same arrays, and damage is one line."""

import hashlib

import numpy as np
import pytest
from small_files import (
    binary_batch,
    image_bytes,
    json_bytes,
    noise_image,
    png_sheet,
    python2_pickle,
    random_split,
    tar_bytes,
    use_small,
    write_files,
)

from stagewise.datasets import available, load_dataset
from stagewise.errors import StagewiseError

pytest.importorskip("PIL")

# Batches of different sizes, so that none can be mistaken for another.
BATCHES = {f"data_batch_{n}": random_split(n, n + 1, (3, 32, 32), 10) for n in range(1, 6)}
BATCHES["test_batch"] = random_split(9, 4, (3, 32, 32), 10)
HUNDRED = {
    "train": random_split(1, 7, (3, 32, 32), 100),
    "test": random_split(2, 3, (3, 32, 32), 100),
}


@pytest.fixture(autouse=True)
def small_sets(monkeypatch):
    use_small(monkeypatch, "cifar10", 10, 20, 4)
    use_small(monkeypatch, "cifar100", 100, 7, 3, batch_md5={})


def python_files(prefix="", batches=BATCHES, key="labels"):
    return {f"{prefix}{name}": python2_pickle(*batch, key) for name, batch in batches.items()}


def binary_files(prefix="", batches=BATCHES, label_bytes=1):
    return {
        f"{prefix}{name}.bin": binary_batch(*batch, label_bytes) for name, batch in batches.items()
    }


def sheets(prefix="", batches=BATCHES):
    files = {f"{prefix}{name}.png": png_sheet(images) for name, (images, _) in batches.items()}
    *train, test = batches.values()
    labels = np.concatenate([labels for _, labels in train]).tolist()
    files[f"{prefix}train_lables.json"] = json_bytes(labels)
    files[f"{prefix}test_lables.json"] = json_bytes(test[1].tolist())
    return files


LAYOUTS = {
    "python": lambda: python_files("cifar10/cifar-10-batches-py/"),
    "python directly": python_files,
    "python archive": lambda: {
        "cifar10/cifar-10-python.tar.gz": tar_bytes(
            {
                "cifar-10-batches-py/readme.html": b"<html>",
                **python_files("cifar-10-batches-py/"),
                "cifar-10-batches-py/batches.meta": b"(dp0\n.",
            },
            "w:gz",
        )
    },
    "python archive, unpacked once": lambda: {
        "cifar-10-python.tar": tar_bytes(python_files("cifar-10-batches-py/"))
    },
    "binary": lambda: binary_files("cifar-10/cifar-10-batches-bin/"),
    "binary archive": lambda: {
        "cifar-10/cifar-10-binary.tar.gz": tar_bytes(
            dict(reversed(binary_files("cifar-10-batches-bin/").items())), "w:gz"
        )
    },
    "PNG sheets": lambda: sheets("cifar-10/"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_of_cifar10_give_the_same(tmp_path, layout):
    write_files(tmp_path, LAYOUTS[layout]())
    dataset = load_dataset("cifar10", tmp_path)
    *train, test = BATCHES.values()
    np.testing.assert_array_equal(dataset.train_images, np.concatenate([b[0] for b in train]))
    np.testing.assert_array_equal(dataset.train_labels, np.concatenate([b[1] for b in train]))
    np.testing.assert_array_equal(dataset.test_images, test[0])
    np.testing.assert_array_equal(dataset.test_labels, test[1])
    assert dataset.train_images.flags.c_contiguous
    finding = next(f for f in available(tmp_path) if f.name == "cifar10")
    assert layout.startswith(finding.layout)
    assert finding.size_bytes > 0


@pytest.mark.parametrize(
    "files",
    [
        lambda: python_files("cifar-100-python/", HUNDRED, "fine_labels"),
        lambda: binary_files("cifar100/", HUNDRED, 2),
        lambda: {
            "cifar-100-python.tar.gz": tar_bytes(
                python_files("cifar-100-python/", HUNDRED, "fine_labels"), "w:gz"
            )
        },
        lambda: sheets("cifar100/", HUNDRED),
    ],
)
def test_cifar100(tmp_path, files):
    write_files(tmp_path, files())
    dataset = load_dataset("cifar100", tmp_path)
    np.testing.assert_array_equal(dataset.train_images, HUNDRED["train"][0])
    np.testing.assert_array_equal(dataset.train_labels, HUNDRED["train"][1])
    np.testing.assert_array_equal(dataset.test_labels, HUNDRED["test"][1])
    assert dataset.classes == 100


def test_known_batches_are_told_from_others(tmp_path, monkeypatch):
    files = python_files("cifar-100-python/", HUNDRED, "fine_labels")
    known = {
        name.rpartition("/")[2]: hashlib.md5(content).hexdigest() for name, content in files.items()
    }
    write_files(tmp_path, files)
    use_small(monkeypatch, "cifar100", 100, 7, 3, batch_md5=known)
    assert load_dataset("cifar100", tmp_path).classes == 100
    use_small(monkeypatch, "cifar100", 100, 7, 3, batch_md5={**known, "test": "0" * 32})
    with pytest.raises(StagewiseError, match=f"MD5 is {known['test']}, must be 000"):
        load_dataset("cifar100", tmp_path)


def refused(tmp_path, files, name="cifar10"):
    write_files(tmp_path, files)
    with pytest.raises(StagewiseError) as error:
        load_dataset(name, tmp_path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_batch(tmp_path):
    files = python_files("cifar10/")
    del files["cifar10/data_batch_3"]
    assert refused(tmp_path, files).endswith("cifar10: missing data_batch_3")
    archive = tar_bytes({"x/data_batch_1": b"", **binary_files("x/")}, "w:gz")
    message = refused(tmp_path / "b", {"cifar-10-python.tar.gz": archive})
    assert "not a valid pickle" in message
    archive = tar_bytes(binary_files("x/"), "w:gz")
    message = refused(tmp_path / "c", {"cifar-10-python.tar.gz": archive})
    assert "must have data_batch_1, data_batch_2" in message


def test_damaged_batches(tmp_path):
    images, labels = BATCHES["test_batch"]
    good = binary_files("cifar10/")

    def binary(content):
        return refused(tmp_path, {**good, "cifar10/test_batch.bin": content})

    cut = good["cifar10/test_batch.bin"][:-5]
    assert f"has {len(cut)} bytes: must be a multiple of 3073" in binary(cut)
    assert "has 0 bytes" in binary(b"")
    assert "test labels[0] = 77: must be from 0 to 9" in binary(
        binary_batch(images, labels * 0 + 77)
    )
    assert "and 5 test images: cifar10 has 10, 20 and 4" in binary(
        binary_batch(np.concatenate([images, images[:1]]), np.append(labels, 0))
    )


def test_damaged_python_batches(tmp_path):
    images, labels = BATCHES["test_batch"]
    good = python_files("cifar10/")

    def python(content):
        return refused(tmp_path, {**good, "cifar10/test_batch": content})

    assert "labels: must be a list of 4 labels" in python(python2_pickle(images, labels[:-1]))
    assert "labels: must be a list of 4 labels" in python(python2_pickle(images, labels, "other"))
    assert "data: must be an array of 3072 bytes" in python(python2_pickle(images[:, :1], labels))
    assert "not a valid pickle" in python(good["cifar10/test_batch"][:-100])
    assert "pickle names 'posix system'" in python(b"cposix\nsystem\n(S'true'\ntR.")


def test_damaged_sheets(tmp_path):
    good = sheets("cifar10/")

    def changed(name, content):
        return refused(tmp_path, {**good, f"cifar10/{name}": content})

    sheet = good["cifar10/test_batch.png"]
    assert "test_batch.png: not a valid image" in changed("test_batch.png", sheet[:-200])
    assert "not a PNG or JPEG image" in changed("test_batch.png", b"GIF89a....")
    assert "test_lables.json: must be a list of 4 labels" in changed("test_lables.json", b"[1,2]")
    assert "test_lables.json: not valid JSON" in changed("test_lables.json", b"[1,2")
    assert "expected `int`" in changed("test_lables.json", b"[1, 2, 3, 4.5]")
    assert "test_lables.json[2] = -1" in changed("test_lables.json", b"[1, 2, -1, 4]")
    narrow = image_bytes(noise_image(0, (1000, 4)), "PNG")
    assert "is 1000 pixels wide: must be 1024" in changed("test_batch.png", narrow)


def test_a_damaged_archive(tmp_path):
    content = LAYOUTS["python archive"]()["cifar10/cifar-10-python.tar.gz"]
    for size in range(0, len(content), max(1, len(content) // 60)):
        message = refused(tmp_path, {"cifar-10-python.tar.gz": content[:size]})
        assert "not a valid archive" in message
