"""Rounds files: JSON Lines, who is online in each round and what differs from the scenario in it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json_lines, errors_at, read_bytes, writing
from stagewise.world.checks import finite
from stagewise.world.records import Measured
from stagewise.world.rounds import Round, client_number, round_of
from stagewise.world.scenario import BoolArray, FloatArray, Scenario


class _RoundRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
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
    lines = decode_json_lines(read_bytes(path), list[str] | _RoundRecord, str(path))
    rounds = []
    for index, line in enumerate(lines):
        record = _RoundRecord(online=line) if isinstance(line, list) else line
        with errors_at(f"{path}: round {index}"):
            rounds.append(_from_record(scenario, record, index))
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
    encoder = msgspec.json.Encoder()
    with writing(path) as stream:
        for round_ in rounds:
            stream.write(encoder.encode(_to_line(round_)) + b"\n")


def _from_record(scenario: Scenario, record: _RoundRecord, index: int) -> Round:
    online = round_of(scenario, record.online, index).online
    gain, delay_s, energy_j = _links(scenario, record.links)
    return Round(
        scenario,
        online,
        index,
        cpu_hz=_cpu_hz(scenario, record.cpu_hz) if record.cpu_hz else None,
        gain=gain,
        delay_s=delay_s,
        energy_j=energy_j,
        up=_up(scenario, record.down) if record.down else None,
    )


def _cpu_hz(scenario: Scenario, changes: Mapping[str, float]) -> FloatArray:
    values = scenario.clients.cpu_hz.copy()
    for name, value in changes.items():
        number = client_number(scenario, name, "cpu_hz")
        values[number] = finite(f"cpu_hz[{shown(name)}]", value, 0, open_below=True)
    return values


def _links(
    scenario: Scenario, changes: Mapping[str, Mapping[str, float | Measured]]
) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
    """The gains, delays and energies of a round, each None where no link has its own."""
    if not changes:
        return None, None, None
    gain = scenario.links.gain.copy()
    delay_s, energy_j = np.full(len(gain), np.nan), np.full(len(gain), np.nan)
    gains = False
    for name, row in changes.items():
        by_edge = _links_of(scenario, client_number(scenario, name, "links"))
        for edge, value in row.items():
            where = f"links[{shown(name)}][{shown(edge)}]"
            if edge not in by_edge:
                raise StagewiseError(
                    f"links[{shown(name)}]: {shown(edge)} must be an edge that covers the client"
                )
            link = by_edge[edge]
            if isinstance(value, Measured):
                delay_s[link] = finite(f"{where}.delay_s", value.delay_s, 0)
                if not math.isnan(value.energy_j):
                    energy_j[link] = finite(f"{where}.energy_j", value.energy_j, 0)
                elif scenario.weights.energy > 0:
                    raise StagewiseError(
                        f"{where}.energy_j: must be given where the weight of energy is above 0"
                    )
                else:
                    energy_j[link] = 0.0
            else:
                gain[link], gains = finite(where, value, 0, open_below=True), True
    measured = not np.isnan(delay_s).all()
    return gain if gains else None, *((delay_s, energy_j) if measured else (None, None))


def _up(scenario: Scenario, down: Mapping[str, list[str]] | list[str]) -> BoolArray:
    """The links that are left where some, or all of some edges, are down."""
    up = np.ones(len(scenario.links), dtype=np.bool_)
    if isinstance(down, list):
        for edge in down:
            if edge not in scenario.edges.index:
                raise StagewiseError(f"down: {shown(edge)} must be the id of an edge")
            up[scenario.links.edge == scenario.edges.index[edge]] = False
        return up
    for name, edges in down.items():
        by_edge = _links_of(scenario, client_number(scenario, name, "down"))
        for edge in edges:
            if edge not in by_edge:
                raise StagewiseError(
                    f"down[{shown(name)}]: {shown(edge)} must be an edge that covers the client"
                )
            up[by_edge[edge]] = False
    return up


def _links_of(scenario: Scenario, client: int) -> dict[str, int]:
    """The links of a client by the ids of their edges."""
    links = scenario.links
    row = range(int(links.start[client]), int(links.start[client + 1]))
    return {scenario.edges.ids[links.edge[link]]: link for link in row}


def _to_line(round_: Round) -> "list[str] | _RoundRecord":
    scenario = round_.scenario
    record = _RoundRecord(online=round_.online_ids)
    if round_.cpu_hz is not None:
        given = ~np.isnan(round_.cpu_hz)
        changed = np.flatnonzero(given & (round_.cpu_hz != scenario.clients.cpu_hz))
        record.cpu_hz = {scenario.clients.ids[i]: float(round_.cpu_hz[i]) for i in changed}
    if round_.gain is not None:
        given = ~np.isnan(round_.gain)
        for link in np.flatnonzero(given & (round_.gain != scenario.links.gain)).tolist():
            _add(record, scenario, link, float(round_.gain[link]))
    measured = [m for m in (round_.delay_s, round_.energy_j) if m is not None]
    if measured:
        # A file has both of a link or none: what was not measured is as it is without.
        delay_s, energy_j = round_.costs.delay_s, round_.costs.energy_j
        for link in np.flatnonzero(~np.isnan(measured).all(axis=0)).tolist():
            both = Measured(delay_s=float(delay_s[link]), energy_j=float(energy_j[link]))
            _add(record, scenario, link, both)
    if round_.up is not None:
        record.down = _down(round_)
    own = (round_.cpu_hz, round_.gain, *measured)
    plain = all(values is None for values in own) and not record.down
    return record.online if plain else record


def _add(record: _RoundRecord, scenario: Scenario, link: int, value: float | Measured) -> None:
    client = scenario.clients.ids[scenario.links.client[link]]
    edge = scenario.edges.ids[scenario.links.edge[link]]
    record.links.setdefault(client, {})[edge] = value


def _down(round_: Round) -> dict[str, list[str]] | list[str]:
    """The links that are down: whole edges where it is these, else link by link."""
    scenario, links = round_.scenario, round_.scenario.links
    assert round_.up is not None
    gone = np.flatnonzero(~round_.edges_up)
    if (round_.up == ~np.isin(links.edge, gone)).all():
        return [scenario.edges.ids[edge] for edge in gone]
    down: dict[str, list[str]] = {}
    for link in np.flatnonzero(~round_.up):
        client = scenario.clients.ids[links.client[link]]
        down.setdefault(client, []).append(scenario.edges.ids[links.edge[link]])
    return down
