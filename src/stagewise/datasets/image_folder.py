"""Image sets with a folder for each class, in a folder or an archive."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stagewise.datasets.dataset import Dataset
from stagewise.datasets.file_tree import ARCHIVE_SUFFIXES, archive_stem, open_tree
from stagewise.datasets.image_files import IMAGE_SUFFIXES, Sample, read_samples
from stagewise.datasets.source import Contents, Found
from stagewise.errors import StagewiseError, shown
from stagewise.randomness import generator

DEFAULT_IMAGE_SIZE = 64
TEST_SHARE = 0.2
_SPLIT_SEED = 0
_TRAINING_FOLDERS = ("train", "training")
_TEST_FOLDERS = ("test", "val", "valid", "validation")


@dataclass(frozen=True)
class ImageFolderSource:
    """Images in `<class>/<file>`, or `train/<class>/<file>` and `test/<class>/<file>`.

    Classes are numbered in the order of their names. Without train and test folders a fixed fifth
    of every class is for testing.
    """

    name: str
    contents: Contents | None = None
    image_size: int = DEFAULT_IMAGE_SIZE

    @property
    def expects(self) -> str:
        return f"{self.name}/<class>/*.jpg or .png, or {self.name}.tar or .zip of the same"

    def find(self, root: Path | None) -> Found | None:
        if root is None:
            return None
        path = locate(root, (self.name,))
        if path is None and self.contents is None and _has_class_folders(root):
            path = root
        return None if path is None else Found("image folder", path, (path,))

    def load(self, found: Found) -> Dataset:
        with open_tree(found.paths[0]) as tree:
            files = image_files(tree.names)
            samples, classes = labelled(files, found.paths[0])
            dataset = read_samples(tree, samples, self.image_size, self.name, classes)
        return dataset if self.contents is None else self.contents.check(dataset, found.folder)


def locate(root: Path, names: tuple[str, ...]) -> Path | None:
    """The folder or archive of one of these names in `root`, or `root` where it is that itself.

    A folder with an archive and nothing to look into stands for the archive.
    """
    candidates = [root / f"{name}{suffix}" for name in names for suffix in ("", *ARCHIVE_SUFFIXES)]
    if (archive_stem(root) or root.name) in names:
        candidates.append(root)
    path = next((path for path in candidates if path.exists()), None)
    if path is None or path.is_file():
        return path
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    archives = [entry for entry in entries if entry.is_file() and archive_stem(entry)]
    inside = any(entry.is_dir() or _is_image(entry.name) for entry in entries)
    return archives[0] if len(archives) == 1 and not inside else path


def image_files(names: list[str]) -> list[str]:
    """The images among the files, without what systems leave in archives."""
    return [
        name
        for name in names
        if _is_image(name)
        and not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)
    ]


def labelled(files: list[str], where: Path) -> tuple[list[Sample], int]:
    """Every image with its class and split, and the number of classes."""
    parts = _without_common_folders({file: PurePosixPath(file).parts for file in files})
    given = {names[0].lower() for names in parts.values()}
    split = given <= {*_TRAINING_FOLDERS, *_TEST_FOLDERS} and len(given) == 2
    depth = 3 if split else 2
    for file, names in parts.items():
        if len(names) != depth:
            raise StagewiseError(
                f"{where}: {shown(file)}: images must be in <class>/<file>, or in "
                "train/<class>/<file> and test/<class>/<file>"
            )
    classes = sorted({names[-2] for names in parts.values()})
    if len(classes) < 2:
        raise StagewiseError(f"{where}: must have images in folders of at least two classes")
    number = {name: label for label, name in enumerate(classes)}
    if split:
        samples = [
            Sample(file, number[names[-2]], names[0].lower() in _TEST_FOLDERS)
            for file, names in parts.items()
        ]
    else:
        samples = _split_by_seed({file: number[names[0]] for file, names in parts.items()}, where)
    return samples, len(classes)


def _split_by_seed(label_of: dict[str, int], where: Path) -> list[Sample]:
    """The same fifth of every class for testing, whatever order the files come in."""
    members: dict[int, list[str]] = {}
    for file in sorted(label_of):
        members.setdefault(label_of[file], []).append(file)
    samples = []
    for label, files in members.items():
        if len(files) < 2:
            raise StagewiseError(f"{where}: {shown(files[0])}: its class must have two images")
        tests = max(1, round(TEST_SHARE * len(files)))
        order = generator(_SPLIT_SEED, "image folder split", label).permutation(len(files))
        samples += [Sample(file, label, bool(order[at] < tests)) for at, file in enumerate(files)]
    return samples


def _without_common_folders(parts: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Paths from the first folder on in which they differ."""
    while parts and all(len(names) > 2 for names in parts.values()):
        if len({names[0] for names in parts.values()}) > 1:
            break
        parts = {file: names[1:] for file, names in parts.items()}
    return parts


def _has_class_folders(root: Path) -> bool:
    """Whether `root` is an archive, or a folder in which every folder has images."""
    if root.is_file():
        return archive_stem(root) is not None
    folders = [entry for entry in root.iterdir() if entry.is_dir() and entry.name[0] != "."]
    return len(folders) > 1 and all(
        any(_is_image(entry.name) for entry in folder.iterdir()) for folder in folders
    )


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)
