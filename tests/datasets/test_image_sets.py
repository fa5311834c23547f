"""Folders and archives of images: labels, splits, sizes, and Tiny-ImageNet's layout."""

import struct
import zlib

import numpy as np
import pytest
from small_files import image_bytes, noise_image, tar_bytes, use_small, write_files, zip_bytes

from stagewise.datasets import available, load_dataset
from stagewise.datasets.image_files import decode_image
from stagewise.errors import StagewiseError

Image = pytest.importorskip("PIL.Image")


def coloured(value, size=(10, 10)):
    """An image of one colour, which tells which file it came from."""
    return image_bytes(Image.new("RGB", size, (value, value // 2, 255 - value)), "PNG")


def class_folders(prefix="", per_class=10):
    """Three classes; every file has a colour of its own."""
    return {
        f"{prefix}{name}/{number:02}.png": coloured(10 * number + label)
        for label, name in enumerate(("beach", "city", "forest"))
        for number in range(per_class)
    }


def reds(images):
    return images[:, 0, 0, 0].tolist()


def refused(name, path, **options):
    with pytest.raises(StagewiseError) as error:
        load_dataset(name, path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_folder_for_each_class(tmp_path):
    write_files(tmp_path, {**class_folders(), "city/notes.txt": b"x", "city/.hidden.png": b"x"})
    dataset = load_dataset("image-folder", tmp_path, image_size=8)
    assert dataset.image_shape == (3, 8, 8)
    assert (len(dataset.train_labels), len(dataset.test_labels)) == (24, 6)
    np.testing.assert_array_equal(np.bincount(dataset.test_labels), [2, 2, 2])
    # Every file is there once, with the label of its folder and its colours in order.
    every = reds(dataset.train_images) + reds(dataset.test_images)
    assert sorted(every) == sorted(10 * n + label for label in range(3) for n in range(10))
    labels = dataset.train_labels.tolist() + dataset.test_labels.tolist()
    assert [value % 10 for value in every] == labels
    np.testing.assert_array_equal(
        dataset.train_images[:, 2, 3, 3], 255 - dataset.train_images[:, 0, 5, 5]
    )


@pytest.mark.parametrize("where", ["set.tar", "set.tgz", "set.zip", "image-folder.zip", "deep"])
def test_the_split_is_the_same_wherever_the_files_are(tmp_path, where):
    write_files(tmp_path / "plain", class_folders())
    expected = load_dataset("image-folder", tmp_path / "plain")
    files = dict(reversed(class_folders("top/inner/").items()))
    root = tmp_path / where
    if where == "deep":
        write_files(root / "image-folder", files)
    elif where.endswith("zip"):
        root.write_bytes(zip_bytes({**files, "__MACOSX/top/inner/city/._01.png": b"x"}))
    else:
        root.write_bytes(tar_bytes(files, "w:gz" if where.endswith("gz") else "w"))
    root = tmp_path if where == "image-folder.zip" else root
    assert load_dataset("image-folder", root).fingerprint == expected.fingerprint
    finding = next(f for f in available(root) if f.name == "image-folder")
    assert finding.found
    assert finding.size_bytes > 0


def test_folders_that_say_what_is_for_testing(tmp_path):
    files = {
        "train/b/1.png": coloured(1),
        "train/a/2.png": coloured(2),
        "train/a/1.png": coloured(3),
        "val/a/1.png": coloured(4),
        "val/b/1.png": coloured(5),
    }
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    dataset = load_dataset("image-folder", tmp_path / "x.tar")
    assert reds(dataset.train_images) == [3, 2, 1]
    assert dataset.train_labels.tolist() == [0, 0, 1]
    assert reds(dataset.test_images) == [4, 5]
    assert dataset.image_shape == (3, 64, 64)


def test_grey_and_transparent_and_oblong_images(tmp_path):
    files = {
        "a/grey.jpg": image_bytes(noise_image(0, (30, 20), "L"), "JPEG"),
        "a/colour.JPEG": image_bytes(noise_image(1, (9, 9)), "JPEG"),
        "b/alpha.png": image_bytes(Image.new("RGBA", (5, 5), (1, 2, 3, 4)), "PNG"),
        "b/palette.png": image_bytes(noise_image(2, (7, 8)).convert("P"), "PNG"),
    }
    write_files(tmp_path, files)
    dataset = load_dataset("image-folder", tmp_path, image_size=16)
    assert dataset.train_images.shape == (2, 3, 16, 16)
    grey = decode_image(files["a/grey.jpg"], "grey")
    assert grey.shape == (20, 30, 3)
    np.testing.assert_array_equal(grey[:, :, 0], grey[:, :, 2])


def test_resizing_averages():
    """Shrinking takes all pixels into account, not every n-th."""
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 200
    small = decode_image(image_bytes(Image.fromarray(stripes), "PNG"), "stripes", 8)
    assert small.shape == (8, 8, 3)
    assert 90 < small.min() <= small.max() < 110


def test_folders_that_are_no_set(tmp_path):
    write_files(tmp_path / "one", {"a/1.png": coloured(1), "a/2.png": coloured(2)})
    (tmp_path / "one.tar").write_bytes(tar_bytes({"a/1.png": coloured(1)}))
    assert "at least two classes" in refused("image-folder", tmp_path / "one.tar")
    write_files(tmp_path / "image-folder", {"a/1.png": coloured(1), "b/2.png": coloured(2)})
    assert "its class must have two images" in refused("image-folder", tmp_path)
    write_files(tmp_path / "image-folder", {"a/b/3.png": coloured(1)})
    assert "images must be in <class>/<file>" in refused("image-folder", tmp_path)
    assert "not found in" in refused("image-folder", tmp_path / "one")
    empty = tmp_path / "empty.tar"
    empty.write_bytes(tar_bytes({"readme.txt": b"nothing"}))
    assert "at least two classes" in refused("image-folder", empty)


def huge_png():
    """A header of 40,000 x 40,000 pixels with nothing behind it."""
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    chunks = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        for chunk in (b"IHDR" + header, b"IDAT", b"IEND")
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a PNG or JPEG image"),
        (b"GIF89a\x01\x00\x01\x00", "not a PNG or JPEG image"),
        (image_bytes(noise_image(0, (40, 40)), "JPEG")[:-400], "not a valid image"),
        (image_bytes(noise_image(0, (40, 40)), "PNG")[:-400], "not a valid image"),
        (huge_png(), "not a valid image: .*pixels"),
        (image_bytes(Image.new("L", (9000, 8000)), "PNG"), "9000 x 8000 pixels: must be at most"),
    ],
)
def test_damaged_images_are_named(tmp_path, content, message):
    write_files(tmp_path, {**class_folders(per_class=3), "city/99.png": content})
    with pytest.raises(StagewiseError, match=r"city.99\.png: " + message):
        load_dataset("image-folder", tmp_path)


def test_sizes(tmp_path, monkeypatch):
    write_files(tmp_path / "image-folder", class_folders(per_class=2))
    assert "image_size = 0: must be" in refused("image-folder", tmp_path, image_size=0)
    assert "the images of mnist have one size" in refused("mnist", tmp_path, image_size=9)
    monkeypatch.setattr("stagewise.datasets.image_files._LARGEST_TOTAL_BYTES", 1000)
    assert "6 images of 64 x 64 pixels: must take" in refused("image-folder", tmp_path)


def tiny_imagenet(prefix="", classes=("n02", "n01", "n03"), train=2):
    files = {
        f"{prefix}train/{name}/images/{name}_{number}.JPEG": image_bytes(
            noise_image(number, (64, 64), "L" if number else "RGB"), "JPEG"
        )
        for name in classes
        for number in range(train)
    }
    files |= {
        f"{prefix}val/images/val_{n}.JPEG": coloured(n, (64, 64)) for n in range(len(classes))
    }
    lines = [f"val_{n}.JPEG\t{name}\t0\t0\t62\t62\n" for n, name in enumerate(classes)]
    files[f"{prefix}val/val_annotations.txt"] = "".join(lines).encode()
    files[f"{prefix}test/images/test_0.JPEG"] = coloured(0, (64, 64))
    files[f"{prefix}wnids.txt"] = "\n".join(classes).encode()
    return files


@pytest.mark.parametrize("layout", ["folder", "published folder", "zip", "tar"])
def test_tiny_imagenet(tmp_path, monkeypatch, layout):
    use_small(monkeypatch, "tiny-imagenet", 3, 6, 3)
    files = tiny_imagenet("tiny-imagenet-200/")
    if layout == "folder":
        write_files(tmp_path / "tiny-imagenet", tiny_imagenet())
    elif layout == "published folder":
        write_files(tmp_path, files)
    elif layout == "zip":
        (tmp_path / "tiny-imagenet-200.zip").write_bytes(zip_bytes(files))
    else:
        write_files(tmp_path / "tiny-imagenet", {"images.tar.gz": tar_bytes(files, "w:gz")})
    dataset = load_dataset("tiny-imagenet", tmp_path)
    assert dataset.image_shape == (3, 64, 64)
    assert dataset.train_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.test_labels.tolist() == [0, 1, 2]
    # The classes are numbered by name: n01 is the second of the annotations.
    assert reds(dataset.test_images) == [1, 0, 2]


def test_a_subset_is_never_the_full_set(tmp_path):
    write_files(tmp_path / "tiny-imagenet", tiny_imagenet())
    message = refused("tiny-imagenet", tmp_path)
    assert "3 classes, 6 training and 3 test images: tiny-imagenet has 200, 100000" in message
    subset = {
        f"{split}/n0{n}/{n}.JPEG": coloured(n) for split in ("train", "val") for n in range(3)
    }
    (tmp_path / "tiny-imagenet-200.tar").write_bytes(tar_bytes(subset))
    write_files(tmp_path / "b" / "tiny-imagenet", subset)
    assert "goes by the name image-folder or tiny-imagenet-50" in refused(
        "tiny-imagenet", tmp_path / "b"
    )
    for name in ("aid15", "ali", "tiny-imagenet-50"):
        write_files(tmp_path / name, class_folders())
        assert f": {name} has" in refused(name, tmp_path)
        assert f": {name} has" in refused(name, tmp_path / name)


def test_tiny_imagenet_with_wrong_annotations(tmp_path, monkeypatch):
    use_small(monkeypatch, "tiny-imagenet", 3, 6, 3)
    folder = tmp_path / "tiny-imagenet"
    write_files(folder, tiny_imagenet())
    annotations = folder / "val" / "val_annotations.txt"
    annotations.write_text("val_0.JPEG\tn09\t0\n")
    assert "gives it class 'n09'" in refused("tiny-imagenet", tmp_path)
    annotations.write_bytes(b"\xff\xfe nonsense\n\n")
    assert "gives it class None" in refused("tiny-imagenet", tmp_path)
    annotations.unlink()
    assert "must have val/val_annotations.txt" in refused("tiny-imagenet", tmp_path)
