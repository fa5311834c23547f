"""Work in threads, one call at a time for each federation; whoever waits holds no thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from stagewise.serve.refusals import TooMany

T = TypeVar("T")

AT_ONCE = 8
"""Calls for one key that are carried out or wait."""
_QUICK_S = 0.01
"""How long a call keeps the next one from starting."""


class SerialExecutor:
    """Threads that calls for different keys share; calls for the same key follow one another.

    Quick calls follow one another, too, whatever their keys: together they would only hand Python's
    lock to and fro, and the last of them would be done no sooner. So one thread at a time takes calls,
    the next as soon as it is done with one, while the event loop sends the answer. If a call takes
    longer than `_QUICK_S`, another thread takes over; with a slow call in each of them, others wait.

    All of it is used from one event loop.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places: dict[str, int] = {}
        self._lock = Lock()
        """Of all that follows, which the threads change, too."""
        self._ready: deque[_Call] = deque()
        self._behind: dict[str, deque[_Call]] = {}
        """By each key that has a call ready or under way: those that follow it."""
        self._taker: _Taker | None = None
        self._watched = False
        self._closed = False

    @contextmanager
    def place(self, key: str) -> Iterator["Place"]:
        """A place among the calls for a key; refused if too many have one."""
        held = self._places.get(key, 0)
        if held >= AT_ONCE:
            raise TooMany(f"{key}: {AT_ONCE} requests wait already: must be fewer")
        self._places[key] = held + 1
        try:
            yield Place(self, key)
        finally:
            self._places[key] -= 1
            if self._places[key] == 0:
                del self._places[key]

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` gives, once those before it are done, or take long and are of other keys."""
        loop = asyncio.get_running_loop()
        # In the context of the request: what is traced of the work is a part of it.
        call = _Call(key, work, copy_context(), loop.create_future())
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor is closed: must be open")
            if self._taker is None:
                self._start_taker()
            if key in self._behind:
                self._behind[key].append(call)
            else:
                self._behind[key] = deque()
                self._ready.append(call)
            if not self._watched:
                self._watched = True
                loop.call_later(_QUICK_S, self._watch)
        found: T = await call.answer
        return found

    def _start_taker(self) -> None:
        taker = _Taker()
        self._threads.submit(self._take_calls, taker)
        self._taker = taker

    def _take_calls(self, taker: "_Taker") -> None:
        """Carry out one call after the other, until there are none or another thread took over."""
        while True:
            with self._lock:
                if self._taker is None:
                    self._taker = taker
                elif self._taker is not taker:
                    return
                if not self._ready:
                    self._taker = None
                    return
                call, taker.began = self._ready.popleft(), monotonic()
            call.carry_out()
            with self._lock:
                behind = self._behind[call.key]
                if behind:
                    self._ready.append(behind.popleft())
                else:
                    del self._behind[call.key]

    def _watch(self) -> None:
        """Have another thread take over if the call under way takes long; as long as there are any."""
        with self._lock:
            self._watched = bool(self._behind) and not self._closed
            if not self._watched:
                return
            wait_s = _QUICK_S
            if self._ready and self._taker is not None and self._taker.began is not None:
                left_s = self._taker.began + _QUICK_S - monotonic()
                if left_s > 0:
                    wait_s = left_s
                else:
                    with suppress(RuntimeError):  # no thread can be started: this one goes on
                        self._start_taker()
        asyncio.get_running_loop().call_later(wait_s, self._watch)

    def close(self) -> None:
        """Take no more calls; those under way end by themselves."""
        with self._lock:
            self._closed = True
            for calls in (self._ready, *self._behind.values()):
                for call in calls:
                    call.answer.cancel()
                calls.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Place:
    """One of the places for a key, which may be held long before there is work: it is no position."""

    _executor: SerialExecutor
    _key: str

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, once what was to be run before it with this key is done."""
        return await self._executor.run(self._key, work)


class _Taker:
    """A thread that takes calls."""

    began: float | None = None
    """When it took the one that it is at; None as long as it waits for a thread."""


@dataclass(frozen=True, eq=False)
class _Call:
    key: str
    work: Callable[[], Any]
    context: Context
    answer: asyncio.Future[Any]

    def carry_out(self) -> None:
        """In a thread, unless nobody waits for it any more; the event loop is told what came of it."""
        if self.answer.cancelled():
            return
        try:
            tell = partial(self.answer.set_result, self.context.run(self.work))
        except BaseException as error:
            tell = partial(self.answer.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self.answer.get_loop().call_soon_threadsafe(self._settle, tell)

    def _settle(self, tell: Callable[[], None]) -> None:
        if not self.answer.cancelled():
            tell()
