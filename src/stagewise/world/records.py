"""Clients and edges as records, as JSON files and tables have them, and the arrays made of them."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import LARGEST_COUNT, field_error, names
from stagewise.world.estimator import DEFAULT_WINDOW, estimate_from_history
from stagewise.world.parts import (
    CLIENT_RULES,
    EDGE_RULES,
    LINK_RULES,
    Clients,
    Edges,
    Limits,
    Links,
    Weights,
    checked_history,
)

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
History = Annotated[str, msgspec.Meta(pattern="^[01]+$")]

NOT_GIVEN = math.nan
"""This very object is left out of the files."""


class Record(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object whose unknown fields are an error."""


class Measured(Record, kw_only=True):
    """The costs of a link that were measured."""

    delay_s: float
    energy_j: float = NOT_GIVEN


class EdgeRecord(Record, kw_only=True):
    id: str
    capacity: Count
    bandwidth_hz: float = NOT_GIVEN
    uplink_delay_s: float
    uplink_energy_j: float
    x: float | None = None
    y: float | None = None


class ClientRecord(Record, kw_only=True):
    id: str
    label_counts: list[Count]
    cpu_hz: float = NOT_GIVEN
    cycles_per_sample: float = NOT_GIVEN
    capacitance: float = NOT_GIVEN
    batch_fraction: float = NOT_GIVEN
    tx_power_w: float = NOT_GIVEN
    links: dict[str, float | Measured]
    online_probability: float | None = None
    history: History | None = None
    x: float | None = None
    y: float | None = None


class _WeightsRecord(Record, kw_only=True):
    delay: float
    energy: float
    continuity: float


class _LimitsRecord(Record, kw_only=True):
    kld_max: float | None
    """None is infinite."""
    data_min: float
    kld_margin: float
    data_margin: float
    kld_risk: float
    data_risk: float


class ScalarsRecord(Record, kw_only=True):
    """What a scenario file says of the whole system."""

    local_steps: Count
    edge_rounds: Count
    model_bits: float = NOT_GIVEN
    noise_w_per_hz: float = NOT_GIVEN
    weights: _WeightsRecord
    limits: _LimitsRecord
    reference: list[float] | None = None
    window: Count | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Scenario` that are neither clients, edges nor links."""
        known = {name: getattr(self, name) for name in ScalarsRecord.__struct_fields__}
        limits = msgspec.structs.asdict(self.limits)
        if limits["kld_max"] is None:
            limits["kld_max"] = math.inf
        return known | {
            "weights": Weights(**msgspec.structs.asdict(self.weights)),
            "limits": Limits(**limits),
        }


def parts_of(
    clients: Sequence[ClientRecord], edges: Sequence[EdgeRecord], window: int | None
) -> tuple[Clients, Edges, Links]:
    """The arrays of a scenario; `window` is that of the estimates from histories (Eq. 6)."""
    edge_ids = names("edges", [edge.id for edge in edges])
    client_ids = names("clients", [client.id for client in clients])
    online, history = _online(clients, client_ids, window)
    columns = {name: _column(clients, name) for name in CLIENT_RULES}
    return (
        Clients(
            ids=client_ids,
            label_counts=_label_counts(clients, client_ids),
            position_m=_position("clients", clients, client_ids),
            history=history,
            **(columns | {"online_probability": online}),
        ),
        Edges(
            ids=edge_ids,
            position_m=_position("edges", edges, edge_ids),
            **{name: _column(edges, name) for name in EDGE_RULES},
        ),
        _links(clients, client_ids, edge_ids),
    )


def _column(records: Sequence[Any], name: str) -> Any:
    return [getattr(record, name) for record in records]


def _position(group: str, records: Sequence[Any], ids: tuple[str, ...]) -> Any:
    for row, record in enumerate(records):
        if (record.x is None) != (record.y is None):
            raise field_error(group, ids, row, "", ": x and y must both be given, or neither")
    if all(record.x is None for record in records):
        return None
    return [(math.nan, math.nan) if r.x is None else (r.x, r.y) for r in records]


def _label_counts(clients: Sequence[ClientRecord], ids: tuple[str, ...]) -> Any:
    labels = len(clients[0].label_counts)
    for row, client in enumerate(clients):
        if len(client.label_counts) != labels:
            problem = (
                f" has {len(client.label_counts)} entries: must have {labels}, as the first client "
                f"has"
            )
            raise field_error("clients", ids, row, "label_counts", problem)
    return [client.label_counts for client in clients]


def _online(
    clients: Sequence[ClientRecord], ids: tuple[str, ...], window: int | None
) -> tuple[list[Any], tuple[str | None, ...] | None]:
    history = checked_history(_column(clients, "history"), ids)
    rounds = DEFAULT_WINDOW if window is None else window
    if rounds < 1:
        raise StagewiseError(f"window = {rounds}: must be at least 1")
    values: list[Any] = []
    for row, (client, past) in enumerate(zip(clients, history, strict=True)):
        if (client.online_probability is None) == (past is None):
            problem = ": must have online_probability or history, and not both"
            raise field_error("clients", ids, row, "", problem)
        values.append(
            client.online_probability if past is None else estimate_from_history(past, rounds)
        )
    return values, history if any(history) else None


def _links(
    clients: Sequence[ClientRecord], ids: tuple[str, ...], edge_ids: tuple[str, ...]
) -> Links:
    index = {name: number for number, name in enumerate(edge_ids)}
    start, edges = [0], []
    # Whatever tables hold; `Links` refuses what is no number.
    costs: dict[str, list[Any]] = {name: [] for name in LINK_RULES}
    for row, client in enumerate(clients):
        try:
            links = sorted((index[name], value) for name, value in client.links.items())
        except KeyError as error:
            problem = f": {shown(error.args[0])} must be the id of an edge"
            raise field_error("clients", ids, row, "links", problem) from None
        for edge, value in links:
            edges.append(edge)
            measured = value if isinstance(value, Measured) else None
            costs["gain"].append(math.nan if measured else value)
            costs["delay_s"].append(measured.delay_s if measured else math.nan)
            costs["energy_j"].append(measured.energy_j if measured else math.nan)
        start.append(len(edges))
    known: dict[str, Any] = {
        name: column
        for name, column in costs.items()
        if not all(value is math.nan for value in column)
    }
    return Links(np.array(start, dtype=np.int64), np.array(edges, dtype=np.int64), **known)
