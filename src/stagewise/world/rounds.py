"""A round's circumstances: who is online, and what differs from the scenario; and their file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json_lines, read_bytes, writing
from stagewise.world.costs import LARGEST_COST, LinkCosts, largest_cost, link_costs
from stagewise.world.scenario import BoolArray, FloatArray, Scenario


@dataclass(frozen=True, eq=False)
class Round:
    """One round before anything is decided."""

    scenario: Scenario
    online: BoolArray
    """Shape (clients,)."""
    cpu_hz: FloatArray | None = None
    """Shape (clients,); None where every CPU is as the scenario says."""
    gain: FloatArray | None = None
    """Shape (links,); None where every channel is as the scenario says."""

    @cached_property
    def costs(self) -> LinkCosts:
        """T_ij and E_ij of every link in this round."""
        if self.cpu_hz is None and self.gain is None:
            return self.scenario.costs
        return link_costs(self.scenario, self.cpu_hz, self.gain)

    @property
    def online_ids(self) -> list[str]:
        return [self.scenario.clients.ids[client] for client in np.flatnonzero(self.online)]


class _RoundRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    online: list[str]
    cpu_hz: dict[str, float] = msgspec.field(default_factory=dict)
    links: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


def round_of(scenario: Scenario, online: "Round | BoolArray | Iterable[str]") -> Round:
    """A round from a mask over the clients, from a list of ids, or from a round."""
    if isinstance(online, Round):
        return online
    if isinstance(online, np.ndarray) and online.dtype == np.bool_:
        if online.shape != (len(scenario.clients),):
            raise StagewiseError(
                f"online: the mask must have shape ({len(scenario.clients)},), not {online.shape}"
            )
        return Round(scenario, online)
    return _from_record(scenario, _RoundRecord(online=list(online)))


def load_rounds(path: str | Path, scenario: Scenario) -> list[Round]:
    """Read a rounds file: JSON Lines, a list of online ids or an object with `online` each."""
    lines = decode_json_lines(read_bytes(path), list[str] | _RoundRecord, str(path))
    rounds = []
    for number, line in enumerate(lines):
        record = _RoundRecord(online=line) if isinstance(line, list) else line
        try:
            rounds.append(_from_record(scenario, record))
        except StagewiseError as error:
            raise StagewiseError(f"{path}: round {number}: {error}") from None
    return rounds


def save_rounds(rounds: Sequence[Round], path: str | Path) -> None:
    """Write a rounds file; a round that differs from the scenario only in who is online is a list."""
    encoder = msgspec.json.Encoder()
    with writing(path) as stream:
        for round_ in rounds:
            stream.write(encoder.encode(_to_line(round_)) + b"\n")


def _from_record(scenario: Scenario, record: _RoundRecord) -> Round:
    clients = scenario.clients
    online = np.zeros(len(clients), dtype=np.bool_)
    for name in record.online:
        number = _client(scenario, name, "online")
        if online[number]:
            raise StagewiseError(f"online: {shown(name)} must not occur twice")
        online[number] = True
    round_ = Round(
        scenario=scenario,
        online=online,
        cpu_hz=_cpu_hz(scenario, record.cpu_hz) if record.cpu_hz else None,
        gain=_gain(scenario, record.links) if record.links else None,
    )
    if record.cpu_hz or record.links:
        finite = np.isfinite(round_.costs.delay_s) & np.isfinite(round_.costs.energy_j)
        if not finite.all():
            name = clients.ids[scenario.links.client[int(np.argmin(finite))]]
            raise StagewiseError(
                f"the delay or energy of client {shown(name)} is too large to represent"
            )
        if not largest_cost(scenario, round_.costs) <= LARGEST_COST:
            raise StagewiseError("cpu_hz, links: the round's cost is too large to represent")
    return round_


def _client(scenario: Scenario, name: str, field: str) -> int:
    number = scenario.clients.index.get(name)
    if number is None:
        raise StagewiseError(f"{field}: {shown(name)} must be the id of a client")
    return number


def _cpu_hz(scenario: Scenario, changes: Mapping[str, float]) -> FloatArray:
    values = scenario.clients.cpu_hz.copy()
    for name, value in changes.items():
        if not (np.isfinite(value) and value > 0):
            raise StagewiseError(
                f"cpu_hz[{shown(name)}] = {shown(value)}: must be a finite number above 0"
            )
        values[_client(scenario, name, "cpu_hz")] = value
    return values


def _gain(scenario: Scenario, changes: Mapping[str, Mapping[str, float]]) -> FloatArray:
    values = scenario.links.gain.copy()
    start, edge_of = scenario.links.start, scenario.links.edge
    for name, row in changes.items():
        client = _client(scenario, name, "links")
        links = range(int(start[client]), int(start[client + 1]))
        by_edge = {scenario.edges.ids[edge_of[link]]: link for link in links}
        for edge, value in row.items():
            if edge not in by_edge:
                raise StagewiseError(
                    f"links[{shown(name)}]: {shown(edge)} must be an edge that covers the client"
                )
            if not (np.isfinite(value) and value > 0):
                raise StagewiseError(
                    f"links[{shown(name)}][{shown(edge)}] = {shown(value)}: must be a finite number "
                    f"above 0"
                )
            values[by_edge[edge]] = value
    return values


def _to_line(round_: Round) -> "list[str] | _RoundRecord":
    scenario = round_.scenario
    if round_.cpu_hz is None and round_.gain is None:
        return round_.online_ids
    record = _RoundRecord(online=round_.online_ids)
    if round_.cpu_hz is not None:
        changed = np.flatnonzero(round_.cpu_hz != scenario.clients.cpu_hz)
        record.cpu_hz = {scenario.clients.ids[i]: float(round_.cpu_hz[i]) for i in changed}
    if round_.gain is not None:
        for link in np.flatnonzero(round_.gain != scenario.links.gain):
            client = scenario.clients.ids[scenario.links.client[link]]
            edge = scenario.edges.ids[scenario.links.edge[link]]
            record.links.setdefault(client, {})[edge] = float(round_.gain[link])
    return record
