"""All that requests need, made once for a process."""

from dataclasses import dataclass

from stagewise.serve.access import Access
from stagewise.serve.federations import Federations
from stagewise.serve.job_queue import JobQueue
from stagewise.serve.jobs import Workers
from stagewise.serve.metrics import ServiceMetrics
from stagewise.serve.runs_folder import RunsFolder
from stagewise.serve.serial_executor import SerialExecutor
from stagewise.serve.store import Store
from stagewise.serve.traces import NO_TRACES, Traces

_DECISION_THREADS = 64
"""As many federations may decide at once."""
_TRY_THREADS = 2


@dataclass(frozen=True, eq=False)
class Service:
    """The parts of the service in this process."""

    store: Store
    federations: Federations
    queue: JobQueue
    runs: RunsFolder
    workers: Workers
    access: Access
    metrics: ServiceMetrics
    decisions: SerialExecutor
    """Where policies decide and learn, by federation: however slow, other requests have threads."""
    tries: SerialExecutor
    """Where something is tried, by federation or run."""
    traces: Traces

    @classmethod
    def open(
        cls, store_url: str, runs: str | None, access: Access, traces: Traces = NO_TRACES
    ) -> "Service":
        store = Store(store_url)
        federations, folder = Federations(store, traces), RunsFolder(runs)
        queue = JobQueue(store.database)
        workers = Workers(queue, federations, folder, traces)
        return cls(
            store,
            federations,
            queue,
            folder,
            workers,
            access,
            ServiceMetrics(),
            SerialExecutor("decisions", _DECISION_THREADS),
            SerialExecutor("tries", _TRY_THREADS),
            traces,
        )

    def close(self) -> None:
        self.decisions.close()
        self.tries.close()
        self.workers.stop()
        self.federations.close()
        self.store.close()
        self.traces.close()
