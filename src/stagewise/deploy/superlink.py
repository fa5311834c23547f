"""Messages to the nodes of a SuperLink and their replies; its run is begun again where it must be."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import httpx

from stagewise.deploy.channel import IncomingReply, OutgoingMessage
from stagewise.deploy.flower_api import ServerRun, at_superlink, is_final, is_run_lost
from stagewise.deploy.inbox import Inbox
from stagewise.errors import one_line
from stagewise.files import read_bytes
from stagewise.runs.progress import announce

CLOCKS_APART_S = 5.0
"""How far the clocks of machines may be apart, which is also what Flower allows."""

RETRY_S = 300.0
"""How long a SuperLink may be out of reach, paused or just starting, before that is an error."""

_PAUSE_S = 0.1
_T = TypeVar("_T")


class SuperLink:
    """A run at a SuperLink of this machine; nodes are known by the names of their keys.

    `address` is `host:port`, `authority` the file of the authority's certificate, `secret` the file of
    the secret that the SuperLink was started with. The run ends when nothing was heard of this process
    for a minute, as after a pause of the machine, and when the SuperLink itself ends. Then another is
    begun, and what was asked for in the old one is lost.
    """

    now = staticmethod(time.monotonic)

    def __init__(self, address: str, authority: Path, secret: Path) -> None:
        self._address, self._files = address, (authority, secret)
        self._lost: list[IncomingReply] = []
        with at_superlink(address):
            self._begin()

    def present(self) -> dict[str, str]:
        """The nodes that are in touch, by name, with what each said last."""
        with at_superlink(self._address):
            nodes = self._lasting(lambda: self._run.present())
        return {name: note for name, (_, note) in nodes.items()}

    def send(self, messages: Sequence[OutgoingMessage], expire_s: float) -> list[str | None]:
        """Push the messages; an id for each, None where its receiver is not connected."""
        with at_superlink(self._address):
            return self._lasting(lambda: self._send(messages, expire_s))

    def receive(self) -> list[IncomingReply]:
        """What has arrived, also for messages that nobody waits for any more; does not wait."""
        with at_superlink(self._address):
            replies = self._lasting(lambda: self._inbox.drain())
        lost, self._lost = self._lost, []
        return [*lost, *replies]

    def wait(self, seconds: float) -> None:
        """Until something has arrived, or so many seconds have passed."""
        self._inbox.wait(seconds)

    def close(self) -> None:
        """End the run; the SuperLink and its nodes stay."""
        self._inbox.close()
        self._run.close()

    def _send(self, messages: Sequence[OutgoingMessage], expire_s: float) -> list[str | None]:
        nodes = self._run.present()
        known = [(nodes[m.receiver][0], m.kind, m.content) for m in messages if m.receiver in nodes]
        pushed = self._run.push(known, expire_s + CLOCKS_APART_S) if known else []
        self._inbox.expect([message_id for message_id in pushed if message_id is not None])
        ids = iter(pushed)
        return [next(ids) if message.receiver in nodes else None for message in messages]

    def _lasting(self, act: Callable[[], _T]) -> _T:
        """Do it, in another run if this one is over; the error if that does not help in time."""
        deadline = time.monotonic() + RETRY_S
        while True:
            try:
                return act()
            except (httpx.HTTPError, OSError) as error:
                if (is_final(error) and not is_run_lost(error)) or time.monotonic() > deadline:
                    raise
                self._renew(one_line(f"{type(error).__name__}: {error}"), deadline)

    def _renew(self, reason: str, deadline: float) -> None:
        """Begin another run; nothing comes any more of what was asked for in this one."""
        waiting = self._inbox.give_up()
        self._lost += [
            IncomingReply(message_id, None, "lost", f"the SuperLink lost the run: {reason}")
            for message_id in waiting
        ]
        announce(f"{self._address}: the SuperLink lost the run ({reason}); another is begun")
        with contextlib.suppress(Exception):
            self._run.close()
        while True:
            try:
                self._begin()
                announce(f"{self._address}: the SuperLink is back")
                return
            except (httpx.HTTPError, OSError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _begin(self) -> None:
        authority, secret = self._files
        self._run = ServerRun(self._address, read_bytes(authority), read_bytes(secret))
        self._inbox = Inbox(self._run.replies)
