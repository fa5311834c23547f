"""Work in threads, one call at a time for each federation; whoever waits holds no thread."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

from stagewise.serve.refusals import TooMany

T = TypeVar("T")

AT_ONCE = 8
"""Calls for one key that are carried out or wait."""
_QUICK_S = 0.01
"""How long a call keeps the next one from starting."""


class SerialExecutor:
    """Threads that calls for different keys share; calls for the same key follow one another.

    Quick calls follow one another, too, whatever their keys: together they would only hand Python's
    lock to and fro, and the last of them would be done no sooner. A slow one holds up the start of
    the next by `_QUICK_S`, and has a thread to itself: with a slow call in each of them, others wait.

    All of it is used from one event loop.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._queues: dict[str, _Queue] = {}
        self._start = asyncio.Lock()

    @contextmanager
    def place(self, key: str) -> Iterator["Place"]:
        """A place among the calls for a key; refused if too many have one."""
        queue = self._queues.setdefault(key, _Queue())
        if queue.places >= AT_ONCE:
            raise TooMany(f"{key}: {AT_ONCE} requests wait already: must be fewer")
        queue.places += 1
        try:
            yield Place(self, queue.turn)
        finally:
            queue.places -= 1
            if queue.places == 0:
                del self._queues[key]

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What `work` gives, started once those before it are done or take long."""
        async with self._start:
            # In the context of the request: what is traced of the work is a part of it.
            within = copy_context().run
            doing = asyncio.get_running_loop().run_in_executor(self._threads, within, work)
            await asyncio.wait((doing,), timeout=_QUICK_S)
        return await doing

    def close(self) -> None:
        """Take no more calls; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Place:
    """One of the places for a key, which may be held long before there is work: it is no position."""

    def __init__(self, executor: SerialExecutor, turn: asyncio.Lock) -> None:
        self._executor, self._turn = executor, turn

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, once what was to be run before it with this key is done."""
        async with self._turn:
            return await self._executor.in_thread(work)


class _Queue:
    def __init__(self) -> None:
        self.turn, self.places = asyncio.Lock(), 0
