"""How much of anything one sender may ask for: rates, and nothing twice; and what was refused."""

import contextlib
from collections import OrderedDict
from pathlib import Path

import msgspec

from stagewise.errors import StagewiseError
from stagewise.files import decode_json, read_bytes, write_bytes

REFUSED = "refused.json"

SENDERS = 4096
"""How many senders are remembered; the one not heard of for longest is forgotten first."""

REPLAY_S = 320.0
"""Longer than a signature is valid."""


class Rates:
    """So many a second for each sender, and `burst` at once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate, self._burst = per_second, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, sender: str, now: float) -> bool:
        """Whether one more is within the limit; if it is, it counts."""
        left, then = self._left.pop(sender, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1.0
        self._left[sender] = (left - 1.0 if allowed else left), now
        if len(self._left) > SENDERS:
            self._left.popitem(last=False)
        return allowed


class SeenOnce:
    """What was seen within `REPLAY_S`, in two halves of which the older one is forgotten."""

    def __init__(self) -> None:
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._turned = 0.0

    def first_time(self, item: bytes, now: float) -> bool:
        """Whether it was not seen before; from now on it was."""
        if now - self._turned > REPLAY_S:
            self._new, self._old, self._turned = set(), self._new, now
        if item in self._new or item in self._old:
            return False
        self._new.add(item)
        return True


def save_refused(count: dict[str, int], role: Path) -> None:
    """Keep in the folder of a role how often its SuperLink refused what."""
    with contextlib.suppress(StagewiseError):  # a disk that is full is no reason to end
        write_bytes(role / REFUSED, msgspec.json.encode(count) + b"\n")


def load_refused(role: Path) -> dict[str, int]:
    """How often what was refused, by name and reason; nothing where nothing was."""
    path = role / REFUSED
    return decode_json(read_bytes(path), dict[str, int], str(path)) if path.exists() else {}


class Counts:
    """How often what was refused, by name and reason; and whether it is time to say so again."""

    SAY_EVERY_S = 5.0

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self._said: dict[str, float] = {}

    def add(self, what: str, now: float) -> bool:
        """One more; true if it should be said."""
        if what not in self.count and len(self.count) >= SENDERS:
            return False
        self.count[what] = self.count.get(what, 0) + 1
        if now - self._said.get(what, -self.SAY_EVERY_S) < self.SAY_EVERY_S:
            return False
        self._said[what] = now
        return True
