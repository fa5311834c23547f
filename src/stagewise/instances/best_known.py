"""What is known of the instances: the best decision of each round, a certified bound, and by whom."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from stagewise.files import decode_json, read_bytes, write_bytes

FORMAT: Literal["stagewise-best-known/1"] = "stagewise-best-known/1"
FILE = Path(__file__).with_name("best_known.json")


class BestKnown(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one round."""

    value: float | None = None
    """What the best feasible decision costs; None where none is known."""
    by: str = ""
    """The method that found it, and the version of the library."""
    bound: float | None = None
    """No feasible decision costs less; None where nothing is proven."""
    bound_by: str = ""

    @property
    def gap(self) -> float | None:
        """By what part of the bound the best decision is above it."""
        if self.value is None or not self.bound:
            return None
        return max(0.0, self.value / self.bound - 1)

    def with_(self, other: "BestKnown") -> "BestKnown":
        """The better of two values, and the better of two bounds."""
        first, second = self, other
        if other.value is not None and (self.value is None or other.value < self.value):
            first = other
        if self.bound is not None and (other.bound is None or other.bound <= self.bound):
            second = self
        return BestKnown(first.value, first.by, second.bound, second.bound_by)


class _File(msgspec.Struct, kw_only=True):
    format: Literal["stagewise-best-known/1"] = FORMAT
    instances: dict[str, list[BestKnown]] = {}


def read_best_known(path: Path = FILE) -> dict[str, list[BestKnown]]:
    """By instance, a round each; an instance that is missing has nothing known."""
    return decode_json(read_bytes(path), _File, str(path)).instances


@cache
def best_known(name: str) -> list[BestKnown]:
    """Of an instance's rounds, as far as they are known."""
    return read_best_known().get(name, [])


def write_best_known(known: dict[str, list[BestKnown]], path: Path = FILE) -> None:
    """Keep what is known."""
    content = msgspec.json.encode(_File(instances=known))
    write_bytes(path, msgspec.json.format(content, indent=1) + b"\n")
