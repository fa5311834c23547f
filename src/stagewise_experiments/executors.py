"""Where cells run: processes of this machine, or the workers of a Dask cluster."""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol

from stagewise.child_processes import exit_with_parent
from stagewise.errors import StagewiseError, one_line, shown
from stagewise.world.checks import whole
from stagewise_experiments.code_version import code_version

_CONNECT_SECONDS = 10
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _THREADS}


class Workers(Protocol):
    """An executor, and what can be done about one that broke."""

    @property
    def count(self) -> int:
        """How many cells run at the same time."""

    @property
    def window(self) -> int | None:
        """How many cells to submit before one is done; None: all of them."""

    @property
    def executor(self) -> Executor: ...

    def restart(self) -> None:
        """A new executor in place of a broken one."""

    def stop(self) -> None:
        """End all work at once."""


class ProcessWorkers:
    """A process for each cell that runs, with one thread for its arithmetic."""

    window: int

    def __init__(self, count: int) -> None:
        self.count = whole("workers", count, 1)
        self.window = count + 1  # one is at hand while the report on another is kept
        self._start()

    def _start(self) -> None:
        self._context = _Context()
        self._executor = ProcessPoolExecutor(
            self.count, mp_context=self._context, initializer=exit_with_parent
        )

    @property
    def executor(self) -> Executor:
        return self._executor

    def restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        for process in self._context.started:
            if process.pid is not None:  # an interrupt may come before it is started
                process.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)


class ClusterWorkers:
    """The workers of the Dask scheduler at `address`."""

    window = None

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise StagewiseError(
                "--cluster needs Dask: pip install 'stagewise-hfl[cluster]'"
            ) from None
        client: Any = distributed.Client  # it has no types
        try:
            self._client = client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise StagewiseError(
                one_line(f"cluster = {shown(address)}: no Dask scheduler answers there: {error}")
            ) from None
        self._refuse_other_versions()
        # A cell that comes again, in a run of its own, is to be run and not remembered.
        self._executor: Executor = self._client.get_executor(pure=False)

    def _refuse_other_versions(self) -> None:
        """Before anything runs; workers that come later refuse cells of another version themselves."""
        for worker, version in self._client.run(code_version, on_error="return").items():
            if version != code_version():
                raise StagewiseError(
                    one_line(
                        f"cluster: the code version of worker {worker} is {version}, not "
                        f"{code_version()}: install there the same stagewise as here"
                    )
                )

    @property
    def count(self) -> int:
        return len(self._client.nthreads())  # a worker runs one cell at a time

    @property
    def executor(self) -> Executor:
        return self._executor

    def restart(self) -> None:
        raise StagewiseError("the connection to the cluster was lost; the same command goes on")

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # whatever a lost scheduler answers
            self._executor.shutdown(wait=False)
        self._client.close(timeout=_CONNECT_SECONDS)


class _Process(SpawnProcess):
    def start(self) -> None:
        # Libraries read the variables when they are imported, which is before a worker runs anything
        # of ours. What an interrupt means, this process decides.
        with _environment(_ONE_THREAD), _without_interrupts():
            super().start()


class _Context(SpawnContext):
    """Starts processes, and knows which."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Process] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Process:  # type: ignore[override]
        process = _Process(*args, **kwargs)
        self.started.append(process)
        return process


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold interrupts back; processes started inside never see any."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
