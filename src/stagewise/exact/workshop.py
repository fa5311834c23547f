"""Threads for the compiled searches, and the time they have."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import numpy as np

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Workshop:
    """A pool of threads; compiled searches see in `stop` that the time is over."""

    def __init__(self, seconds: float | None = None, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1
        self.stop = np.zeros(1, dtype=np.int8)
        self.began = time.perf_counter()
        self.deadline = np.inf if seconds is None else self.began + seconds
        self._executor = ThreadPoolExecutor(self.threads)
        self._alarm = None if seconds is None else threading.Timer(seconds, self._ring)

    def __enter__(self) -> Self:
        if self._alarm is not None:
            self._alarm.daemon = True
            self._alarm.start()
        return self

    def __exit__(self, *exception: object) -> None:
        # After an interrupt no search goes on in the background.
        self._ring()
        if self._alarm is not None:
            self._alarm.cancel()
        self._executor.shutdown(cancel_futures=True)

    def _ring(self) -> None:
        self.stop[0] = 1

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.perf_counter())

    def spent(self, share: float) -> bool:
        """Whether this share of the time is over."""
        return time.perf_counter() > self.began + share * (self.deadline - self.began)

    @property
    def late(self) -> bool:
        return bool(self.stop[0]) or self.seconds_left <= 0

    def map(self, work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        """The answers in the order of `items`."""
        return list(self._executor.map(work, items))
