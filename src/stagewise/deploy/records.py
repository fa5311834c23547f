"""What a deployment writes beside the run's own files: `live.jsonl` and `status.json`."""

import os
from pathlib import Path
from typing import Literal

import msgspec

from stagewise.deploy.exchange import ClientReport, EdgeReport
from stagewise.errors import StagewiseError
from stagewise.fates import Fate
from stagewise.files import decode_json, decode_json_lines, explained, read_bytes, write_bytes

LIVE, STATUS, DEPLOYMENT = "live.jsonl", "status.json", "deploy.json"

DesignName = Literal["H", "F", "in-process"]
Phase = Literal["starting", "polling", "deciding", "training", "stopped", "finished"]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a file."""


class Deployment(_Record, frozen=True, kw_only=True):
    """`deploy.json`: what decides how a run is carried out, beside its `config.toml`."""

    format: Literal["stagewise-deploy/1"] = "stagewise-deploy/1"
    design: DesignName
    site: str | None = None
    """The cloud's folder of a deployment on several machines; None: all on one."""
    deadline_factor: float
    measured_costs: bool
    polls: int
    clients: int | None = None
    """How many the run began with: others may have joined since. None: as many as it has."""


class LiveRecord(_Record, frozen=True, kw_only=True):
    """A line of `live.jsonl`: one round, measured beside predicted."""

    round: int
    edges: list[str]
    """Those that answered the roll call."""
    reached: dict[str, list[str]]
    """The clients that answered, each with the edges it answered through."""
    answer_s: dict[str, float]
    poll_s: float
    deadline_s: float
    delay_s: float
    """Measured: from the order to the new model."""
    predicted_delay_s: float
    """Eq. 4 with the scenario's costs, also where decisions use measured ones."""
    expected_delay_s: float
    """Eq. 4 with the links' measured costs, and the engine's time for its messages."""
    energy_j: float
    """Eq. 5 over what took place; modelled, not measured."""
    predicted_energy_j: float
    cloud_bytes_up: int
    cloud_bytes_down: int
    predicted_cloud_bytes: int
    """Each way, by the models that are to cross the cloud's links in this design."""
    client_bytes_up: int
    client_bytes_down: int
    predicted_client_bytes: int
    """Each way, by the models that clients are to send."""
    asked: int
    fates: dict[Fate, int]
    """How many updates ended in each; together `asked`."""
    faults: list[str]
    """What did not add up in the transport's reports."""
    updates: list[ClientReport]
    edge_fates: list[EdgeReport]


class StatusRecord(_Record, frozen=True, kw_only=True):
    """`status.json`: what the cloud's process is doing."""

    design: DesignName
    phase: Phase = "starting"
    round: int = 0
    rounds: int
    changed: float = 0.0
    """When this was written, in seconds of the Unix epoch."""
    pid: int = 0
    edges: list[str] = []
    reached: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    """Who trains where in the round under way, or in the last one."""
    deadline_s: float | None = None
    fates: dict[Fate, int] = {}
    """Of all complete rounds."""
    faults: int = 0


def deployment_file(deployment: Deployment) -> bytes:
    """The content of `deploy.json`."""
    return msgspec.json.encode(deployment) + b"\n"


def load_deployment(folder: Path) -> Deployment:
    return decode_json(read_bytes(folder / DEPLOYMENT), Deployment, str(folder / DEPLOYMENT))


def save_status(status: StatusRecord, folder: Path) -> None:
    write_bytes(folder / STATUS, msgspec.json.encode(status) + b"\n")


def load_status(folder: Path) -> StatusRecord | None:
    """The last status of the cloud's process; None before there is one."""
    path = folder / STATUS
    return decode_json(read_bytes(path), StatusRecord, str(path)) if path.exists() else None


def load_live(folder: Path, complete: int) -> list[LiveRecord]:
    """The lines of the `complete` first rounds."""
    lines, path = _lines(folder, complete), folder / LIVE
    records: list[LiveRecord] = decode_json_lines(b"".join(lines), LiveRecord, str(path))
    if [record.round for record in records] != list(range(complete)):
        raise StagewiseError(f"{path}: the rounds must be in order, from 0 to {complete - 1}")
    return records


def cut_live(folder: Path, complete: int) -> None:
    """Leave the lines of the `complete` first rounds alone in `live.jsonl`."""
    write_bytes(folder / LIVE, b"".join(_lines(folder, complete)))


def add_live(folder: Path, record: LiveRecord) -> bytes:
    """Add a line to `live.jsonl`, which is returned; it is on disk then."""
    path, line = folder / LIVE, msgspec.json.encode(record) + b"\n"
    with explained(path), path.open("ab") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    return line


def _lines(folder: Path, complete: int) -> list[bytes]:
    # What follows the last line break is a line that was never finished.
    path = folder / LIVE
    content = read_bytes(path) if path.exists() else b""
    return [line + b"\n" for line in content.split(b"\n")[:-1][:complete]]
