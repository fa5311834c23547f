"""What training costs: delay and energy of a link, of an edge and of a round (Eqs. 4, 5)."""

from dataclasses import dataclass

import numpy as np

from stagewise.world.scenario import FloatArray, IntArray, Scenario

UNASSIGNED = -1

LARGEST_COST = 1e300
"""Sums of costs below this one stay far from what a number can hold."""


@dataclass(frozen=True, eq=False)
class LinkCosts:
    """T_ij and E_ij of one edge aggregation, for every link of the scenario."""

    delay_s: FloatArray
    energy_j: FloatArray


@dataclass(frozen=True, eq=False)
class EdgeCosts:
    """The delay and energy of every edge in one round; zero for an edge without clients."""

    delay_s: FloatArray
    energy_j: FloatArray

    @property
    def round_delay_s(self) -> float:
        """T of Eq. 4."""
        return float(self.delay_s.max(initial=0.0))

    @property
    def round_energy_j(self) -> float:
        """E of Eq. 5."""
        return float(self.energy_j.sum())


def transmission_delay_s(scenario: Scenario, gain: FloatArray | None = None) -> FloatArray:
    """t_ij^com: the time to send the model once over every link."""
    links = scenario.links
    gain = links.gain if gain is None else gain
    bandwidth = scenario.edges.bandwidth_hz[links.edge]
    power = scenario.clients.tx_power_w[links.client]
    # Only numbers beyond all use overflow or vanish here; without a finite rate nothing arrives.
    with np.errstate(all="ignore"):
        snr = power * gain / (scenario.noise_w_per_hz * bandwidth)
        # log1p keeps the rate of a very weak link above zero.
        rate = bandwidth * np.log1p(snr) / np.log(2)
        return np.where(np.isfinite(rate), scenario.model_bits / rate, np.inf)


def link_costs(
    scenario: Scenario, cpu_hz: FloatArray | None = None, gain: FloatArray | None = None
) -> LinkCosts:
    """T_ij and E_ij of every link, with a round's own CPU frequencies and gains where given."""
    clients = scenario.clients
    cpu_hz = clients.cpu_hz if cpu_hz is None else cpu_hz
    with np.errstate(over="ignore", invalid="ignore"):
        cycles = clients.cycles_per_sample * clients.batch_fraction * clients.data
        step_s = cycles / cpu_hz  # t_i^cmp
        step_j = clients.capacitance * cpu_hz**2 * cycles  # e_i^cmp
        send_s = transmission_delay_s(scenario, gain)  # t_ij^com
        client = scenario.links.client
        send_j = clients.tx_power_w[client] * send_s  # e_ij^com
        return LinkCosts(
            delay_s=scenario.local_steps * step_s[client] + send_s,
            energy_j=scenario.local_steps * step_j[client] + send_j,
        )


def largest_cost(scenario: Scenario, costs: LinkCosts) -> float:
    """More than any round can cost or take: as if every client served over every link it has."""
    edges, weights = scenario.edges, scenario.weights
    with np.errstate(over="ignore", invalid="ignore"):
        delay = scenario.edge_rounds * costs.delay_s.max(initial=0.0) + edges.uplink_delay_s.max()
        energy = scenario.edge_rounds * costs.energy_j.sum() + edges.uplink_energy_j.sum()
        weighted = weights.delay * delay + weights.energy * energy + weights.continuity
        return float(delay + energy + weighted)


def edge_costs(scenario: Scenario, costs: LinkCosts, assignment: IntArray) -> EdgeCosts:
    """What every edge spends in a round under `assignment` (an edge for each client, or -1)."""
    edges = scenario.edges
    client = np.flatnonzero(assignment != UNASSIGNED)
    edge = assignment[client]
    link = scenario.links.find(client, edge)
    if (link < 0).any():
        missing = int(np.argmin(link))
        raise ValueError(
            f"client {scenario.clients.ids[client[missing]]!r} has no link to edge "
            f"{edges.ids[edge[missing]]!r}"
        )
    slowest = np.zeros(len(edges))
    np.maximum.at(slowest, edge, costs.delay_s[link])
    spent = np.bincount(edge, weights=costs.energy_j[link], minlength=len(edges))
    serving = np.bincount(edge, minlength=len(edges)) > 0
    return EdgeCosts(
        delay_s=np.where(serving, scenario.edge_rounds * slowest + edges.uplink_delay_s, 0.0),
        energy_j=np.where(serving, scenario.edge_rounds * spent + edges.uplink_energy_j, 0.0),
    )
