"""Messages to nodes and their replies, over whatever carries them, and the roll call over that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from flwr.app import RecordDict

from stagewise.fates import Fate

PAUSE_S = 0.3
"""How long to wait at most before the clock is looked at again."""

SETTLE_S = 1.0
"""How long to wait for those who were there at the last roll call: they may be between two requests."""

_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class OutgoingMessage:
    """A message to a client or an edge, by its id."""

    receiver: str
    kind: str
    content: RecordDict


@dataclass(frozen=True)
class IncomingReply:
    """The reply to a message: its content, or why there is none and the fate that follows."""

    message_id: str
    content: RecordDict | None
    fate: Fate = "counted"
    reason: str = ""


class MessageChannel(Protocol):
    """Carries messages to the nodes of a server and their replies back."""

    def present(self) -> Mapping[str, str]:
        """The nodes that are in touch, by name, with what each said last of itself."""
        ...

    def send(self, messages: Sequence[OutgoingMessage], expire_s: float) -> list[str | None]:
        """An id for each message; None where its receiver is not connected."""
        ...

    def receive(self) -> list[IncomingReply]:
        """What has arrived since, for any message ever sent; each reply once. Does not wait."""
        ...

    def now(self) -> float:
        """The seconds on its channel."""
        ...

    def wait(self, seconds: float) -> None:
        """Until something arrives, or so many seconds have passed."""
        ...


def replies_until(
    channel: MessageChannel, message_ids: Iterable[str | None], deadline: float
) -> Iterator[IncomingReply]:
    """The first reply to each message as it arrives, until all have or the clock is at `deadline`."""
    waiting = {message_id for message_id in message_ids if message_id is not None}
    while waiting and channel.now() < deadline:
        arrived = channel.receive()
        if channel.now() >= deadline:
            return
        for reply in arrived:
            if reply.message_id in waiting:
                waiting.remove(reply.message_id)
                yield reply
        if waiting and not arrived:
            channel.wait(PAUSE_S)


def roll_call(
    channel: MessageChannel, before: Collection[str], deadline_s: float
) -> tuple[dict[str, str], dict[str, float]]:
    """Who is in touch, with what each said last, and how many seconds it took to know.

    Nobody is asked: nodes that are there keep a request open. Those who were there `before` are waited
    for, a second at most.
    """
    began = channel.now()
    found_s: dict[str, float] = {}
    while True:
        present, taken_s = dict(channel.present()), channel.now() - began
        for name in present:
            found_s.setdefault(name, taken_s)
        if taken_s >= min(SETTLE_S, deadline_s) or set(before) <= present.keys():
            return present, {name: found_s[name] for name in present}
        channel.wait(_LOOK_EVERY_S)
