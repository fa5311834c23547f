"""What Prometheus reads of a SuperLink: who is in touch, what was answered, what was refused;
and of a deployed run: what became of its updates."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from stagewise.deploy.presence import Contacts
from stagewise.deploy.records import LiveRecord
from stagewise.fates import FATES

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


class LiveMetrics:
    """What every round of `live.jsonl` adds to, beside the counters that all runs have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"stagewise_{name}", text, labels, registry=registry)

        self._updates = counter("updates", "Updates asked for, by what became of them.", ("fate",))
        self._faults = counter("faults", "What did not add up in the transport's reports.")
        self._delay = counter("measured_delay_seconds", "Measured delays of rounds, summed.")
        self._bytes = counter("bytes", "Bytes of models over links.", ("link", "direction"))
        for fate in FATES:
            self._updates.labels(fate)

    def add(self, live: LiveRecord) -> None:
        for fate, count in live.fates.items():
            self._updates.labels(fate).inc(count)
        self._faults.inc(len(live.faults))
        self._delay.inc(live.delay_s)
        for link in ("cloud", "client"):
            for direction in ("up", "down"):
                sent: int = getattr(live, f"{link}_bytes_{direction}")
                self._bytes.labels(link, direction).inc(sent)
