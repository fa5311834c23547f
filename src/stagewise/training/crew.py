"""Who does the jobs: this process, or worker processes that live as long as the team."""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import fields
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch
import torch.multiprocessing  # lets tensors be sent to other processes without copying them

from stagewise.errors import StagewiseError, one_line
from stagewise.training.data import TrainingData, shared
from stagewise.training.jobs import Board, Job, Recipe, Trainer, TrainJob
from stagewise.training.trainers import make_trainer


class Crew(Protocol):
    """Does jobs and gives their results in the order of the jobs."""

    def use(self, board: Board) -> None:
        """Do the jobs to come on `board`."""

    def run(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        """The result of every job; never are more than `window` jobs begun and not yet given."""
        ...

    def close(self) -> None: ...


class LocalCrew:
    """Does every job in this process, one after the other."""

    def __init__(self, recipe: Recipe, data: TrainingData) -> None:
        self._trainer = make_trainer(recipe, data)
        self._board: Board | None = None

    def use(self, board: Board) -> None:
        self._board = board

    def run(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        for job in jobs:
            if self._board is None:
                raise _closed()
            yield _do(self._trainer, job, self._board)

    def close(self) -> None:
        self._board = None


class ProcessCrew:
    """Worker processes of one thread each; a free one takes the next job."""

    def __init__(self, recipe: Recipe, data: TrainingData, workers: int) -> None:
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        context = multiprocessing.get_context("spawn")
        common = data.share()
        try:
            for number in range(workers):
                ours, theirs = context.Pipe()
                name = f"stagewise-training-{number}"
                process = context.Process(
                    target=_work, args=(theirs, recipe, common), name=name, daemon=True
                )
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.close()
            raise StagewiseError(
                f"model and loss must be functions that other processes can import, since there "
                f"are {workers} workers: {one_line(str(error))}"
            ) from None

    def use(self, board: Board) -> None:
        try:
            for field in fields(board):
                shared(getattr(board, field.name))
            for number in range(len(self._connections)):
                self._send(number, board)
        except StagewiseError:
            self.close()
            raise

    def run(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        if not self._processes:
            raise _closed()
        try:
            yield from self._results(jobs, window)
        except BaseException:
            # Other workers may be in the middle of a job that nobody waits for any more.
            self.close()
            raise

    def _results(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        idle = list(range(len(self._processes)))
        busy: dict[Connection, tuple[int, int]] = {}
        done: dict[int, Any] = {}
        begun = given = 0
        while given < len(jobs):
            while idle and begun < min(len(jobs), given + window):
                number = idle.pop()
                self._send(number, jobs[begun])
                busy[self._connections[number]] = (number, begun)
                begun += 1
            if given in done:
                yield done.pop(given)
                given += 1
                continue
            for connection in [c for c in wait(list(busy)) if isinstance(c, Connection)]:
                number, job = busy.pop(connection)
                done[job] = self._receive(number)
                idle.append(number)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
            process.close()
        self._connections, self._processes = [], []

    def _send(self, number: int, message: Board | Job) -> None:
        try:
            self._connections[number].send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended(number) from None

    def _receive(self, number: int) -> Any:
        try:
            result = self._connections[number].recv()
        except (EOFError, ConnectionResetError):
            raise self._ended(number) from None
        if isinstance(result, Exception):
            raise result
        return result

    def _ended(self, number: int) -> StagewiseError:
        process = self._processes[number]
        process.join(5)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else "ended"
        return StagewiseError(
            f"training worker {number} of {len(self._processes)} {how} before its work was done; "
            'a script with several workers must start them under `if __name__ == "__main__":`'
        )


def _work(connection: Connection, recipe: Recipe, data: TrainingData) -> None:
    """The life of a worker process: jobs from the connection until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what an interrupt means the parent decides
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(1)
    _keep_freed_memory()
    trainer, board = make_trainer(recipe, data), None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            message = connection.recv()
            if isinstance(message, Board):
                board = message
                continue
            assert board is not None
            try:
                result = _do(trainer, message, board)
            except StagewiseError as error:
                result = error
            except Exception:
                result = RuntimeError(f"in a training worker:\n{traceback.format_exc()}")
            connection.send(result)


def _keep_freed_memory() -> None:
    """Let the allocator (glibc's, elsewhere it stays as it is) use freed memory again.

    It would give the large arrays of every step back to the system, and get them back page by page.
    """
    with contextlib.suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        allocator.mallopt(_MMAP_THRESHOLD, 2**30)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def _follow_parent() -> None:
    """End this process with its parent, even in the middle of a job."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _do(trainer: Trainer, job: Job, board: Board) -> Any:
    return trainer.train(job, board) if isinstance(job, TrainJob) else trainer.evaluate(job, board)


def _closed() -> StagewiseError:
    return StagewiseError("the training team is closed: a new one is needed")
