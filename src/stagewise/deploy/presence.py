"""Who is in touch with a SuperLink, as its request filter sees it; and waiting for something there.

A node asks for messages by a request that is left open until there is one. While it is open the node is
there, and it is known at once when its process ends: nobody has to be asked whether they are there.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

GRACE_S = 5.0
"""How long a node without an open request is thought to be there: it may be between two, or at work."""

LONGEST_WAIT_S = 5.0
"""How long a request is left open; a machine that vanished is noticed after this and the grace."""


class ChangeNotifier:
    """Counts what happened, and lets requests wait for the next time."""

    def __init__(self) -> None:
        self.version = 0
        self._notified = asyncio.Event()

    def notify(self) -> None:
        self.version += 1
        self._notified.set()
        self._notified = asyncio.Event()

    async def wait(
        self, seen: int | None, wait_s: float, receive: Callable[[], Awaitable[Any]]
    ) -> bool:
        """Until something has happened since `seen`; false if the other side has gone meanwhile."""
        if seen is None or seen != self.version or wait_s <= 0:
            return True
        notified = asyncio.ensure_future(self._notified.wait())
        gone = asyncio.ensure_future(receive())
        try:
            timeout = min(wait_s, LONGEST_WAIT_S)
            done, _ = await asyncio.wait(
                {notified, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            return gone not in done
        finally:
            for task in (notified, gone):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


@dataclass
class _Contact:
    open: int = 0
    heard: float = 0.0
    note: str = ""


class Contacts:
    """The nodes of a SuperLink by name: when each was heard of, and what it said last."""

    def __init__(self) -> None:
        self.changed = ChangeNotifier()
        self._contacts: dict[str, _Contact] = {}

    def heard(self, name: str, now: float) -> None:
        self._of(name, now).heard = now

    def say(self, name: str, note: str, now: float) -> None:
        """A node has news of its own, such as who is in touch with it."""
        contact = self._of(name, now)
        contact.heard = now
        if contact.note != note:
            contact.note = note
            self.changed.notify()

    @contextlib.contextmanager
    def listening(self, name: str, clock: Callable[[], float]) -> Iterator[Callable[[], None]]:
        """A request of the node is open; to be told if the node went away before its end."""
        contact = self._of(name, clock())
        contact.open += 1
        contact.heard = clock()
        gone = False

        def left() -> None:
            nonlocal gone
            gone = True

        try:
            yield left
        finally:
            contact.open -= 1
            contact.heard = 0.0 if gone and not contact.open else clock()
            if gone and not contact.open:
                contact.note = ""
                self.changed.notify()

    def is_listening(self, name: str) -> bool:
        contact = self._contacts.get(name)
        return contact is not None and contact.open > 0

    def present(self, now: float) -> dict[str, str]:
        """Who is there, with what each said last."""
        return {
            name: contact.note
            for name, contact in list(self._contacts.items())
            if contact.open or (contact.heard and now - contact.heard < GRACE_S)
        }

    def forget(self, name: str) -> None:
        """It is not a node any more."""
        if self._contacts.pop(name, None) is not None:
            self.changed.notify()

    def _of(self, name: str, now: float) -> _Contact:
        contact = self._contacts.setdefault(name, _Contact())
        if not contact.open and (not contact.heard or now - contact.heard >= GRACE_S):
            contact.heard = now
            self.changed.notify()
        return contact
