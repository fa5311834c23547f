"""Scenario files: `stagewise-scenario/1` and `/2` as JSON; the large ones also in a binary form."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from stagewise.files import decode_json, errors_at, read_bytes, writing
from stagewise.world import scenario_binary
from stagewise.world.checks import field_error
from stagewise.world.records import ClientRecord, EdgeRecord, ScalarsRecord, parts_of
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_json import FORMAT, json_parts, require_format, sha256_of

BINARY_SUFFIX = ".safetensors"


class _ScenarioFile(ScalarsRecord, kw_only=True):
    format: Literal["stagewise-scenario/1", "stagewise-scenario/2"]
    edges: list[EdgeRecord]
    clients: list[ClientRecord]


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario from JSON, or from the binary twin if the name ends in `.safetensors`.

    Parameters
    ----------
    path
        The file; `-` is standard input.

    Raises
    ------
    StagewiseError
        If the file cannot be read, or a value in it cannot be; the message names the file, the
        field, the value and the rule.

    Examples
    --------
    >>> load_scenario("nowhere.json")
    Traceback (most recent call last):
    ...
    stagewise.errors.StagewiseError: nowhere.json: cannot be read: No such file or directory
    """
    return decode_scenario(read_bytes(path), str(path).endswith(BINARY_SUFFIX), path)


def decode_scenario(content: bytes, binary: bool, path: str | Path) -> Scenario:
    """The scenario in the content of a file; errors call it `path`."""
    if binary:
        with errors_at(path):
            return scenario_binary.decode(content)
    record = decode_json(content, _ScenarioFile, str(path))
    with errors_at(path):
        return _scenario(record, sha256_of([content]))


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario as JSON, or as the binary twin if the name ends in `.safetensors`.

    Files have version 1 where that can say everything: all links have channel gains, and no field
    is left out.

    Parameters
    ----------
    scenario
        What to write.
    path
        The file, which is written whole or not at all; `-` is standard output.

    Raises
    ------
    StagewiseError
        If the file cannot be written.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> save_scenario(numeric(clients=2, edges=1), "/dev/null")
    """
    with writing(path) as stream:
        if str(path).endswith(BINARY_SUFFIX):
            stream.write(scenario_binary.encode(scenario))
        else:
            for part in json_parts(scenario):
                stream.write(part)


def load_client(path: str | Path) -> ClientRecord:
    """Read one client, as an object of a scenario file's `clients`."""
    record: ClientRecord = decode_json(read_bytes(path), ClientRecord, str(path))
    return record


def client_records(scenario: Scenario) -> list[ClientRecord]:
    """The clients as a file has them."""
    return _record(scenario).clients


def with_clients(scenario: Scenario, more: Sequence[ClientRecord]) -> Scenario:
    """The scenario with more clients, after its own."""
    record = _record(scenario)
    record.format = "stagewise-scenario/2"  # which can say everything
    record.clients.extend(more)
    return _scenario(record, None)


def _record(scenario: Scenario) -> _ScenarioFile:
    return decode_json(b"".join(json_parts(scenario)), _ScenarioFile, "scenario")


def _scenario(record: _ScenarioFile, sha256: str | None) -> Scenario:
    parts = parts_of(record.clients, record.edges, record.window)
    scenario = Scenario(*parts, **record.arguments(), file_sha256=sha256)
    for row, client in enumerate(record.clients):
        # The model needs it; only where everything was measured is there a default.
        if math.isnan(client.batch_fraction) and (
            record.format == FORMAT or any(isinstance(v, float) for v in client.links.values())
        ):
            problem = " must be given where a link has a channel gain"
            raise field_error("clients", scenario.clients.ids, row, "batch_fraction", problem)
    require_format(scenario, record.format)
    return scenario
