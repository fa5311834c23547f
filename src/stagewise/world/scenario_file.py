"""Scenario files: `stagewise-scenario/1` as JSON; the large ones also in a binary form."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json, read_bytes, writing
from stagewise.world.estimator import DEFAULT_WINDOW, estimate_from_history
from stagewise.world.scenario import (
    FORMAT,
    LARGEST_COUNT,
    Clients,
    Edges,
    FloatArray,
    Limits,
    Links,
    Scenario,
    Weights,
)

BINARY_SUFFIX = ".safetensors"
_ENCODER = msgspec.json.Encoder()

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
History = Annotated[str, msgspec.Meta(pattern="^[01]+$")]


class _Record(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object whose unknown fields are an error."""


class _Weights(_Record):
    delay: float
    energy: float
    continuity: float


class _Limits(_Record):
    kld_max: float
    data_min: float
    kld_margin: float
    data_margin: float
    kld_risk: float
    data_risk: float


class _Edge(_Record):
    id: str
    capacity: Count
    bandwidth_hz: float
    uplink_delay_s: float
    uplink_energy_j: float
    x: float | None = None
    y: float | None = None


class _Client(_Record):
    id: str
    label_counts: list[Count]
    cpu_hz: float
    cycles_per_sample: float
    capacitance: float
    batch_fraction: float
    tx_power_w: float
    links: dict[str, float]
    online_probability: float | None = None
    history: History | None = None
    x: float | None = None
    y: float | None = None


class ScalarsRecord(_Record, kw_only=True):
    """What a scenario file says of the whole system."""

    local_steps: Count
    edge_rounds: Count
    model_bits: float
    noise_w_per_hz: float
    weights: _Weights
    limits: _Limits
    reference: list[float] | None = None
    window: Count | None = None

    def scenario(
        self, clients: Clients, edges: Edges, links: Links, digest: str | None = None
    ) -> Scenario:
        return Scenario(
            clients=clients,
            edges=edges,
            links=links,
            local_steps=self.local_steps,
            edge_rounds=self.edge_rounds,
            model_bits=self.model_bits,
            noise_w_per_hz=self.noise_w_per_hz,
            weights=Weights(**msgspec.structs.asdict(self.weights)),
            limits=Limits(**msgspec.structs.asdict(self.limits)),
            reference=None if self.reference is None else np.array(self.reference, dtype=float),
            window=self.window,
            file_sha256=digest,
        )


class _ScenarioFile(ScalarsRecord, kw_only=True):
    format: Literal["stagewise-scenario/1"]
    edges: list[_Edge]
    clients: list[_Client]


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario from JSON, or from the binary twin if the name ends in `.safetensors`."""
    from stagewise.world import scenario_binary

    content = read_bytes(path)
    try:
        if str(path).endswith(BINARY_SUFFIX):
            return scenario_binary.decode(content)
        return _from_record(
            decode_json(content, _ScenarioFile, str(path)), hashlib.sha256(content).hexdigest()
        )
    except StagewiseError as error:
        message = str(error)
        prefix = f"{path}: "
        raise StagewiseError(message if message.startswith(prefix) else prefix + message) from None


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario as JSON, or as the binary twin if the name ends in `.safetensors`."""
    from stagewise.world import scenario_binary

    with writing(path) as stream:
        if str(path).endswith(BINARY_SUFFIX):
            stream.write(scenario_binary.encode(scenario))
        else:
            for part in _json_parts(scenario):
                stream.write(part)


def json_sha256(scenario: Scenario) -> str:
    """The SHA-256 of the JSON file `save_scenario` would write."""
    digest = hashlib.sha256()
    for part in _json_parts(scenario):
        digest.update(part)
    return digest.hexdigest()


def _from_record(record: _ScenarioFile, digest: str) -> Scenario:
    edges = Edges(
        ids=tuple(edge.id for edge in record.edges),
        capacity=np.array([edge.capacity for edge in record.edges], dtype=np.int64),
        bandwidth_hz=_column(record.edges, "bandwidth_hz"),
        uplink_delay_s=_column(record.edges, "uplink_delay_s"),
        uplink_energy_j=_column(record.edges, "uplink_energy_j"),
        position_m=_positions("edges", record.edges),
    )
    window = DEFAULT_WINDOW if record.window is None else record.window
    clients = Clients(
        ids=tuple(client.id for client in record.clients),
        label_counts=_label_counts(record.clients),
        cpu_hz=_column(record.clients, "cpu_hz"),
        cycles_per_sample=_column(record.clients, "cycles_per_sample"),
        capacitance=_column(record.clients, "capacitance"),
        batch_fraction=_column(record.clients, "batch_fraction"),
        tx_power_w=_column(record.clients, "tx_power_w"),
        online_probability=_online_probability(record.clients, window),
        position_m=_positions("clients", record.clients),
        history=_history(record.clients),
    )
    return record.scenario(clients, edges, _links(record.clients, edges), digest)


def _column(records: Sequence[Any], name: str) -> FloatArray:
    return np.array([getattr(record, name) for record in records], dtype=np.float64)


def _positions(group: str, records: Sequence[Any]) -> FloatArray | None:
    for number, record in enumerate(records):
        if (record.x is None) != (record.y is None):
            raise StagewiseError(
                f"{group}[{number}] ({shown(record.id)}): x and y must both be given, or neither"
            )
    if all(record.x is None for record in records):
        return None
    missing = float("nan")
    return np.array(
        [(missing, missing) if r.x is None else (r.x, r.y) for r in records], dtype=np.float64
    )


def _label_counts(clients: list[_Client]) -> Any:
    labels = len(clients[0].label_counts) if clients else 1
    for number, client in enumerate(clients):
        if len(client.label_counts) != labels:
            raise StagewiseError(
                f"clients[{number}] ({shown(client.id)}).label_counts has "
                f"{len(client.label_counts)} entries: must have {labels}, as the first client has"
            )
    counts = np.array([client.label_counts for client in clients], dtype=np.int64)
    return counts.reshape(len(clients), labels)


def _online_probability(clients: list[_Client], window: int) -> FloatArray:
    if window < 1:
        raise StagewiseError(f"window = {window}: must be at least 1")
    values = []
    for number, client in enumerate(clients):
        if (client.online_probability is None) == (client.history is None):
            raise StagewiseError(
                f"clients[{number}] ({shown(client.id)}): must have online_probability or history, "
                f"and not both"
            )
        values.append(
            estimate_from_history(client.history, window)
            if client.history is not None
            else client.online_probability
        )
    return np.array(values, dtype=np.float64)


def _history(clients: list[_Client]) -> tuple[str | None, ...] | None:
    if all(client.history is None for client in clients):
        return None
    return tuple(client.history for client in clients)


def _links(clients: list[_Client], edges: Edges) -> Links:
    start, edge_of, gain = [0], [], []
    for number, client in enumerate(clients):
        row = []
        for name, value in client.links.items():
            if name not in edges.index:
                raise StagewiseError(
                    f"clients[{number}] ({shown(client.id)}).links: {shown(name)} must be the id of "
                    f"an edge"
                )
            row.append((edges.index[name], value))
        for edge, value in sorted(row):
            edge_of.append(edge)
            gain.append(value)
        start.append(len(edge_of))
    return Links(
        start=np.array(start, dtype=np.int64),
        edge=np.array(edge_of, dtype=np.int64),
        gain=np.array(gain, dtype=np.float64),
    )


def _json_parts(scenario: Scenario) -> Iterator[bytes]:
    """The JSON file in parts, one line for each edge and client, so that large ones need no copy."""
    head = {"format": FORMAT, **scalar_fields(scenario)}
    yield _ENCODER.encode(head)[:-1]
    yield b',\n"edges": [\n'
    yield from _joined(_edge_records(scenario.edges))
    yield b'\n],\n"clients": [\n'
    yield from _joined(_client_records(scenario))
    yield b"\n]}\n"


def scalar_fields(scenario: Scenario) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "local_steps": scenario.local_steps,
        "edge_rounds": scenario.edge_rounds,
        # As floats: whole numbers must give the same bytes before and after a round trip.
        "model_bits": float(scenario.model_bits),
        "noise_w_per_hz": float(scenario.noise_w_per_hz),
        "weights": {name: float(value) for name, value in vars(scenario.weights).items()},
        "limits": {name: float(value) for name, value in vars(scenario.limits).items()},
    }
    if scenario.reference is not None:
        fields["reference"] = scenario.reference.tolist()
    if scenario.window is not None:
        fields["window"] = scenario.window
    return fields


def _joined(records: Iterator[_Record]) -> Iterator[bytes]:
    separator = b""
    for record in records:
        yield separator + _ENCODER.encode(record)
        separator = b",\n"


def _edge_records(edges: Edges) -> Iterator[_Edge]:
    columns = zip(
        edges.ids,
        edges.capacity.tolist(),
        edges.bandwidth_hz.tolist(),
        edges.uplink_delay_s.tolist(),
        edges.uplink_energy_j.tolist(),
        *_coordinates(edges.position_m, len(edges)),
        strict=True,
    )
    return (_Edge(*column) for column in columns)


def _client_records(scenario: Scenario) -> Iterator[_Client]:
    clients, links = scenario.clients, scenario.links
    edge_ids = scenario.edges.ids
    history = clients.history or (None,) * len(clients)
    columns = zip(
        clients.ids,
        clients.cpu_hz.tolist(),
        clients.cycles_per_sample.tolist(),
        clients.capacitance.tolist(),
        clients.batch_fraction.tolist(),
        clients.tx_power_w.tolist(),
        clients.online_probability.tolist(),
        history,
        *_coordinates(clients.position_m, len(clients)),
        strict=True,
    )
    start = links.start.tolist()
    for number, (name, cpu, cycles, capacitance, batch, power, online, past, x, y) in enumerate(
        columns
    ):
        row = slice(start[number], start[number + 1])
        edges = (edge_ids[edge] for edge in links.edge[row].tolist())
        yield _Client(
            id=name,
            label_counts=clients.label_counts[number].tolist(),
            cpu_hz=cpu,
            cycles_per_sample=cycles,
            capacitance=capacitance,
            batch_fraction=batch,
            tx_power_w=power,
            links=dict(zip(edges, links.gain[row].tolist(), strict=True)),
            online_probability=online if past is None else None,
            history=past,
            x=x,
            y=y,
        )


def _coordinates(position_m: FloatArray | None, count: int) -> tuple[list[Any], list[Any]]:
    if position_m is None:
        return [None] * count, [None] * count
    x, y = ([None if np.isnan(v) else v for v in axis.tolist()] for axis in position_m.T)
    return x, y
