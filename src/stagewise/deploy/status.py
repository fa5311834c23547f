"""What `deploy status` shows, put together from a run's files; the run may be going on or over."""

import time
from pathlib import Path

import msgspec

from stagewise.deploy.exchange import count_fates
from stagewise.deploy.layout import host_folder
from stagewise.deploy.limits import load_refused
from stagewise.deploy.records import (
    Deployment,
    LiveRecord,
    StatusRecord,
    load_deployment,
    load_live,
    load_status,
)
from stagewise.deploy.starting import beside
from stagewise.deploy.supervisor import ProcessRecord, last_line, load_processes
from stagewise.fates import FATES, Fate
from stagewise.runs.directory import RunDirectory, is_running
from stagewise.runs.records import RoundRecord


class Backhaul(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud's traffic in design H over what F would have carried, which is every update."""

    predicted: float
    """By the number of models: one each way for an edge, against one for an update."""
    measured: float
    """By the bytes of models that crossed the cloud's links, and those of clients."""
    rounds: int
    """The rounds it is taken from: those in which every update was counted."""


class RoundStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A complete round: measured beside predicted."""

    round: int
    accuracy: float | None
    feasible: bool
    edges: int
    """How many answered."""
    clients: int
    """How many answered."""
    serving: int
    fates: dict[Fate, int]
    delay_s: float
    predicted_delay_s: float
    expected_delay_s: float
    deadline_s: float
    energy_j: float
    predicted_energy_j: float
    cloud_bytes: int
    predicted_cloud_bytes: int
    client_bytes: int
    faults: list[str]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A deployed run."""

    design: str
    running: bool
    phase: str
    phase_s: float
    """The seconds since it came into this phase."""
    round: int
    """The round under way, or the last one; from 0."""
    rounds: int
    complete: int
    edges: dict[str, bool]
    """Which answered the newest roll call."""
    clients: dict[str, list[str]]
    """Every client with the edges through which it answered the newest roll call."""
    trains: dict[str, list[str]]
    """Who trains where in the round under way, or trained in the last one."""
    deadline_s: float | None
    fates: dict[Fate, int]
    asked: int
    adds_up: bool
    """Whether the fates are those of all updates that were asked for, each counted once."""
    not_counted: list[str]
    """A line for each update that was not counted."""
    processes: dict[str, ProcessRecord]
    """The programs of the cloud's machine, as its supervisor knows them."""
    troubles: list[str]
    """Programs that ended by themselves, with the last lines of their logs."""
    refused: list[str]
    """What the SuperLinks of the cloud's machine refused, from whom, and how often."""
    backhaul: Backhaul | None
    history: list[RoundStatus]


def read_status(directory: str | Path) -> Status:
    """The status of the run in a folder."""
    run = RunDirectory.open(directory)
    deployment, scenario, config = load_deployment(run.path), run.scenario(), run.config()
    records = run.rounds()
    live = load_live(run.path, len(records))
    status = load_status(run.path) or StatusRecord(design=deployment.design, rounds=config.rounds)
    machine = machine_folder(run.path, deployment)
    processes = load_processes(machine)
    return Status(
        design=deployment.design,
        running=is_running(run.path),
        phase=status.phase,
        phase_s=max(0.0, time.time() - status.changed) if status.changed else 0.0,
        round=status.round,
        rounds=config.rounds,
        complete=len(records),
        edges={edge: edge in status.edges for edge in scenario.edges.ids},
        clients={client: status.reached.get(client, []) for client in scenario.clients.ids},
        trains=status.groups,
        deadline_s=status.deadline_s,
        fates={fate: sum(record.fates[fate] for record in live) for fate in FATES},
        asked=sum(record.asked for record in live),
        adds_up=adds_up(live),
        not_counted=[line for record in live for line in not_counted(record)],
        processes=processes,
        troubles=troubles(processes),
        refused=refused(machine),
        backhaul=backhaul(deployment, live),
        history=[_round(*pair) for pair in zip(records, live, strict=True)],
    )


def machine_folder(out: Path, deployment: Deployment) -> Path:
    """The folder of the machine that the cloud runs on."""
    if deployment.site is not None:
        return Path(deployment.site)
    return host_folder(beside(out) / "site", "127.0.0.1")


def troubles(processes: dict[str, ProcessRecord]) -> list[str]:
    """Which programs had to be started again, or could not be, and what they said last."""
    return [
        f"{name}: ended {each.ended}, started {each.starts} times: {last_line(Path(each.log))} "
        f"({each.log})"
        for name, each in processes.items()
        if each.starts > 1 or (each.pid is None and each.ended.startswith("with status"))
    ]


def refused(machine: Path) -> list[str]:
    """What was refused by the request filters of a machine."""
    return [
        f"{role.name} refused {what}: {times} times"
        for role in sorted(machine.glob("*/"))
        for what, times in load_refused(role).items()
    ]


def adds_up(live: list[LiveRecord]) -> bool:
    """Whether every update of every round has exactly one fate, by the lines themselves."""
    for record in live:
        keys = {(update.edge, update.edge_round, update.client) for update in record.updates}
        fates = count_fates(update.fate for update in record.updates)
        whole = len(keys) == len(record.updates) == record.asked == sum(record.fates.values())
        if not whole or fates != record.fates or record.faults:
            return False
    return True


def not_counted(record: LiveRecord) -> list[str]:
    """Who was late, rejected or lost in a round, and why."""
    return [
        f"round {record.round}, edge round {update.edge_round}: {update.client} at {update.edge}: "
        f"{update.fate}: {update.reason}"
        for update in record.updates
        if update.fate != "counted"
    ]


def backhaul(deployment: Deployment, live: list[LiveRecord]) -> Backhaul | None:
    """The saving of design H as far as it was measured; None for F, which saves nothing."""
    clean = [record for record in live if record.asked and record.fates["counted"] == record.asked]
    carried = sum(record.client_bytes_up + record.client_bytes_down for record in clean)
    if deployment.design != "H" or carried == 0:
        return None
    crossed = sum(record.cloud_bytes_up + record.cloud_bytes_down for record in clean)
    models = sum(len(record.edge_fates) for record in clean)
    return Backhaul(
        predicted=models / sum(record.asked for record in clean),
        measured=crossed / carried,
        rounds=len(clean),
    )


def _round(record: RoundRecord, live: LiveRecord) -> RoundStatus:
    fields = msgspec.structs.asdict(live) | {
        "accuracy": record.accuracy,
        "feasible": record.feasible,
        "edges": len(live.edges),
        "clients": len(live.reached),
        "serving": record.clients,
        "cloud_bytes": live.cloud_bytes_up + live.cloud_bytes_down,
        "predicted_cloud_bytes": 2 * live.predicted_cloud_bytes,
        "client_bytes": live.client_bytes_up + live.client_bytes_down,
    }
    return RoundStatus(**{name: fields[name] for name in RoundStatus.__struct_fields__})
