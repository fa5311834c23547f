"""Tiny-ImageNet in its published layout: 200 classes of 64 x 64 pixels."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stagewise.datasets.dataset import Dataset
from stagewise.datasets.file_tree import FileTree, open_tree
from stagewise.datasets.image_files import Sample, read_samples
from stagewise.datasets.image_folder import image_files, locate
from stagewise.datasets.source import Contents, Found
from stagewise.errors import StagewiseError, shown

_IMAGE_SIZE = 64
_ANNOTATIONS = "val_annotations.txt"


@dataclass(frozen=True)
class TinyImagenetSource:
    """`train/<class>/images/*.JPEG`; `val/images/*.JPEG` with `val/val_annotations.txt`.

    The validation images are for testing; those in `test/` have no labels and are left out.
    """

    name: str
    contents: Contents

    @property
    def expects(self) -> str:
        return (
            f"train/<class>/images/*.JPEG, val/images/*.JPEG and val/{_ANNOTATIONS} in "
            f"{self.name}/ or tiny-imagenet-200/, or tiny-imagenet-200.zip or .tar of the same"
        )

    def find(self, root: Path | None) -> Found | None:
        path = None if root is None else locate(root, (self.name, "tiny-imagenet-200"))
        return None if path is None else Found("Tiny-ImageNet", path, (path,))

    def load(self, found: Found) -> Dataset:
        with open_tree(found.paths[0]) as tree:
            samples, classes = _labelled(tree)
            dataset = read_samples(tree, samples, _IMAGE_SIZE, self.name, classes)
        return self.contents.check(dataset, found.folder)


def _labelled(tree: FileTree) -> tuple[list[Sample], int]:
    train: dict[str, str] = {}
    validation: list[str] = []
    for file in image_files(tree.names):
        match PurePosixPath(file).parts:
            case [*_, "train", name, "images", _]:
                train[file] = name
            case [*_, "val", "images", _]:
                validation.append(file)
    if not train or not validation:
        raise StagewiseError(
            f"{tree.path}: must have train/<class>/images/*.JPEG and val/images/*.JPEG; a subset in "
            "another layout goes by the name image-folder or tiny-imagenet-50"
        )
    number = {name: label for label, name in enumerate(sorted(set(train.values())))}
    samples = [Sample(file, number[name], False) for file, name in train.items()]
    class_of = _annotations(tree)
    for file in validation:
        given = class_of.get(PurePosixPath(file).name)
        if given not in number:
            raise StagewiseError(
                f"{tree.path}: {file}: {_ANNOTATIONS} gives it class {shown(given)}: must be one of "
                "the folders in train"
            )
        samples.append(Sample(file, number[given], True))
    return samples, len(number)


def _annotations(tree: FileTree) -> dict[str, str]:
    """The class of each validation image, from lines `<file> <class> <box>` with tabs between."""
    for file in tree.names:
        if PurePosixPath(file).parts[-2:] == ("val", _ANNOTATIONS):
            lines = tree.read(file).decode("utf-8", "replace").splitlines()
            fields = [line.split("\t") for line in lines]
            return {field[0]: field[1] for field in fields if len(field) > 1}
    raise StagewiseError(f"{tree.path}: must have val/{_ANNOTATIONS}")
