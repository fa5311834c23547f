"""Replies as they arrive at a SuperLink, fetched beside the caller's own work.

Flower announces a reply before all of it was uploaded. Its Grid then waits for the rest, for
minutes where the sender was killed, and everybody's replies wait behind it. Here a thread of its own
fetches what there is of each reply and comes back for the rest, and nobody waits but for the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

import httpx

from stagewise.deploy import flower_api
from stagewise.deploy.channel import IncomingReply
from stagewise.errors import one_line

PAUSE_S = 0.02
"""Before it looks again for the rest of a reply."""

RETRY_S = 10.0
"""How long the SuperLink may be out of reach before the inbox gives up."""

_JOIN_S = 1.0


class Inbox:
    """The replies to the messages that it expects; its thread ends with `close`."""

    def __init__(self, source: flower_api.ReplySource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._expected: set[str] = set()
        self._partial: dict[str, flower_api.PartialReply] = {}
        self._ready: list[IncomingReply] = []
        self._failure: Exception | None = None
        self._closed, self._asked, self._news = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, daemon=True, name="stagewise-inbox")
        self._thread.start()

    def expect(self, message_ids: Collection[str]) -> None:
        """Fetch the replies to these messages too."""
        with self._lock:
            self._expected.update(message_ids)
        self._asked.set()

    def drain(self) -> list[IncomingReply]:
        """What arrived since the last time, without waiting; an error if the SuperLink is gone."""
        with self._lock:
            replies, self._ready = self._ready, []
            self._news.clear()
        if not replies and self._failure is not None:
            raise self._failure
        return replies

    def wait(self, seconds: float) -> None:
        """Until there is something to drain, or so many seconds have passed."""
        self._news.wait(seconds)

    def give_up(self) -> list[str]:
        """End it; the messages that no reply has come to."""
        self.close()
        with self._lock:
            waiting, self._expected = sorted(self._expected), set()
        return waiting

    def close(self) -> None:
        """End the thread; a request that is under way ends by its own timeout."""
        self._closed.set()
        self._asked.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        deadline: float | None = None
        while not self._closed.is_set():
            self._asked.wait()
            try:
                self._look()
                deadline = None
            except Exception as error:
                # The next look is the second try. Flower has forgotten a reply that it gave out and
                # that did not get here, and then says so: the reply is lost.
                now = time.monotonic()
                deadline = now + RETRY_S if deadline is None else deadline
                if flower_api.is_final(error) or now >= deadline:
                    self._failure = error
                    self._news.set()
                    return
                self._closed.wait(PAUSE_S)

    def _look(self) -> None:
        """Ask for new replies, and fetch what has come of all that are under way."""
        with self._lock:
            expected = self._expected - self._partial.keys()
            if not self._expected:
                self._asked.clear()
                return
        wait = not self._partial
        for reply in self._source.announced(sorted(expected), wait) if expected else ():
            if reply.message_id in expected:  # not one that comes a second time
                self._partial[reply.message_id] = reply
        for partial in list(self._partial.values()):
            complete = self._fetch(partial)
            if complete is not None:
                del self._partial[partial.message_id]
                with self._lock:
                    self._expected.discard(partial.message_id)
                    self._ready.append(complete)
                    self._news.set()
        if self._partial:
            self._closed.wait(PAUSE_S)

    def _fetch(self, partial: flower_api.PartialReply) -> IncomingReply | None:
        """The reply if all of it is here now; what is wrong with one must not end the others."""
        try:
            if not self._source.fetch(partial):
                return None
        except (httpx.TransportError, OSError):
            raise
        except Exception as error:
            reason = f"cannot be fetched: {_reason(error)}"
            return IncomingReply(partial.message_id, None, "lost", reason)
        return _assembled(partial)


def _assembled(partial: flower_api.PartialReply) -> IncomingReply:
    try:
        message = partial.assemble()
        if message.has_content():
            return IncomingReply(partial.message_id, message.content)
        error = message.error
    except Exception as problem:
        reason = f"cannot be read: {_reason(problem)}"
        return IncomingReply(partial.message_id, None, "rejected", reason)
    reason = one_line(error.reason or f"Flower's error {error.code}")
    return IncomingReply(partial.message_id, None, flower_api.fate_of(error), reason)


def _reason(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")
