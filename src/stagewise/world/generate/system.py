"""What clients and edges are like wherever they stand: Table I, and the draws from it."""

from dataclasses import dataclass

import numpy as np

from stagewise.randomness import generator
from stagewise.world.checks import finite, frozen, interval, seed_number, whole
from stagewise.world.generate.labels import allocate_labels
from stagewise.world.generate.tasks import Task
from stagewise.world.scenario import (
    LARGEST_COUNT,
    Clients,
    Edges,
    FloatArray,
    IntArray,
    Limits,
    Links,
    Scenario,
    Weights,
)

LARGEST_SIZE = 10_000_000
"""The most clients, and the most edges, a scenario is generated with."""


@dataclass(frozen=True)
class SystemParameters:
    """Table I, "Simulation setting", and what the paper leaves open.

    A pair is a range that each client or edge draws from uniformly: whole numbers, both ends
    included, for `capacity`; real numbers with the upper end excluded for all others.
    """

    online_probability: tuple[float, float] = (0.5, 1.0)
    cpu_hz: tuple[float, float] = (1e9, 10e9)
    cycles_per_bit: tuple[float, float] = (30, 100)
    capacitance: float = 1e-28
    tx_power_w: tuple[float, float] = (0.2, 0.8)
    batch_fraction: float = 0.1
    capacity: tuple[int, int] = (8, 12)
    bandwidth_hz: float = 1e6
    uplink_delay_s: tuple[float, float] = (0.16, 0.2)
    uplink_energy_j: float = 0.1
    noise_w_per_hz: float = 3.981e-21
    """-174 dBm/Hz."""
    local_steps: int = 5
    edge_rounds: int = 3

    def __post_init__(self) -> None:
        interval("online_probability", self.online_probability, 0, 1)
        for name in ("cpu_hz", "cycles_per_bit", "tx_power_w"):
            interval(name, getattr(self, name), 0, open_below=True)
        interval("uplink_delay_s", self.uplink_delay_s, 0)
        interval("capacity", self.capacity, 0, LARGEST_COUNT)
        for end in self.capacity:
            whole("capacity", end, 0)
        for name in ("capacitance", "uplink_energy_j"):
            finite(name, getattr(self, name), 0)
        for name in ("bandwidth_hz", "noise_w_per_hz"):
            finite(name, getattr(self, name), 0, open_below=True)
        finite("batch_fraction", self.batch_fraction, 0, 1, open_below=True)
        for name in ("local_steps", "edge_rounds"):
            whole(name, getattr(self, name), 1, LARGEST_COUNT)


def random_weights(seed: int, continuity: float = 1.0) -> Weights:
    """Weights of delay and energy drawn in (0, 1) with sum 1, as in the paper's overall cost.

    Parameters
    ----------
    seed : int
        Of the draw.
    continuity : float
        The weight of continuity, which is not drawn.

    Examples
    --------
    >>> import stagewise
    >>> weights = stagewise.generate.random_weights(seed=1)
    >>> weights.delay + weights.energy
    1.0
    """
    delay = float(generator(seed_number(seed), "weights").uniform(np.nextafter(0, 1), 1))
    return Weights(delay=delay, energy=1 - delay, continuity=continuity)


def draw_common(
    seed: int, task: Task, parameters: SystemParameters, clients: int, edges: int
) -> tuple[IntArray, FloatArray, IntArray]:
    """What is drawn wherever costs come from: label counts, online probabilities, capacities."""
    return (
        frozen(allocate_labels(task, clients, generator(seed, "labels"))),
        generator(seed, "online_probability").uniform(*parameters.online_probability, clients),
        generator(seed, "capacity").integers(*parameters.capacity, edges, endpoint=True),
    )


def draw_system(
    *,
    client_ids: tuple[str, ...],
    edge_ids: tuple[str, ...],
    client_xy: FloatArray,
    edge_xy: FloatArray,
    links: Links,
    seed: int,
    task: Task,
    parameters: SystemParameters | None,
    weights: Weights | None,
    limits: Limits | None,
) -> Scenario:
    """The scenario of clients and edges at given places, everything else drawn from Table I.

    Positions have shape (clients, 2) and (edges, 2), in metres. Every quantity has its own random
    stream: changing one range, or adding clients, leaves the other values as they were.
    """

    def draw(name: str, count: int, ends: tuple[float, float]) -> FloatArray:
        return generator(seed, name).uniform(*ends, count)

    parameters = SystemParameters() if parameters is None else parameters
    clients, edges = len(client_ids), len(edge_ids)
    labels, online, capacity = draw_common(seed, task, parameters, clients, edges)
    cycles_per_bit = draw("cycles_per_bit", clients, parameters.cycles_per_bit)
    return Scenario(
        clients=Clients(
            ids=client_ids,
            label_counts=labels,
            cpu_hz=draw("cpu_hz", clients, parameters.cpu_hz),
            cycles_per_sample=cycles_per_bit * task.sample_bits,
            capacitance=np.full(clients, parameters.capacitance),
            batch_fraction=np.full(clients, parameters.batch_fraction),
            tx_power_w=draw("tx_power_w", clients, parameters.tx_power_w),
            online_probability=online,
            position_m=client_xy,
        ),
        edges=Edges(
            ids=edge_ids,
            capacity=capacity,
            bandwidth_hz=np.full(edges, parameters.bandwidth_hz),
            uplink_delay_s=draw("uplink_delay_s", edges, parameters.uplink_delay_s),
            uplink_energy_j=np.full(edges, parameters.uplink_energy_j),
            position_m=edge_xy,
        ),
        links=links,
        local_steps=parameters.local_steps,
        edge_rounds=parameters.edge_rounds,
        model_bits=task.model_bits,
        noise_w_per_hz=parameters.noise_w_per_hz,
        weights=Weights() if weights is None else weights,
        limits=Limits() if limits is None else limits,
    )
