"""What training costs: delay and energy of a link, of an edge and of a round (Eqs. 4, 5)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import (
    BoolArray,
    FloatArray,
    FrozenAsGiven,
    IntArray,
    Rule,
    field_error,
)
from stagewise.world.parts import CLIENT_RULES, LINK_RULES, MODEL_FIELDS, System

UNASSIGNED = -1

ROUND_RULES = {
    "cpu_hz": ("clients", CLIENT_RULES["cpu_hz"]),
    **{name: ("links", rule) for name, rule in LINK_RULES.items()},
    "surcharge": ("clients", Rule()),
}
"""What a round may have values of its own for: of which things, and what they may be."""

_LARGEST_COST = 1e300
"""Sums of costs below this one stay far from what a number can hold."""


@dataclass(frozen=True, eq=False)
class LinkCosts(FrozenAsGiven):
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


def transmission_delay_s(
    scenario: System,
    cpu_hz: FloatArray | None = None,
    gain: FloatArray | None = None,
    delay_s: FloatArray | None = None,
) -> FloatArray:
    """By which of its links a client sends the model fastest: t_ij^com of every link.

    Where a link's delay was measured it is the delay of the whole edge round, of which nobody
    knows how much was sending. A client trains alike for every edge: if one of its links was
    measured, all of them are told by the whole delay, so that they compare as their sending does.

    Parameters
    ----------
    scenario
        Whose links.
    cpu_hz, gain, delay_s
        A round's own values, as `link_costs` takes them.

    Returns
    -------
    Seconds, shape (links,).
    """
    links = scenario.links
    sending = _sending_s(scenario, overridden(links.gain, gain))
    measured = (links.measured & ~given(gain)) | given(delay_s)
    if not np.any(measured):
        return sending
    whole = np.zeros(len(scenario.clients), dtype=np.bool_)
    whole[links.client[measured]] = True
    delay = link_costs(scenario, cpu_hz, gain, delay_s).delay_s
    return np.where(whole[links.client], delay, sending)


def _sending_s(scenario: System, gain: FloatArray) -> FloatArray:
    bandwidth = scenario.edges.bandwidth_hz[scenario.links.edge]
    power = scenario.clients.tx_power_w[scenario.links.client]
    # Only numbers beyond all use overflow or vanish here; without a finite rate nothing arrives.
    with np.errstate(all="ignore"):
        snr = power * gain / (scenario.noise_w_per_hz * bandwidth)
        # log1p keeps the rate of a very weak link above zero.
        rate = bandwidth * np.log1p(snr) / np.log(2)
        return np.where(np.isfinite(rate), scenario.model_bits / rate, np.inf)


def link_costs(
    scenario: System,
    cpu_hz: FloatArray | None = None,
    gain: FloatArray | None = None,
    delay_s: FloatArray | None = None,
    energy_j: FloatArray | None = None,
) -> LinkCosts:
    """T_ij and E_ij of every link: measured, or from the paper's model where it has a gain.

    Parameters
    ----------
    scenario
        Whose links.
    cpu_hz
        A round's own CPU frequencies, shape (clients,); NaN where the scenario's hold.
    gain, delay_s, energy_j
        A round's own values, shape (links,); NaN where the scenario's hold. A measured delay or
        energy counts before the model, whatever the gain.

    Raises
    ------
    StagewiseError
        If a link has a gain in this round only, and a field that the model needs is not given.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> scenario = numeric(clients=2, edges=1)
    >>> link_costs(scenario, delay_s=np.array([np.nan, 0.5])).delay_s.round(3)
    array([0.08, 0.5 ])
    """
    clients, links = scenario.clients, scenario.links
    cpu_hz = overridden(clients.cpu_hz, cpu_hz)
    with np.errstate(over="ignore", invalid="ignore"):
        cycles = clients.cycles_per_sample * clients.batch_fraction * clients.data
        step_s = cycles / cpu_hz  # t_i^cmp
        step_j = clients.capacitance * cpu_hz**2 * cycles  # e_i^cmp
        send_s = _sending_s(scenario, overridden(links.gain, gain))  # t_ij^com
        send_j = clients.tx_power_w[links.client] * send_s  # e_ij^com
        delay = scenario.local_steps * step_s[links.client] + send_s
        energy = scenario.local_steps * step_j[links.client] + send_j
    if links.measured.any():
        if gain is not None:
            require_model(scenario, links.measured & given(gain))
        measured = links.measured & ~given(gain)
        delay = np.where(measured, links.delay_s, delay)
        # An energy that was not measured has no weight.
        energy = np.where(measured, np.nan_to_num(links.energy_j, nan=0.0), energy)
    return LinkCosts(overridden(delay, delay_s), overridden(energy, energy_j))


def given(values: FloatArray | None) -> BoolArray | np.bool_:
    """Where a round has values of its own."""
    return np.False_ if values is None else ~np.isnan(values)


def overridden(values: FloatArray, own: FloatArray | None) -> FloatArray:
    """A round's own values, and the others where these are NaN."""
    return values if own is None else np.where(np.isnan(own), values, own)


def require_model(scenario: System, by_gain: BoolArray) -> None:
    """Raise an error if the model lacks a field for a link that has a gain; shape (links,)."""
    links = scenario.links
    for group, fields in MODEL_FIELDS.items():
        part = getattr(scenario, group)
        end = links.client if group == "clients" else links.edge
        for name in fields:
            absent = np.isnan(getattr(part, name))
            if absent.any() and (lacking := absent[end] & by_gain).any():
                row = int(end[np.argmax(lacking)])
                problem = " must be given where a link has a channel gain"
                raise field_error(group, part.ids, row, name, problem)


def round_values(scenario: System, values: Mapping[str, object]) -> dict[str, FloatArray | None]:
    """A round's own values by name, checked and frozen; None where it has none."""
    found: dict[str, FloatArray | None] = {}
    for name, given_values in values.items():
        things, rule = ROUND_RULES[name]
        count = len(getattr(scenario, things))
        found[name] = (
            None if given_values is None else rule.array(name, given_values, count, things)
        )
    return found


def check_costs(scenario: System, costs: LinkCosts, of_link: str, of_round: str) -> None:
    """Raise an error if a link or a round costs more than a number can hold.

    `of_link` says so of a link, with places for its client's number and the names of both ends.
    """
    edges, weights = scenario.edges, scenario.weights
    finite = np.isfinite(costs.delay_s) & np.isfinite(costs.energy_j)
    if not finite.all():
        link = int(np.argmin(finite))
        client, edge = scenario.links.client[link], scenario.links.edge[link]
        names = shown(scenario.clients.ids[client]), shown(edges.ids[edge])
        raise StagewiseError(of_link.format(client, *names))
    # More than any round can cost or take: as if every client served over every link it has.
    with np.errstate(over="ignore", invalid="ignore"):
        delay = scenario.edge_rounds * costs.delay_s.max(initial=0.0) + edges.uplink_delay_s.max()
        energy = scenario.edge_rounds * costs.energy_j.sum() + edges.uplink_energy_j.sum()
        weighted = weights.delay * delay + weights.energy * energy + weights.continuity
        largest = delay + energy + weighted
    if not largest <= _LARGEST_COST:
        raise StagewiseError(of_round)


def edge_costs(scenario: System, costs: LinkCosts, assignment: IntArray) -> EdgeCosts:
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
