"""Work in threads, one call at a time for each federation; whoever waits holds no thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stagewise.serve.refusals import TooMany

T = TypeVar("T")

AT_ONCE = 8
"""Calls for one key that are carried out or wait."""


class SerialExecutor:
    """Threads that calls for different keys share; calls for the same key follow one another in order.

    All of it is used from one event loop.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._queues: dict[str, _Queue] = {}

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """What `work` gives, once those before it with this key are done; refused if too many wait."""
        queue = self._queues.setdefault(key, _Queue())
        if queue.calls >= AT_ONCE:
            raise TooMany(f"{key}: {AT_ONCE} requests wait already: must be fewer")
        queue.calls += 1
        try:
            async with queue.turn:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            queue.calls -= 1
            if queue.calls == 0:
                del self._queues[key]

    def close(self) -> None:
        """Take no more calls; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Queue:
    def __init__(self) -> None:
        self.turn, self.calls = asyncio.Lock(), 0
