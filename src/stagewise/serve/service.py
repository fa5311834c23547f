"""All that requests need, made once for a process."""

from dataclasses import dataclass

from stagewise.serve.access import Access
from stagewise.serve.federations import Federations
from stagewise.serve.job_queue import JobQueue
from stagewise.serve.jobs import Workers
from stagewise.serve.metrics import ServiceMetrics
from stagewise.serve.runs_folder import RunsFolder
from stagewise.serve.store import Store


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

    @classmethod
    def open(cls, store_url: str, runs: str | None, access: Access) -> "Service":
        store = Store(store_url)
        federations, folder = Federations(store), RunsFolder(runs)
        queue = JobQueue(store.database)
        workers = Workers(queue, federations, folder)
        return cls(store, federations, queue, folder, workers, access, ServiceMetrics())

    def close(self) -> None:
        self.workers.stop()
        self.federations.close()
        self.store.close()
