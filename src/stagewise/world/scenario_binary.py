"""The binary twin of a scenario file: the same content as arrays, for the large ones."""

import json
from typing import Any

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json
from stagewise.world.scenario import FORMAT, Clients, Edges, Links, Scenario
from stagewise.world.scenario_file import History, ScalarsRecord, scalar_fields

_CLIENT_ARRAYS = (
    "label_counts",
    "cpu_hz",
    "cycles_per_sample",
    "capacitance",
    "batch_fraction",
    "tx_power_w",
    "online_probability",
)
_EDGE_ARRAYS = ("capacity", "bandwidth_hz", "uplink_delay_s", "uplink_energy_j")
_LINK_ARRAYS = ("start", "edge", "gain")


def encode(scenario: Scenario) -> bytes:
    """The bytes of the binary file."""
    from safetensors.numpy import save

    tensors: dict[str, Any] = {}
    for group, names in (
        ("clients", _CLIENT_ARRAYS),
        ("edges", _EDGE_ARRAYS),
        ("links", _LINK_ARRAYS),
    ):
        for name in names:
            tensors[f"{group}.{name}"] = np.ascontiguousarray(
                getattr(getattr(scenario, group), name)
            )
    if scenario.clients.position_m is not None:
        tensors["clients.position_m"] = np.ascontiguousarray(scenario.clients.position_m)
    if scenario.edges.position_m is not None:
        tensors["edges.position_m"] = np.ascontiguousarray(scenario.edges.position_m)
    strings: dict[str, Any] = {"clients.ids": scenario.clients.ids, "edges.ids": scenario.edges.ids}
    if scenario.clients.history is not None:
        strings["clients.history"] = scenario.clients.history
    for name, values in strings.items():
        tensors[name] = np.frombuffer(msgspec.json.encode(values), dtype=np.uint8)
    metadata = {"format": FORMAT, "scalars": json.dumps(scalar_fields(scenario))}
    return bytes(save(tensors, metadata=metadata))


def decode(content: bytes) -> Scenario:
    """The scenario of a binary file; its arrays are checked like JSON is, and against each other."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        # Copies: arrays over the file's own bytes are read-only, which compiled code takes as
        # another type.
        tensors = {name: array.copy() for name, array in load(content).items()}
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        if metadata["format"] != FORMAT:
            raise StagewiseError(f"format = {shown(metadata['format'])}: must be {FORMAT!r}")
        scalars = decode_json(metadata["scalars"].encode(), ScalarsRecord, "scalars")
        clients = Clients(
            ids=tuple(_strings(tensors["clients.ids"], list[str])),
            history=(
                tuple(_strings(tensors["clients.history"], list[History | None]))
                if "clients.history" in tensors
                else None
            ),
            position_m=tensors.get("clients.position_m"),
            **{name: tensors[f"clients.{name}"] for name in _CLIENT_ARRAYS},
        )
        edges = Edges(
            ids=tuple(_strings(tensors["edges.ids"], list[str])),
            position_m=tensors.get("edges.position_m"),
            **{name: tensors[f"edges.{name}"] for name in _EDGE_ARRAYS},
        )
        links = Links(**{name: tensors[f"links.{name}"] for name in _LINK_ARRAYS})
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, StagewiseError):
            raise
        raise StagewiseError("not a valid binary scenario: a part is missing or damaged") from None
    _check_binary_shapes(clients, edges, links)
    return scalars.scenario(clients, edges, links)


def _strings(encoded: Any, kind: Any) -> Any:
    return decode_json(encoded.tobytes(), kind, "ids")


def _check_binary_shapes(clients: Clients, edges: Edges, links: Links) -> None:
    """What JSON cannot get wrong, but arrays can: types, lengths and the order of links."""
    integers = (clients.label_counts, edges.capacity, links.start, links.edge)
    floats = [getattr(clients, name) for name in _CLIENT_ARRAYS[1:]]
    floats += [getattr(edges, name) for name in _EDGE_ARRAYS[1:]] + [links.gain]
    positions = [p for p in (clients.position_m, edges.position_m) if p is not None]
    good = (
        all(array.dtype == np.int64 for array in integers)
        and all(array.dtype == np.float64 for array in floats + positions)
        and clients.label_counts.ndim == 2
        and len(clients.label_counts) == len(clients)
        and links.start.shape == (len(clients) + 1,)
        and links.edge.shape == links.gain.shape == (int(links.start[-1]),)
        and links.start[0] == 0
        and bool((np.diff(links.start) >= 0).all())
        and bool(((links.edge >= 0) & (links.edge < len(edges))).all())
        and bool((np.diff(links.client * len(edges) + links.edge) > 0).all())
        and (clients.position_m is None or clients.position_m.shape == (len(clients), 2))
        and (edges.position_m is None or edges.position_m.shape == (len(edges), 2))
        and (clients.history is None or len(clients.history) == len(clients))
    )
    if not good:
        raise StagewiseError("not a valid binary scenario: its arrays do not fit each other")
