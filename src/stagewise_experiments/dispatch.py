"""Requests over an executor: reports as they come, whatever happens to the workers."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import NamedTuple

from stagewise.errors import one_line
from stagewise_experiments.executors import Workers
from stagewise_experiments.worker import Report, Request, work

Work = Callable[[Request], Report]


class Job(NamedTuple):
    """A request under its key."""

    key: str
    request: Request
    suspect: bool = False
    """Under way when an executor broke: to be run by itself."""


def run_jobs(
    jobs: Iterable[Job], workers: Workers, work: Work = work
) -> Iterator[tuple[str, Report]]:
    """The report on every job by its key, in the order they end.

    An executor that breaks (a worker was killed, or ended by itself) is replaced. Every job that was
    under way then is run again, by itself; if the executor breaks with it too, the job is to blame.
    """
    queue = deque(jobs)
    running: dict[Future[Report], Job] = {}
    while queue or running:
        broken = not _submit(queue, running, workers, work)
        if not broken:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            broken = any(_is_lost(future) for future in done)
            for future in [future for future in done if not _is_lost(future)]:
                yield running.pop(future).key, _report(future)
        if broken:
            workers.restart()
            wait(running)
            lost = [job for future, job in running.items() if _is_lost(future)]
            for future in [future for future in running if not _is_lost(future)]:
                yield running[future].key, _report(future)
            running.clear()
            for job in lost:
                if job.suspect:
                    yield job.key, _failure(_ENDED)
            queue.extendleft(job._replace(suspect=True) for job in lost if not job.suspect)


_ENDED = "its worker process ended before the cell did, twice: killed, or out of memory"


def _submit(
    queue: deque[Job], running: dict[Future[Report], Job], workers: Workers, work: Work
) -> bool:
    """Submit as many jobs as may be under way; whether the executor takes them."""
    while queue and (workers.window is None or len(running) < workers.window):
        alone = queue[0].suspect or any(job.suspect for job in running.values())
        if alone and running:
            return True
        try:
            future = workers.executor.submit(work, queue[0].request)
        except BrokenExecutor:
            return False
        running[future] = queue.popleft()
    return True


def _is_lost(future: Future[Report]) -> bool:
    """Whether it ended with its executor, and not by itself."""
    return future.cancelled() or isinstance(future.exception(), BrokenExecutor | CancelledError)


def _report(future: Future[Report]) -> Report:
    error = future.exception()
    if error is None:
        return future.result()
    # The worker could not even begin, or the cluster gave up on it.
    return _failure(one_line(f"{type(error).__name__}: {error}"))


def _failure(error: str) -> Report:
    return {"outputs": None, "error": error, "seconds": None, "machine": None}
