"""The order of the tutorials: as order.txt lists them."""

from pathlib import Path

ORDER = (Path(__file__).parents[1] / "tutorials" / "order.txt").read_text().split()


class AsListed:
    """A key that sorts files by their place in order.txt; one that is missing there is an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        return ORDER.index(filename)

    def __repr__(self) -> str:
        return "AsListed"
