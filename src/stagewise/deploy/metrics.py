"""What Prometheus reads of a SuperLink: who is in touch, what was answered, what was refused;
of an edge, its rounds; and of a deployed run: what became of its updates."""

import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from stagewise.deploy.exchange import ClientReport
from stagewise.deploy.presence import Contacts
from stagewise.deploy.records import LiveRecord
from stagewise.fates import FATES

CONTENT_TYPE = CONTENT_TYPE_LATEST


class FilterMetrics:
    """Counts of a SuperLink's filter; nothing in it is secret, and no stranger can make up a label."""

    def __init__(self, contacts: Contacts, registry: CollectorRegistry) -> None:
        self._registry = registry
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


class EdgeMetrics:
    """What every round of an edge adds to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rounds = Counter("stagewise_rounds", "Rounds of this edge.", registry=registry)
        self._seconds = Counter(
            "stagewise_round_seconds", "How long they took, summed.", registry=registry
        )
        self._updates = updates_counter(registry)

    def add(self, reports: Sequence[ClientReport], seconds: float) -> None:
        self._rounds.inc()
        self._seconds.inc(seconds)
        for report in reports:
            self._updates.labels(report.fate).inc()


def updates_counter(registry: CollectorRegistry) -> Counter:
    """Counts updates by fate; those that none had are 0."""
    text = "Updates asked for, by what became of them."
    updates = Counter("stagewise_updates", text, ["fate"], registry=registry)
    for fate in FATES:
        updates.labels(fate)
    return updates


class LiveMetrics:
    """What every round of `live.jsonl` adds to, beside the counters that all runs have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"stagewise_{name}", text, labels, registry=registry)

        self._updates = updates_counter(registry)
        self._faults = counter("faults", "What did not add up in the transport's reports.")
        self._delay = counter("measured_delay_seconds", "Measured delays of rounds, summed.")
        self._bytes = counter("bytes", "Bytes of models over links.", ("link", "direction"))

    def add(self, live: LiveRecord) -> None:
        for fate, count in live.fates.items():
            self._updates.labels(fate).inc(count)
        self._faults.inc(len(live.faults))
        self._delay.inc(live.delay_s)
        for link in ("cloud", "client"):
            for direction in ("up", "down"):
                sent: int = getattr(live, f"{link}_bytes_{direction}")
                self._bytes.labels(link, direction).inc(sent)
