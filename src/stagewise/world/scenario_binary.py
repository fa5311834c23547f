"""The binary twin of a scenario file: the same content as arrays, for the large ones."""

import json
from typing import Any

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json
from stagewise.world.checks import FloatArray, IntArray
from stagewise.world.parts import CLIENT_RULES, EDGE_RULES, LINK_RULES, Clients, Edges, Links
from stagewise.world.records import History, ScalarsRecord
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_json import (
    FORMAT,
    FORMAT_2,
    format_of,
    require_format,
    scalar_fields,
)

_ARRAYS = {
    "clients": ("label_counts", *CLIENT_RULES, "position_m"),
    "edges": (*EDGE_RULES, "position_m"),
    "links": ("start", "edge", *LINK_RULES),
}
_STRINGS: dict[str, Any] = {
    "clients.ids": list[str],
    "edges.ids": list[str],
    "clients.history": list[History | None],
}


def encode(scenario: Scenario) -> bytes:
    """The bytes of the binary file; an array without any value is left out."""
    from safetensors.numpy import save

    tensors: dict[str, Any] = {}
    for group, names in _ARRAYS.items():
        for name in names:
            array = getattr(getattr(scenario, group), name)
            if array is not None and _has_values(name, array):
                tensors[f"{group}.{name}"] = np.ascontiguousarray(array)
    strings: dict[str, Any] = {"clients.ids": scenario.clients.ids, "edges.ids": scenario.edges.ids}
    if scenario.clients.history is not None:
        strings["clients.history"] = scenario.clients.history
    for name, values in strings.items():
        tensors[name] = np.frombuffer(msgspec.json.encode(values), dtype=np.uint8)
    metadata = {"format": format_of(scenario), "scalars": json.dumps(scalar_fields(scenario))}
    return bytes(save(tensors, metadata=metadata))


def _has_values(name: str, array: FloatArray | IntArray) -> bool:
    if len(array) == 0:  # a scenario without links, which nobody measured
        return name not in ("delay_s", "energy_j")
    return not np.isnan(array).all()


def decode(content: bytes) -> Scenario:
    """The scenario of a binary file; its arrays are checked like JSON is."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        version, scalars = metadata["format"], metadata["scalars"].encode()
        parts: dict[str, dict[str, Any]] = {"clients": {}, "edges": {}, "links": {}}
        for name, array in tensors.items():
            group, field = name.split(".")
            if name in _STRINGS:
                parts[group][field] = decode_json(array.tobytes(), _STRINGS[name], field)
            elif field in _ARRAYS[group]:
                parts[group][field] = array
            else:
                raise KeyError(name)
        made = Clients(**parts["clients"]), Edges(**parts["edges"]), Links(**parts["links"])
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, StagewiseError):
            raise
        raise StagewiseError("not a valid binary scenario: a part is missing or damaged") from None
    if version not in (FORMAT, FORMAT_2):
        raise StagewiseError(f"format = {shown(version)}: must be {FORMAT!r} or {FORMAT_2!r}")
    record = decode_json(scalars, ScalarsRecord, "scalars")
    scenario = Scenario(*made, **record.arguments())
    require_format(scenario, version)
    return scenario
