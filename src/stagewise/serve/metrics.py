"""Counters of the service, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stagewise.decisions import Decision
from stagewise.runs.metrics import DecisionMetrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class ServiceMetrics:
    """What `/metrics` tells: requests, and every new decision."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "stagewise_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "stagewise_request_seconds",
            "From a request to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.streams = Gauge(
            "stagewise_event_streams", "Streams of events that are open.", registry=self._registry
        )
        self._decisions = DecisionMetrics(self._registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def decided(self, decision: Decision) -> None:
        self._decisions.add(
            cost=decision.objective,
            delay_s=decision.delay_s,
            energy_j=decision.energy_j,
            clients=len(decision.assignment),
            feasible=decision.feasible,
            decision_ms=decision.decision_ms,
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)
