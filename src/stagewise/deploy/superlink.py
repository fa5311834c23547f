"""This process as the server of a SuperLink: messages to its nodes by their names, and their replies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from stagewise.deploy.channel import IncomingReply, OutgoingMessage
from stagewise.deploy.flower_api import ServerRun, at_superlink
from stagewise.deploy.inbox import Inbox
from stagewise.files import read_bytes

CLOCKS_APART_S = 5.0
"""How far the clocks of machines may be apart, which is also what Flower allows."""


class SuperLink:
    """A run at a SuperLink; nodes are known by the names they were registered with.

    `address` is `host:port`, `authority` the file of the authority's certificate, `secret` the file of
    the secret that the SuperLink was started with.
    """

    now = staticmethod(time.monotonic)
    wait = staticmethod(time.sleep)

    def __init__(self, address: str, authority: Path, secret: Path) -> None:
        self._address = address
        with at_superlink(address):
            self._run = ServerRun(address, read_bytes(authority), read_bytes(secret))
        self._inbox = Inbox(self._run.replies, address)

    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes that are connected, as far as Flower knows."""
        with at_superlink(self._address):
            return tuple(self._run.nodes())

    def send(self, messages: Sequence[OutgoingMessage], expire_s: float) -> list[str | None]:
        """Push the messages; an id for each, None where its receiver is not connected."""
        with at_superlink(self._address):
            nodes = self._run.nodes()
            known = [
                (nodes[m.receiver], m.kind, m.content) for m in messages if m.receiver in nodes
            ]
            pushed = self._run.push(known, expire_s + CLOCKS_APART_S) if known else []
            if len(pushed) != len(known):
                raise ValueError("the messages are too large")
        self._inbox.expect([message_id for message_id in pushed if message_id is not None])
        ids = iter(pushed)
        return [next(ids) if message.receiver in nodes else None for message in messages]

    def receive(self) -> list[IncomingReply]:
        """What has arrived, also for messages that nobody waits for any more; does not wait."""
        return self._inbox.drain()

    def close(self) -> None:
        """End the run; the SuperLink and its nodes stay."""
        self._inbox.close()
        self._run.close()
