"""Messages to nodes and their replies, over whatever carries them, and the roll call over that."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from flwr.app import RecordDict

from stagewise.deploy.messages import QUERY, RollCallReply, RollCallRequest, pack, read
from stagewise.errors import StagewiseError
from stagewise.fates import Fate

PAUSE_S = 0.3


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

    def node_names(self) -> tuple[str, ...]:
        """The nodes that are connected, as far as is known."""
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
        """Let so many seconds pass."""
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
    channel: MessageChannel,
    names: Collection[str],
    deadline_s: float,
    margin_s: float = 0.0,
) -> dict[str, tuple[RollCallReply, float]]:
    """The replies of those among `names` who are connected, and the seconds each took.

    Whoever asks others in turn has `margin_s` less. A node that says it is someone other than it was
    registered as is left out.
    """
    began = channel.now()
    asked = [name for name in channel.node_names() if name in names]
    request = pack(RollCallRequest(deadline_s=max(deadline_s - margin_s, 0.0)))
    message_ids = channel.send(
        [OutgoingMessage(name, QUERY, request) for name in asked], deadline_s
    )
    name_of = dict(zip(message_ids, asked, strict=True))
    present: dict[str, tuple[RollCallReply, float]] = {}
    for message in replies_until(channel, message_ids, began + deadline_s):
        if message.content is not None:
            name = name_of[message.message_id]
            with contextlib.suppress(StagewiseError):
                reply = read(message.content, RollCallReply)
                if reply.id == name:
                    present[name] = reply, channel.now() - began
    return present
