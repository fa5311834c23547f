"""A plan: the long-term clients of every edge; and its file, `stagewise-plan/1`."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np

from stagewise.decisions import named_assignment
from stagewise.errors import StagewiseError, shown
from stagewise.files import STANDARD_STREAM, decode_json, read_bytes, write_bytes
from stagewise.problem.evaluation import continuity
from stagewise.problem.risk import RiskMeasure
from stagewise.problem.statement import Mode, edge_risks, p1, plan_violations
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import LARGEST_COUNT, BoolArray, FloatArray, IntArray, Scenario

if TYPE_CHECKING:
    from stagewise.decisions import Decision
    from stagewise.plan_b.remedies import Remedy
    from stagewise.plan_b.service import ServiceRecord
    from stagewise.pool.library import Library

FORMAT: Literal["stagewise-plan/1"] = "stagewise-plan/1"
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]


class PlanEdgeRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One edge's long-term clients and their risks."""

    id: str
    clients: Count
    kld_risk: float
    data_risk: float


class PlanRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A plan file."""

    format: Literal["stagewise-plan/1"]
    scenario_sha256: str
    method: str
    seed: int
    assignment: dict[str, str]
    objective: float
    delay_s: float
    energy_j: float
    continuity: float
    edges: list[PlanEdgeRecord]
    feasible: bool
    violations: list[str]
    plan_ms: float
    library: str | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """The long-term clients, and what they would cost and risk."""

    scenario: Scenario
    method: str
    seed: int
    edge_of: IntArray
    """The long-term edge of each client, or -1; shape (clients,)."""
    objective: float
    """lambda_t T + lambda_e E - lambda_c C with everybody online."""
    delay_s: float
    energy_j: float
    continuity: float
    kld_risk: FloatArray
    data_risk: FloatArray
    violations: tuple[str, ...]
    plan_ms: float
    library: "Library | None" = None
    """The clusters that Plan B picks from, for a plan by `pool`."""

    @property
    def feasible(self) -> bool:
        return not self.violations

    @cached_property
    def assignment(self) -> dict[str, str]:
        """The edge of every long-term client, by id."""
        return named_assignment(self.scenario, self.edge_of)

    def decide(
        self,
        online: Round | BoolArray | Iterable[str],
        *,
        index: int = 0,
        method: str | None = None,
        mode: Mode = "strict",
        remedy: "Remedy | None" = None,
        service: "ServiceRecord | None" = None,
    ) -> "Decision":
        """Plan B: the decision for a round in which the given clients are online.

        `online` is a list of ids, a mask over the clients, or a `Round`; `method` is `ccu`,
        `repair` or `pool` and follows the plan's own by default. See `stagewise.plan_b`.
        """
        from stagewise.plan_b.decide import decide

        return decide(
            self, online, index=index, method=method, mode=mode, remedy=remedy, service=service
        )

    def record(self, library: str | None = None) -> PlanRecord:
        """The plan as it stands in a file; `library` is the name of its side file."""
        clients = np.bincount(
            self.edge_of[self.edge_of != UNASSIGNED], minlength=len(self.scenario.edges)
        )
        columns = zip(
            self.scenario.edges.ids,
            clients.tolist(),
            self.kld_risk.tolist(),
            self.data_risk.tolist(),
            strict=True,
        )
        return PlanRecord(
            format=FORMAT,
            scenario_sha256=self.scenario.sha256,
            method=self.method,
            seed=self.seed,
            assignment=self.assignment,
            objective=self.objective,
            delay_s=self.delay_s,
            energy_j=self.energy_j,
            continuity=self.continuity,
            edges=[PlanEdgeRecord(*column) for column in columns],
            feasible=self.feasible,
            violations=list(self.violations),
            plan_ms=self.plan_ms,
            library=library,
        )

    def __repr__(self) -> str:
        return (
            f"Plan(method={self.method!r}, clients={len(self.assignment)}, "
            f"objective={self.objective:.4g}, feasible={self.feasible})"
        )


def make_plan(
    risk: RiskMeasure, edge_of: IntArray, *, method: str, seed: int, plan_ms: float
) -> Plan:
    """The plan to use `edge_of`, its figures computed from the scenario under `risk`."""
    scenario = risk.scenario
    problem = p1(scenario, risk)
    evaluation = problem.evaluate(edge_of)
    kld_risk, data_risk = edge_risks(risk, edge_of)
    constancy = continuity(scenario, edge_of)
    return Plan(
        scenario=scenario,
        method=method,
        seed=seed,
        edge_of=edge_of,
        objective=evaluation.cost - scenario.weights.continuity * constancy,
        delay_s=evaluation.delay_s,
        energy_j=evaluation.energy_j,
        continuity=constancy,
        kld_risk=kld_risk,
        data_risk=data_risk,
        violations=tuple(plan_violations(scenario, evaluation.clients, kld_risk, data_risk)),
        plan_ms=plan_ms,
    )


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan file and, beside it, its library; to standard output goes the plan alone."""
    name = None
    if plan.library is not None and str(path) != STANDARD_STREAM:
        from stagewise.pool.library_file import library_name, save_library

        name = library_name(path)
        save_library(plan.library, Path(path).with_name(name))
    write_bytes(path, msgspec.json.format(msgspec.json.encode(plan.record(name)), indent=1) + b"\n")


def load_plan_record(path: str | Path) -> PlanRecord:
    """Read a plan file as it is: what it claims is not checked against anything."""
    return decode_json(read_bytes(path), PlanRecord, str(path))


def load_plan(path: str | Path, scenario: Scenario) -> Plan:
    """Read a plan made for `scenario`; an unknown id, a missing link or a full edge is an error."""
    record = load_plan_record(path)
    if record.scenario_sha256 != scenario.sha256:
        raise StagewiseError(
            f"{path}: scenario_sha256 = {shown(record.scenario_sha256)}: the plan must be made for "
            f"this scenario, whose SHA-256 is {scenario.sha256}"
        )
    if tuple(edge.id for edge in record.edges) != scenario.edges.ids:
        raise StagewiseError(f"{path}: edges: must be the scenario's edges in their order")
    if record.seed < 0:
        raise StagewiseError(f"{path}: seed = {record.seed}: must be at least 0")
    return Plan(
        scenario=scenario,
        method=record.method,
        seed=record.seed,
        edge_of=_edge_of(record.assignment, scenario, path),
        objective=record.objective,
        delay_s=record.delay_s,
        energy_j=record.energy_j,
        continuity=record.continuity,
        kld_risk=np.array([edge.kld_risk for edge in record.edges]),
        data_risk=np.array([edge.data_risk for edge in record.edges]),
        violations=tuple(record.violations),
        plan_ms=record.plan_ms,
        library=_library(record, scenario, path),
    )


def _library(record: PlanRecord, scenario: Scenario, path: str | Path) -> "Library | None":
    if record.library is None:
        return None
    from stagewise.pool.library_file import load_library

    beside = record.library != "" and Path(record.library).name == record.library
    if not beside or str(path) == STANDARD_STREAM:
        raise StagewiseError(
            f"{path}: library = {shown(record.library)}: must be the name of a file beside the plan"
        )
    return load_library(Path(path).with_name(record.library), scenario)


def _edge_of(assignment: dict[str, str], scenario: Scenario, path: str | Path) -> IntArray:
    edge_of = np.full(len(scenario.clients), UNASSIGNED, dtype=np.int64)
    for client, edge in assignment.items():
        if client not in scenario.clients.index:
            raise StagewiseError(f"{path}: assignment: {shown(client)} must be the id of a client")
        if edge not in scenario.edges.index:
            raise StagewiseError(
                f"{path}: assignment[{shown(client)}] = {shown(edge)}: must be the id of an edge"
            )
        edge_of[scenario.clients.index[client]] = scenario.edges.index[edge]
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    linked = scenario.links.find(serving, edge_of[serving]) >= 0
    if not linked.all():
        name = scenario.clients.ids[serving[int(np.argmin(linked))]]
        raise StagewiseError(
            f"{path}: assignment[{shown(name)}] = {shown(assignment[name])}: must be an edge that "
            f"covers the client"
        )
    counts = np.bincount(edge_of[serving], minlength=len(scenario.edges))
    if (counts > scenario.edges.capacity).any():
        edge_number = int(np.argmax(counts > scenario.edges.capacity))
        raise StagewiseError(
            f"{path}: assignment: edge {shown(scenario.edges.ids[edge_number])} has "
            f"{counts[edge_number]} clients: must have at most its capacity, "
            f"{scenario.edges.capacity[edge_number]}"
        )
    return edge_of
