"""Where jobs run: in this process, or in worker processes that live until the pool is closed."""

import contextlib
import ctypes
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import fields
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.multiprocessing  # lets tensors be sent to other processes without copying them

from stagewise.child_processes import exit_with_parent
from stagewise.errors import StagewiseError, one_line
from stagewise.training.backends import Backend, make_backend
from stagewise.training.data import TrainingData, shared
from stagewise.training.jobs import Job, TrainingSettings, TrainJob, WeightBuffers


class LocalPool:
    """Runs every job in this process, one after the other."""

    def __init__(self, settings: TrainingSettings, data: TrainingData) -> None:
        self._backend = make_backend(settings, data)
        self._buffers: WeightBuffers | None = None

    def use(self, buffers: WeightBuffers) -> None:
        """Run the jobs from now on with `buffers`."""
        self._buffers = buffers

    def run(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        """The result of every job, in their order."""
        for job in jobs:
            if self._buffers is None:
                raise _closed()
            yield _run(self._backend, job, self._buffers)

    def close(self) -> None:
        self._buffers = None


class ProcessPool:
    """Worker processes of one thread each; a free one takes the next job."""

    def __init__(self, settings: TrainingSettings, data: TrainingData, workers: int) -> None:
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        context = multiprocessing.get_context("spawn")
        common = data.share()
        try:
            for number in range(workers):
                ours, theirs = context.Pipe()
                name = f"stagewise-training-{number}"
                process = context.Process(
                    target=_work, args=(theirs, settings, common), name=name, daemon=True
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

    def use(self, buffers: WeightBuffers) -> None:
        try:
            for field in fields(buffers):
                shared(getattr(buffers, field.name))
            for number in range(len(self._connections)):
                self._send(number, buffers)
        except StagewiseError:
            self.close()
            raise

    def run(self, jobs: Sequence[Job], window: int) -> Iterator[Any]:
        """The result of every job, in their order; at most `window` are begun and not yet yielded."""
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

    def _send(self, number: int, message: WeightBuffers | Job) -> None:
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


def _work(connection: Connection, settings: TrainingSettings, data: TrainingData) -> None:
    """What a worker process does: jobs from the connection until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    exit_with_parent()
    torch.set_num_threads(1)
    _keep_freed_memory()
    backend, buffers = make_backend(settings, data), None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            message = connection.recv()
            if isinstance(message, WeightBuffers):
                buffers = message
                continue
            assert buffers is not None
            try:
                result = _run(backend, message, buffers)
            except StagewiseError as error:
                result = error
            except Exception:
                result = RuntimeError(f"in a training worker:\n{traceback.format_exc()}")
            connection.send(result)


def _keep_freed_memory() -> None:
    """Let glibc's allocator use freed memory again; other allocators stay as they are.

    It would give the large arrays of every step back to the system, and get them back page by page.
    """
    with contextlib.suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        allocator.mallopt(_MMAP_THRESHOLD, 2**30)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def _run(backend: Backend, job: Job, buffers: WeightBuffers) -> Any:
    return (
        backend.train(job, buffers) if isinstance(job, TrainJob) else backend.evaluate(job, buffers)
    )


def _closed() -> StagewiseError:
    return StagewiseError("the trainer is closed: a new one is needed")
