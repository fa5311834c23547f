"""A scenario as JSON: `stagewise-scenario/1`, or `/2` where costs were measured."""

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.parts import CLIENT_RULES, EDGE_RULES, MODEL_FIELDS, Named, System
from stagewise.world.records import NOT_GIVEN, ClientRecord, EdgeRecord, Measured, Record

FORMAT = "stagewise-scenario/1"
FORMAT_2 = "stagewise-scenario/2"

_ENCODER = msgspec.json.Encoder()


def sha256_of(parts: Iterable[bytes]) -> str:
    """The SHA-256 of bytes that come in parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _beyond_version_1(scenario: System) -> str | None:
    """What a file of version 1 cannot say of the scenario; None where it can say all."""
    rule = f"must be given in {FORMAT}"
    if not math.isfinite(scenario.limits.kld_max):
        return f"limits.kld_max = {scenario.limits.kld_max}: must be finite in {FORMAT}"
    for name in ("model_bits", "noise_w_per_hz"):
        if math.isnan(getattr(scenario, name)):
            return f"{name} {rule}"
    for group, fields in MODEL_FIELDS.items():
        part = getattr(scenario, group)
        for name in fields:
            absent = np.isnan(getattr(part, name))
            if absent.any():
                row = int(np.argmax(absent))
                return f"{group}[{row}] ({shown(part.ids[row])}).{name} {rule}"
    if scenario.links.measured.any():
        client = int(scenario.links.client[np.argmax(scenario.links.measured)])
        name = shown(scenario.clients.ids[client])
        return f"clients[{client}] ({name}).links: must be channel gains in {FORMAT}"
    return None


def format_of(scenario: System) -> str:
    """The version its files have: the first that can say everything."""
    return FORMAT if _beyond_version_1(scenario) is None else FORMAT_2


def require_format(scenario: System, version: str) -> None:
    """Raise an error if a file of that version cannot say what its scenario is."""
    beyond = _beyond_version_1(scenario) if version == FORMAT else None
    if beyond is not None:
        raise StagewiseError(beyond)


def json_parts(scenario: System) -> Iterator[bytes]:
    """The JSON file in parts, one line for each edge and client, so that large ones need no copy."""
    head = {"format": format_of(scenario), **scalar_fields(scenario)}
    yield _ENCODER.encode(head)[:-1]
    yield b',\n"edges": [\n'
    yield from _joined(_edge_records(scenario))
    yield b'\n],\n"clients": [\n'
    yield from _joined(_client_records(scenario))
    yield b"\n]}\n"


def scalar_fields(scenario: System) -> dict[str, Any]:
    """What a file says of the whole system; NaN is left out, and null is infinite."""
    limits = {name: float(value) for name, value in vars(scenario.limits).items()}
    fields: dict[str, Any] = {
        "local_steps": scenario.local_steps,
        "edge_rounds": scenario.edge_rounds,
        # As floats: whole numbers must give the same bytes before and after a round trip.
        "model_bits": float(scenario.model_bits),
        "noise_w_per_hz": float(scenario.noise_w_per_hz),
        "weights": {name: float(value) for name, value in vars(scenario.weights).items()},
        "limits": {name: None if math.isinf(value) else value for name, value in limits.items()},
    }
    if scenario.reference is not None:
        fields["reference"] = scenario.reference.tolist()
    if scenario.window is not None:
        fields["window"] = scenario.window
    return {name: value for name, value in fields.items() if value == value}


def _joined(records: Iterator[Record]) -> Iterator[bytes]:
    separator = b""
    for record in records:
        yield separator + _ENCODER.encode(record)
        separator = b",\n"


def _edge_records(scenario: System) -> Iterator[EdgeRecord]:
    return (EdgeRecord(**row) for row in _rows(_columns(scenario.edges, EDGE_RULES)))


def _client_records(scenario: System) -> Iterator[ClientRecord]:
    clients, links = scenario.clients, scenario.links
    columns = _columns(clients, CLIENT_RULES)
    if clients.history is not None:
        columns["history"] = clients.history
        columns["online_probability"] = [
            None if past else value
            for past, value in zip(clients.history, columns["online_probability"], strict=True)
        ]
    start, names = links.start.tolist(), scenario.edges.ids
    measured = links.measured.any()
    for number, row in enumerate(_rows(columns)):
        own = slice(start[number], start[number + 1])
        values: list[Any] = links.gain[own].tolist()
        if measured:
            costs = zip(
                values, _listed(links.delay_s[own]), _listed(links.energy_j[own]), strict=True
            )
            values = [
                Measured(delay_s=delay, energy_j=energy) if math.isnan(gain) else gain
                for gain, delay, energy in costs
            ]
        yield ClientRecord(
            label_counts=clients.label_counts[number].tolist(),
            links=dict(
                zip((names[edge] for edge in links.edge[own].tolist()), values, strict=True)
            ),
            **row,
        )


def _columns(part: Named, rules: Iterable[str]) -> dict[str, Any]:
    """What there is of each client or edge, by the names of the file."""
    columns: dict[str, Any] = {name: _listed(getattr(part, name)) for name in rules}
    columns["id"] = part.ids
    if part.position_m is not None:
        for axis, values in zip("xy", part.position_m.T.tolist(), strict=True):
            columns[axis] = [None if value != value else value for value in values]
    return columns


def _rows(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _listed(values: Any) -> Any:
    """The values as a list, with the one object for what is not given."""
    return [value if value == value else NOT_GIVEN for value in values.tolist()]
