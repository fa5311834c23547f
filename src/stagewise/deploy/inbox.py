"""Answers as they arrive at a SuperLink, fetched beside the caller's own work.

Flower says that an answer is there before all of it was uploaded. Its Grid then waits for the rest, for
minutes where the sender was killed, and everybody's answers wait behind it. Here a thread of its own
fetches what there is of each answer and comes back for the rest, and nobody waits but for the clock.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol, cast

import httpx
from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from stagewise.deploy.edge_rounds import Answer
from stagewise.deploy.transport import Fate
from stagewise.errors import StagewiseError, one_line

PATIENCE_S = 30.0
"""How long a SuperLink may be out of reach before that is an error."""

PAUSE_S = 0.2
_JOIN_S = 5.0
_NODE = Node(node_id=SUPERLINK_NODE_ID)
_FAILED_APPS = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)


class Source(Protocol):
    """What is asked of Flower's Runtime API; none of it tries again by itself."""

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse: ...

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse: ...

    def ConfirmMessageReceived(
        self, request: ConfirmMessageReceivedRequest
    ) -> ConfirmMessageReceivedResponse: ...


@dataclass
class _Arriving:
    """An answer of which the objects in `missing` are not here yet."""

    letter: str
    message: str
    missing: list[str]
    contents: dict[str, bytes] = field(default_factory=dict)


class Inbox:
    """The answers to the letters that it was told of; its thread ends with `close`."""

    def __init__(self, source: Source, run_id: int, address: str) -> None:
        self._source, self._run_id, self._address = source, run_id, address
        self._lock = threading.Lock()
        self._open: set[str] = set()
        self._arriving: dict[str, _Arriving] = {}
        self._ready: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._failure = ""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="stagewise-inbox")
        self._thread.start()

    def expect(self, letters: Collection[str]) -> None:
        """Fetch the answers to these letters too."""
        with self._lock:
            self._open.update(letters)

    def drain(self) -> list[Answer]:
        """What arrived since the last time, without waiting; an error if the SuperLink is gone."""
        answers = []
        with contextlib.suppress(queue.Empty):
            while True:
                answers.append(self._ready.get_nowait())
        if not answers and self._failure:
            raise StagewiseError(self._failure)
        return answers

    def close(self) -> None:
        """End the thread; a request that is under way ends by its own timeout."""
        self._closed.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        give_up: float | None = None
        while not self._closed.wait(PAUSE_S):
            try:
                self._look()
                give_up = None
            except Exception as error:
                # The next look is the second try. Flower has forgotten an answer that it gave out and
                # that did not get here, and then says so: the letter's answer is lost.
                now = time.monotonic()
                give_up = now + PATIENCE_S if give_up is None else give_up
                if _is_final(error) or now >= give_up:
                    self._failure = f"{self._address}: the SuperLink: {_reason(error)}"
                    return

    def _look(self) -> None:
        """Ask for new answers, and fetch what has come of all that are under way."""
        with self._lock:
            letters = self._open - self._arriving.keys()
        if letters:
            said = self._source.PullMessages(PullAppMessagesRequest(message_ids=sorted(letters)))
            for message, tree in zip(said.messages_list, said.message_object_trees, strict=True):
                letter = message.metadata.reply_to_message_id
                if letter in letters:  # not one that comes a second time
                    objects = [each.object_id for each in iterate_object_tree(tree)]
                    number = message.metadata.message_id
                    self._arriving[letter] = _Arriving(letter, number, objects)
        for arriving in list(self._arriving.values()):
            try:
                answer = self._fetch(arriving)
            except (httpx.TransportError, OSError):
                raise
            except Exception as error:  # what is wrong with one must not end the others
                answer = Answer(
                    arriving.letter, None, "lost", f"cannot be fetched: {_reason(error)}"
                )
            if answer is not None:
                del self._arriving[arriving.letter]
                with self._lock:
                    self._open.discard(arriving.letter)
                self._ready.put(answer)

    def _fetch(self, arriving: _Arriving) -> Answer | None:
        """The answer if all of it is here now."""
        while arriving.missing and not self._closed.is_set():
            number = arriving.missing[-1]
            said = self._source.PullObject(
                PullObjectRequest(node=_NODE, run_id=self._run_id, object_id=number)
            )
            if not said.object_found:
                return Answer(arriving.letter, None, "lost", "its upload broke off")
            if not said.object_available:
                return None
            arriving.contents[arriving.missing.pop()] = said.object_content
        if arriving.missing:
            return None
        with contextlib.suppress(httpx.HTTPError, OSError):  # it only frees the SuperLink's memory
            self._source.ConfirmMessageReceived(
                ConfirmMessageReceivedRequest(
                    node=_NODE, run_id=self._run_id, message_object_id=arriving.message
                )
            )
        return _answer(arriving)


def _answer(arriving: _Arriving) -> Answer:
    try:
        inflated = inflate_object_from_contents(arriving.message, arriving.contents)
        message = cast(Message, inflated)
        if message.has_content():
            return Answer(arriving.letter, message.content)
        error = message.error
    except Exception as problem:
        return Answer(arriving.letter, None, "rejected", f"cannot be read: {_reason(problem)}")
    fate: Fate = "rejected" if error.code in _FAILED_APPS else "lost"
    reason = one_line(error.reason or f"Flower's error {error.code}")
    return Answer(arriving.letter, None, fate, reason)


def _is_final(error: Exception) -> bool:
    """Whether the SuperLink answered that it will not; without an answer it may come back."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500


def _reason(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")
