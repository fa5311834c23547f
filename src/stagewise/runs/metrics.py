"""Counters of decisions and rounds for Prometheus; `prometheus_client` is an optional package."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from stagewise.errors import StagewiseError
from stagewise.runs.records import RoundRecord
from stagewise.world.checks import whole

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10, 60)


class DecisionMetrics:
    """What every decision adds to; the same names in the service and in runs."""

    def __init__(self, registry: Any) -> None:
        from prometheus_client import Counter, Histogram

        def counter(name: str, text: str) -> Any:
            return Counter(f"stagewise_{name}", text, registry=registry)

        self._rounds = counter("rounds", "Rounds decided.")
        self._infeasible = counter("infeasible_rounds", "Rounds decided outside of a limit.")
        self._clients = counter("clients", "Clients asked to train, over all rounds.")
        self._cost = counter("cost", "The objective, summed over rounds.")
        self._delay = counter("delay_seconds", "The delay of rounds, summed.")
        self._energy = counter("energy_joules", "The energy of rounds, summed.")
        self._decision = Histogram(
            "stagewise_decision_seconds",
            "How long policies took to decide.",
            buckets=_SECONDS,
            registry=registry,
        )

    def add(
        self,
        *,
        cost: float,
        delay_s: float,
        energy_j: float,
        clients: int,
        feasible: bool,
        decision_ms: float,
    ) -> None:
        self._rounds.inc()
        self._infeasible.inc(0 if feasible else 1)
        self._clients.inc(clients)
        self._cost.inc(cost)
        self._delay.inc(delay_s)
        self._energy.inc(energy_j)
        self._decision.observe(decision_ms / 1000)


class RunMetrics:
    """The counters of a run, served on loopback as long as it goes on.

    Parameters
    ----------
    port : int
        Of 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        if find_spec("prometheus_client") is None:
            raise StagewiseError(
                "metrics_port: needs prometheus_client: pip install 'stagewise-hfl[serve]'"
            )
        from prometheus_client import CollectorRegistry, Gauge

        self._port = whole("metrics_port", port, 1, 65535)
        with self._listening_errors(), socket.socket() as probe:  # now, not once all has started
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", self._port))
        self.registry = CollectorRegistry()
        """For counters of whoever carries the run out."""
        self._decisions = DecisionMetrics(self.registry)
        self._accuracy = Gauge(
            "stagewise_accuracy", "The newest test accuracy.", registry=self.registry
        )
        self._newest = Gauge("stagewise_round", "The newest round, from 0.", registry=self.registry)

    def again(self) -> "RunMetrics":
        """The same for a run that goes on, with nothing counted yet."""
        return RunMetrics(self._port)

    @contextmanager
    def serving(self) -> Iterator[None]:
        from prometheus_client import start_http_server

        with self._listening_errors():
            server, thread = start_http_server(self._port, "127.0.0.1", self.registry)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    @contextmanager
    def _listening_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StagewiseError(
                f"metrics_port = {self._port}: cannot be listened at: {error.strerror}"
            ) from None

    def add(self, record: RoundRecord) -> None:
        self._decisions.add(
            cost=record.objective,
            delay_s=record.delay_s,
            energy_j=record.energy_j,
            clients=record.clients,
            feasible=record.feasible,
            decision_ms=record.decision_ms,
        )
        self._newest.set(record.round)
        if record.accuracy is not None:
            self._accuracy.set(record.accuracy)
