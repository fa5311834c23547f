"""Eqs. 4, 5, 7, 8 and 10 in plain arithmetic, for the clients that serve."""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stagewise.errors import shown

if TYPE_CHECKING:
    from stagewise.world.rounds import Round
    from stagewise.world.scenario import FloatArray, Scenario

# How far above its limit a divergence or a risk may be and still count as within it.
LIMIT_TOLERANCE = 1e-9


class Serving(NamedTuple):
    """A client, its edge and the link between them, by number."""

    client: int
    edge: int
    link: int


@dataclass
class EdgeFigures:
    """What one edge has in a round."""

    members: list[int] = field(default_factory=list)
    label_sums: list[int] = field(default_factory=list)
    slowest_s: float = 0.0
    spent_j: float = 0.0

    @property
    def data(self) -> int:
        return sum(self.label_sums)


@dataclass(frozen=True)
class Figures:
    """What a round costs, and every edge of it."""

    delay_s: float
    energy_j: float
    cost: float
    edges: list[EdgeFigures]


def who_serves(
    scenario: "Scenario", assignment: Mapping[str, str], round_: "Round | None" = None
) -> tuple[list[Serving], list[str]]:
    """The pairs of `assignment` that can be, and a line for each that cannot.

    A client that is unknown, offline (9f) or without a link to its edge contributes nothing to any
    figure: its a_ij xi_i is 0.
    """
    clients, edges, links = scenario.clients.index, scenario.edges.index, scenario.links
    serving, lines = [], []
    for name, place in assignment.items():
        where = f"assignment[{shown(name)}] = {shown(place)}"
        client, edge = clients.get(name), edges.get(place)
        if client is None:
            lines.append(f"{where}: the scenario has no such client")
        if edge is None:
            lines.append(f"{where}: the scenario has no such edge")
        if client is None:
            continue
        if round_ is not None and not round_.online[client]:
            lines.append(f"{where}: the client is not online")
            continue
        if edge is None:
            continue
        last = int(links.start[client + 1])
        link = bisect.bisect_left(links.edge, edge, int(links.start[client]), last)
        if link == last or links.edge[link] != edge:
            lines.append(f"{where}: the edge does not cover the client")
            continue
        if round_ is not None and round_.up is not None and not round_.up[link]:
            lines.append(f"{where}: the link is down")
            continue
        serving.append(Serving(client, edge, link))
    return serving, lines


def figures(
    scenario: "Scenario", serving: Iterable[Serving], round_: "Round | None" = None
) -> Figures:
    """What a round costs in which exactly `serving` train, with its own costs if it has any."""
    edges = [EdgeFigures(label_sums=[0] * scenario.labels) for _ in scenario.edges.ids]
    for one in serving:
        edge = edges[one.edge]
        delay_s, energy_j = link_cost(scenario, one, round_)
        edge.members.append(one.client)
        edge.slowest_s = max(edge.slowest_s, delay_s)
        edge.spent_j += energy_j
        for label, count in enumerate(scenario.clients.label_counts[one.client].tolist()):
            edge.label_sums[label] += count
    rounds, delay_s, energy_j = scenario.edge_rounds, 0.0, 0.0
    for number, edge in enumerate(edges):
        if edge.members:  # an edge without clients sends nothing
            uplink_s = float(scenario.edges.uplink_delay_s[number])
            uplink_j = float(scenario.edges.uplink_energy_j[number])
            delay_s = max(delay_s, rounds * edge.slowest_s + uplink_s)  # Eq. 4
            energy_j += rounds * edge.spent_j + uplink_j  # Eq. 5
    cost = scenario.weights.delay * delay_s + scenario.weights.energy * energy_j
    return Figures(delay_s, energy_j, cost, edges)


def link_cost(
    scenario: "Scenario", one: Serving, round_: "Round | None" = None
) -> tuple[float, float]:
    """T_ij and E_ij, the seconds and joules of one edge round: measured, or by the paper's model.

    What the round says comes before what the scenario says.
    """
    links, link = scenario.links, one.link
    own_gain = None if round_ is None else _known(round_.gain, link)
    measured_s = None if own_gain is not None else _known(links.delay_s, link)
    if measured_s is None:
        gain = _known(links.gain, link) if own_gain is None else own_gain
        cpu_hz = None if round_ is None else _known(round_.cpu_hz, one.client)
        delay_s, energy_j = _modelled(scenario, one, gain or 0.0, cpu_hz)
    else:
        delay_s, energy_j = measured_s, _known(links.energy_j, link) or 0.0
    if round_ is None:
        return delay_s, energy_j
    own_s, own_j = _known(round_.delay_s, link), _known(round_.energy_j, link)
    return delay_s if own_s is None else own_s, energy_j if own_j is None else own_j


def _known(values: "FloatArray | None", place: int) -> float | None:
    """A number of an array; None where there is none."""
    return None if values is None or math.isnan(values[place]) else float(values[place])


def _modelled(
    scenario: "Scenario", one: Serving, gain: float, cpu_hz: float | None
) -> tuple[float, float]:
    """The text above Eq. 4."""
    clients, i = scenario.clients, one.client
    speed = float(clients.cpu_hz[i]) if cpu_hz is None else cpu_hz
    bandwidth = float(scenario.edges.bandwidth_hz[one.edge])
    power = float(clients.tx_power_w[i])
    samples = float(clients.batch_fraction[i]) * sum(clients.label_counts[i].tolist())
    cycles = float(clients.cycles_per_sample[i]) * samples
    step_s = cycles / speed
    step_j = float(clients.capacitance[i]) * speed * speed * cycles
    # log1p: 1 + snr would lose a very weak link's digits.
    snr = power * gain / (scenario.noise_w_per_hz * bandwidth)
    rate = bandwidth * math.log1p(snr) / math.log(2)
    send_s = scenario.model_bits / rate if rate > 0 else math.inf
    steps = scenario.local_steps
    return steps * step_s + send_s, steps * step_j + power * send_s


def edges_gone(round_: "Round") -> set[int]:
    """The edges all of whose links are down: they are not part of the round.

    One that never has a link is part of it, and fails.
    """
    if round_.up is None:
        return set()
    edges = round_.scenario.links.edge.tolist()
    up = {edge for edge, there in zip(edges, round_.up.tolist(), strict=True) if there}
    return set(edges) - up


def divergence(label_sums: Sequence[int], target: Sequence[float]) -> float | None:
    """KLD(P || Q) in nats (Eqs. 7, 8); None without data."""
    total = sum(label_sums)
    if total == 0:
        return None
    shares = [count / total for count in label_sums]
    return math.fsum(
        share * math.log(share / q) for share, q in zip(shares, target, strict=True) if share > 0
    )


def continuity(probabilities: Sequence[float]) -> float:
    """C of Eq. 10: the geometric mean; 0 for nobody."""
    if not probabilities or min(probabilities) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, probabilities)) / len(probabilities))
