"""Threads for the compiled searches, and the time they have."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import numpy as np

from stagewise.cores import available_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


class SearchThreads:
    """A pool of threads; compiled searches see in `stop` that the time is over."""

    def __init__(self, seconds: float | None = None, count: int | None = None) -> None:
        self.stop = np.zeros(1, dtype=np.int8)
        self.began = time.perf_counter()
        self.deadline = np.inf if seconds is None else self.began + seconds
        self._executor = ThreadPoolExecutor(count or available_cores())
        self._timer = None if seconds is None else threading.Timer(seconds, self._set_stop)

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        # After an interrupt no search goes on in the background.
        self._set_stop()
        if self._timer is not None:
            self._timer.cancel()
        self._executor.shutdown(cancel_futures=True)

    def _set_stop(self) -> None:
        self.stop[0] = 1

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.perf_counter())

    def spent(self, share: float) -> bool:
        """Whether this share of the time is over."""
        return time.perf_counter() > self.began + share * (self.deadline - self.began)

    @property
    def out_of_time(self) -> bool:
        return bool(self.stop[0]) or self.seconds_left <= 0

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results in the order of `items`."""
        return list(self._executor.map(work, items))
