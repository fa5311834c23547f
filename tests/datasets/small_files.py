"""Small data sets in the layouts that data sets are published in."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from stagewise.datasets import catalogue
from stagewise.datasets.source import Contents

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def use_small(monkeypatch, name, classes, train, test, **changes):
    """Let `name` stand for a set of this size, with contents that nobody knows."""
    source = replace(catalogue.SOURCES[name], contents=Contents(classes, train, test), **changes)
    monkeypatch.setitem(catalogue.SOURCES, name, source)


def random_split(seed, samples, shape, classes):
    """(images, labels)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    return rng.integers(0, 256, (samples, *shape), dtype=np.uint8), labels


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_set(folder, train, test, *, packed=False, names=IDX_NAMES):
    """`train` and `test` are (images, labels), images of shape (samples, 1, height, width)."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = (train[0][:, 0], train[1], test[0][:, 0], test[1])
    for name, array in zip(names, arrays, strict=True):
        content = idx_bytes(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def python2_pickle(images, labels, label_key="labels"):
    """A batch as Python 2 pickled it, instruction by instruction: the form of the archives."""

    def text(value):
        return b"U" + bytes([len(value)]) + value.encode()

    raw = images.reshape(len(images), -1)
    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    shape = (
        b"M" + struct.pack("<H", raw.shape[0]) + b"M" + struct.pack("<H", raw.shape[1]) + b"\x86"
    )
    dtype = (
        b"cnumpy\ndtype\nq\x0a" + text("u1") + b"K\x00K\x01\x87Rq\x0b"
        b"(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    return (
        b"\x80\x02}q\x01(" + text("batch_label") + b"q\x02" + text("batch 1 of 5") + b"q\x03"
        + text(label_key) + b"q\x04]q\x05(" + numbers + b"e"
        + text("data") + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08"
        + b"K\x00\x85" + text("b") + b"\x87Rq\x09(K\x01" + shape + dtype + b"\x89"
        + b"T" + struct.pack("<I", raw.size) + raw.tobytes() + b"tb"
        + text("filenames") + b"]q\x0c(" + text("a.png") + text("b.png") + b"eu."
    )  # fmt: skip


def binary_batch(images, labels, label_bytes=1):
    """A batch of the binary version; with two labels the first, coarse one is 0."""
    before = np.zeros((len(labels), label_bytes), dtype=np.uint8)
    before[:, -1] = labels
    return np.concatenate([before, images.reshape(len(images), -1)], axis=1).tobytes()


def png_sheet(images):
    from PIL import Image

    rows = images.transpose(0, 2, 3, 1).reshape(len(images), 32 * 32, 3)
    return image_bytes(Image.fromarray(rows), "PNG")


def image_bytes(image, kind):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def noise_image(seed, size, mode="RGB"):
    from PIL import Image

    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(values)


def write_files(folder, files):
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def tar_bytes(files, mode="w"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zip_bytes(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def json_bytes(value):
    return json.dumps(value).encode()
