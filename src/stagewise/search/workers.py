"""Where independent parts of a search run: the caller's executor, or threads of our own."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from stagewise.cores import available_cores


@contextmanager
def workers(executor: Executor | None) -> Iterator[Executor]:
    """The caller's executor, or a thread for each processor: the compiled search releases the GIL."""
    if executor is not None:
        yield executor
        return
    own = ThreadPoolExecutor(available_cores())
    try:
        yield own
    finally:
        own.shutdown(cancel_futures=True)
