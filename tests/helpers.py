"""Small random scenarios for tests, made directly from arrays; how much is tried, and waiting."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np

from stagewise.decisions import Decision
from stagewise.loop import run_rounds
from stagewise.policies.policy import Policy
from stagewise.world.rounds import Round
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
"""`quick` for `make test`, `thorough` for `make test-all`."""


def cases(thorough: int) -> int:
    """How many random cases a loop tries: a tenth of them in the quick profile."""
    return thorough if PROFILE == "thorough" else max(1, thorough // 10)


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return as soon as `condition()` holds; an error after `seconds`, however busy the machine."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"not so after {seconds:g} s"
        time.sleep(0.02)


def random_scenario(
    seed: int,
    clients: int = 8,
    edges: int = 3,
    labels: int = 4,
    *,
    limits: Limits | None = None,
    weights: Weights | None = None,
    coverage: float = 0.6,
    isolated: float = 0.1,
    certain: float = 0.2,
    labels_per_client: tuple[int, int] = (1, 2),
    data: tuple[int, int] = (20, 120),
    capacity: tuple[int, int] = (1, 5),
    local_steps: int = 5,
    edge_rounds: int = 3,
    reference: bool = False,
    positions: bool = True,
) -> Scenario:
    """A small valid scenario; the same arguments give the same one.

    Each client is linked to each edge with probability `coverage`, to at least one, except that a
    share `isolated` of the clients (in expectation) has no link at all. A share `certain` is online
    with probability exactly 0 or 1. Ranges are inclusive. With `reference` the label distribution Q
    is a random one instead of the uniform. The default limits suit a few clients of this data size.
    """
    rng = np.random.default_rng(seed)
    linked = rng.random((clients, edges)) < coverage
    linked[np.arange(clients), rng.integers(edges, size=clients)] = True
    linked[rng.random(clients) < isolated] = False
    client_of, edge_of = np.nonzero(linked)
    online = rng.uniform(0.3, 1.0, clients)
    sure = rng.random(clients) < certain
    online[sure] = rng.integers(0, 2, int(sure.sum()))
    target = rng.dirichlet(np.full(labels, 5.0)) + 0.02
    return Scenario(
        clients=Clients(
            ids=tuple(f"c{i}" for i in range(clients)),
            label_counts=_label_counts(rng, clients, labels, labels_per_client, data),
            cpu_hz=rng.uniform(1e9, 1e10, clients),
            cycles_per_sample=rng.uniform(2e5, 6e5, clients),
            capacitance=np.full(clients, 1e-28),
            batch_fraction=rng.uniform(0.05, 1.0, clients),
            tx_power_w=rng.uniform(0.2, 0.8, clients),
            online_probability=online,
            position_m=rng.uniform(0, 500, (clients, 2)) if positions else None,
        ),
        edges=Edges(
            ids=tuple(f"es{j}" for j in range(edges)),
            capacity=rng.integers(capacity[0], capacity[1] + 1, edges),
            bandwidth_hz=np.full(edges, 1e6),
            uplink_delay_s=rng.uniform(0.16, 0.2, edges),
            uplink_energy_j=np.full(edges, 0.1),
            position_m=rng.uniform(0, 500, (edges, 2)) if positions else None,
        ),
        links=Links(
            start=np.concatenate([[0], np.cumsum(linked.sum(axis=1))]).astype(np.int64),
            edge=edge_of.astype(np.int64),
            gain=rng.uniform(1e-9, 1e-8, len(client_of)),
        ),
        local_steps=local_steps,
        edge_rounds=edge_rounds,
        weights=Weights() if weights is None else weights,
        limits=Limits(kld_max=0.5, data_min=100) if limits is None else limits,
        reference=target / target.sum() if reference else None,
    )


def renumbered(rounds: Iterable[Round]) -> list[Round]:
    """The same rounds, numbered from 0 in their order."""
    return [replace(round_, index=index) for index, round_ in enumerate(rounds)]


def decide_round(policy: Policy, round_: Round) -> Decision:
    """The decision of `policy` in one round, which then goes as decided."""
    return next(run_rounds(policy, [round_])).decision


class InlineExecutor(Executor):
    """Does everything at once, in the calling thread."""

    def submit(self, function, /, *arguments, **options):
        future: Future = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


def _label_counts(
    rng: np.random.Generator,
    clients: int,
    labels: int,
    labels_per_client: tuple[int, int],
    data: tuple[int, int],
) -> np.ndarray:
    counts = np.zeros((clients, labels), dtype=np.int64)
    for row in counts:
        held = min(labels, int(rng.integers(labels_per_client[0], labels_per_client[1] + 1)))
        size = int(rng.integers(data[0], data[1] + 1))
        share = rng.multinomial(max(size - held, 0), np.full(held, 1 / held)) + 1
        row[rng.choice(labels, held, replace=False)] = share
    return counts
