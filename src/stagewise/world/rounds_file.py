"""Rounds files: JSON Lines, who is online in each round and what differs from the scenario in it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json_lines, errors_at, read_bytes, write_json_lines
from stagewise.world.checks import finite
from stagewise.world.costs import overridden
from stagewise.world.parts import LINK_RULES
from stagewise.world.records import Measured
from stagewise.world.rounds import Round, client_number, round_of
from stagewise.world.scenario import BoolArray, Scenario


class RoundLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a rounds file: who is online, and what differs from the scenario."""

    online: list[str]
    cpu_hz: dict[str, float] = msgspec.field(default_factory=dict)
    links: dict[str, dict[str, float | Measured]] = msgspec.field(default_factory=dict)
    down: dict[str, list[str]] | list[str] = msgspec.field(default_factory=dict)


def load_rounds(path: str | Path, scenario: Scenario) -> list[Round]:
    """Read a rounds file: JSON Lines, a list of online ids or an object with `online` each.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input.
    scenario : Scenario
        The system that the rounds belong to.

    Returns
    -------
    list of Round
        Numbered from 0 in the order of the lines.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=6, edges=2, seed=0)
    >>> stagewise.save_rounds([stagewise.Round(scenario, [True] * 5 + [False])], "rounds.jsonl")
    >>> stagewise.load_rounds("rounds.jsonl", scenario)
    [Round(0: 5 of 6 clients online)]
    """
    lines = decode_json_lines(read_bytes(path), list[str] | RoundLine, str(path))
    rounds = []
    for index, line in enumerate(lines):
        record = RoundLine(online=line) if isinstance(line, list) else line
        with errors_at(f"{path}: round {index}"):
            rounds.append(round_from_line(scenario, record, index))
    return rounds


def save_rounds(rounds: Sequence[Round], path: str | Path) -> None:
    """Write a rounds file; a round that differs from the scenario only in who is online is a list.

    Parameters
    ----------
    rounds : sequence of Round
        In order; a file does not keep their numbers.
    path : str or Path
        The file; `-` is standard output.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=6, edges=2, seed=0)
    >>> stagewise.save_rounds(stagewise.participation.bernoulli(scenario, 3), "rounds.jsonl")
    """
    write_json_lines(path, map(_to_line, rounds))


def round_from_line(scenario: Scenario, record: RoundLine, index: int) -> Round:
    """The round that a line speaks of."""
    plain = round_of(scenario, record.online, index)
    if not (record.cpu_hz or record.links or record.down):
        return plain
    own = {name: np.full(len(scenario.links), np.nan) for name in LINK_RULES}
    own["cpu_hz"] = np.full(len(scenario.clients), np.nan)
    for name, value in record.cpu_hz.items():
        number = client_number(scenario, name, "cpu_hz")
        own["cpu_hz"][number] = finite(f"cpu_hz[{shown(name)}]", value, 0, open_below=True)
    for client, edge, link in _links(scenario, "links", record.links):
        where, cost = f"links[{shown(client)}][{shown(edge)}]", record.links[client][edge]
        if not isinstance(cost, Measured):
            own["gain"][link] = finite(where, cost, 0, open_below=True)
            continue
        own["delay_s"][link] = finite(f"{where}.delay_s", cost.delay_s, 0)
        unknown = math.isnan(cost.energy_j)
        if unknown and scenario.weights.energy > 0:
            raise StagewiseError(
                f"{where}.energy_j: must be given where the weight of energy is above 0"
            )
        own["energy_j"][link] = 0.0 if unknown else finite(f"{where}.energy_j", cost.energy_j, 0)
    known: dict[str, Any] = {n: values for n, values in own.items() if not np.isnan(values).all()}
    for name, usual in (("cpu_hz", scenario.clients.cpu_hz), ("gain", scenario.links.gain)):
        if name in known:
            known[name] = overridden(usual, known[name])
    up = _up(scenario, record.down) if record.down else None
    return Round(scenario, plain.online, index, up=up, **known)


def _up(scenario: Scenario, down: Mapping[str, list[str]] | list[str]) -> BoolArray:
    """The links that are left where some, or all of some edges, are down."""
    up = np.ones(len(scenario.links), dtype=np.bool_)
    if isinstance(down, dict):
        up[[link for _, _, link in _links(scenario, "down", down)]] = False
        return up
    for edge in down:
        if edge not in scenario.edges.index:
            raise StagewiseError(f"down: {shown(edge)} must be the id of an edge")
        up[scenario.links.edge == scenario.edges.index[edge]] = False
    return up


def _links(
    scenario: Scenario, field: str, named: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, str, int]]:
    """The links that a field names by client and edge: both ids, and the link's number."""
    links, ids = scenario.links, scenario.edges.ids
    for client, edges in named.items():
        number = client_number(scenario, client, field)
        row = range(int(links.start[number]), int(links.start[number + 1]))
        by_edge = {ids[links.edge[link]]: link for link in row}
        for edge in edges:
            if edge not in by_edge:
                raise StagewiseError(
                    f"{field}[{shown(client)}]: {shown(edge)} must be an edge that covers the client"
                )
            yield client, edge, by_edge[edge]


def _to_line(round_: Round) -> list[str] | RoundLine:
    record = line_of_round(round_)
    own = (round_.cpu_hz, round_.gain, round_.delay_s, round_.energy_j)
    plain = all(values is None for values in own) and not record.down
    return record.online if plain else record


def line_of_round(round_: Round) -> RoundLine:
    """The line that `round_from_line` makes the round of, whatever its number."""
    scenario = round_.scenario
    record = RoundLine(online=round_.online_ids)
    if round_.cpu_hz is not None:
        given = ~np.isnan(round_.cpu_hz)
        changed = np.flatnonzero(given & (round_.cpu_hz != scenario.clients.cpu_hz))
        record.cpu_hz = {scenario.clients.ids[i]: float(round_.cpu_hz[i]) for i in changed}
    if round_.gain is not None:
        given = ~np.isnan(round_.gain)
        for link in np.flatnonzero(given & (round_.gain != scenario.links.gain)).tolist():
            client, edge = _ends(scenario, link)
            record.links.setdefault(client, {})[edge] = float(round_.gain[link])
    measured = [m for m in (round_.delay_s, round_.energy_j) if m is not None]
    if measured:
        # A file has both of a link or none: what was not measured is as it is without.
        delay_s, energy_j = round_.costs.delay_s, round_.costs.energy_j
        for link in np.flatnonzero(~np.isnan(measured).all(axis=0)).tolist():
            client, edge = _ends(scenario, link)
            both = Measured(delay_s=float(delay_s[link]), energy_j=float(energy_j[link]))
            record.links.setdefault(client, {})[edge] = both
    if round_.up is not None:
        record.down = _down(round_)
    return record


def _ends(scenario: Scenario, link: int) -> tuple[str, str]:
    """The ids of the client and the edge that a link joins."""
    client, edge = scenario.links.client[link], scenario.links.edge[link]
    return scenario.clients.ids[client], scenario.edges.ids[edge]


def _down(round_: Round) -> dict[str, list[str]] | list[str]:
    """The links that are down: whole edges where it is these, else link by link."""
    scenario = round_.scenario
    assert round_.up is not None
    gone = np.flatnonzero(~round_.edges_up)
    if (round_.up == ~np.isin(scenario.links.edge, gone)).all():
        return [scenario.edges.ids[edge] for edge in gone]
    down: dict[str, list[str]] = {}
    for link in np.flatnonzero(~round_.up).tolist():
        client, edge = _ends(scenario, link)
        down.setdefault(client, []).append(edge)
    return down
