"""What Prometheus reads of a SuperLink: who is in touch, what was answered, what was refused."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from stagewise.deploy.presence import Contacts

CONTENT_TYPE = CONTENT_TYPE_LATEST


class FilterMetrics:
    """Counts of a SuperLink's filter; nothing in it is secret, and no stranger can make up a label."""

    def __init__(self, contacts: Contacts) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "stagewise_requests",
            "Requests that were let through",
            ["status"],
            registry=self._registry,
        )
        self._refused = Counter(
            "stagewise_refused", "Requests that were refused", ["status"], registry=self._registry
        )
        nodes = Gauge("stagewise_nodes_in_touch", "Nodes in touch", registry=self._registry)
        nodes.set_function(lambda: len(contacts.present(time.monotonic())))

    def answered(self, status: int) -> None:
        self._answers.labels(str(status)).inc()

    def refused(self, status: int) -> None:
        self._refused.labels(str(status)).inc()

    def text(self) -> bytes:
        """In Prometheus' format."""
        return generate_latest(self._registry)
