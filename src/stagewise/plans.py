"""A plan: the long-term clients of every edge; and its file, `stagewise-plan/1`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from stagewise.decisions import named_assignment, numbered_assignment
from stagewise.errors import StagewiseError, shown
from stagewise.files import STANDARD_STREAM, decode_json, errors_at, read_bytes, write_bytes
from stagewise.pool.library import Library
from stagewise.pool.library_file import library_name, load_library, save_library
from stagewise.problem.evaluation import continuity
from stagewise.problem.risk import RiskMeasure
from stagewise.problem.statement import edge_risks, p1, plan_violations
from stagewise.world.checks import Frozen, frozen_array, whole
from stagewise.world.costs import UNASSIGNED
from stagewise.world.records import Count
from stagewise.world.scenario import FloatArray, IntArray, Scenario

FORMAT: Literal["stagewise-plan/1"] = "stagewise-plan/1"


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
class Plan(Frozen):
    """The long-term clients, and what they would cost and risk.

    `stagewise.plan` and `load_plan` make plans; users read them and hand them to `decide`.

    Parameters
    ----------
    scenario : Scenario
        The system it was made for.
    method : str
        How it was made.
    seed : int
        Of its random draws.
    edge_of : array of int, shape (clients,)
        The long-term edge of each client, or -1.
    objective : float
        lambda_t T + lambda_e E - lambda_c C with everybody online.
    delay_s, energy_j, continuity : float
        T, E and C.
    kld_risk, data_risk : array of float, shape (edges,)
        How likely each edge is to break (9a) and (9b) in a round.
    violations : tuple of str
        A line for each limit that is broken.
    plan_ms : float
        How long it took to make, in milliseconds.
    library : Library, optional
        The clusters that Plan B picks from, for a plan by `pool`.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> plan = stagewise.plan(scenario, method="local-search")
    >>> plan.method, plan.edge_of.shape, plan.kld_risk.shape
    ('local-search', (30,), (2,))
    """

    scenario: Scenario
    method: str
    seed: int
    edge_of: IntArray
    objective: float
    delay_s: float
    energy_j: float
    continuity: float
    kld_risk: FloatArray
    data_risk: FloatArray
    violations: tuple[str, ...]
    plan_ms: float
    library: Library | None = None

    def __post_init__(self) -> None:
        self._set("edge_of", frozen_array("edge_of", self.edge_of, np.int64))
        for name in ("kld_risk", "data_risk"):
            self._set(name, frozen_array(name, getattr(self, name), np.float64))

    @property
    def feasible(self) -> bool:
        """Whether every limit is kept, those of risk included."""
        return not self.violations

    @cached_property
    def assignment(self) -> dict[str, str]:
        """The edge of every long-term client, by id."""
        return named_assignment(self.scenario, self.edge_of)

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
            method=self.method,
            objective=self.objective,
            delay_s=self.delay_s,
            energy_j=self.energy_j,
            continuity=self.continuity,
            plan_ms=self.plan_ms,
            format=FORMAT,
            scenario_sha256=self.scenario.sha256,
            seed=self.seed,
            assignment=self.assignment,
            edges=[PlanEdgeRecord(*column) for column in columns],
            feasible=self.feasible,
            violations=list(self.violations),
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
    """Write a plan file and, beside it, its library; to standard output goes the plan alone.

    Parameters
    ----------
    plan : Plan
        The plan.
    path : str or Path
        The file; `-` is standard output.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.save_plan(stagewise.plan(scenario, method="local-search"), "plan.json")
    """
    name = None
    if plan.library is not None and str(path) != STANDARD_STREAM:
        name = library_name(path)
        save_library(plan.library, Path(path).with_name(name))
    write_bytes(path, encode_plan(plan, name))


def encode_plan(plan: Plan, library: str | None) -> bytes:
    """The content of a plan file; `library` is the name of its side file."""
    return msgspec.json.format(msgspec.json.encode(plan.record(library)), indent=1) + b"\n"


def load_plan_record(path: str | Path) -> PlanRecord:
    """Read a plan file as it is: what it claims is not checked against anything."""
    return decode_json(read_bytes(path), PlanRecord, str(path))


def load_plan(path: str | Path, scenario: Scenario) -> Plan:
    """Read a plan made for `scenario`; an unknown id, a missing link or a full edge is an error.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input.
    scenario : Scenario
        The system it was made for, known by its SHA-256.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.save_plan(stagewise.plan(scenario, method="local-search"), "plan.json")
    >>> stagewise.load_plan("plan.json", scenario).method
    'local-search'
    """
    record = load_plan_record(path)
    return plan_from_record(record, scenario, path, _library(record, scenario, path))


def plan_from_record(
    record: PlanRecord, scenario: Scenario, path: str | Path, library: Library | None
) -> Plan:
    """The plan that a file holds; errors call it `path`."""
    if record.scenario_sha256 != scenario.sha256:
        raise StagewiseError(
            f"{path}: scenario_sha256 = {shown(record.scenario_sha256)}: the plan must be made for "
            f"this scenario, whose SHA-256 is {scenario.sha256}"
        )
    with errors_at(path):
        if tuple(edge.id for edge in record.edges) != scenario.edges.ids:
            raise StagewiseError("edges: must be the scenario's edges in their order")
        return Plan(
            method=record.method,
            objective=record.objective,
            delay_s=record.delay_s,
            energy_j=record.energy_j,
            continuity=record.continuity,
            plan_ms=record.plan_ms,
            scenario=scenario,
            seed=whole("seed", record.seed, 0),
            edge_of=_edge_of(record.assignment, scenario),
            kld_risk=np.array([edge.kld_risk for edge in record.edges]),
            data_risk=np.array([edge.data_risk for edge in record.edges]),
            violations=tuple(record.violations),
            library=library,
        )


def _library(record: PlanRecord, scenario: Scenario, path: str | Path) -> Library | None:
    if record.library is None:
        return None
    beside = record.library != "" and Path(record.library).name == record.library
    if not beside or str(path) == STANDARD_STREAM:
        raise StagewiseError(
            f"{path}: library = {shown(record.library)}: must be the name of a file beside the plan"
        )
    return load_library(Path(path).with_name(record.library), scenario)


def _edge_of(assignment: dict[str, str], scenario: Scenario) -> IntArray:
    edge_of = numbered_assignment(scenario, assignment)
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    linked = scenario.links.find(serving, edge_of[serving]) >= 0
    if not linked.all():
        name = scenario.clients.ids[serving[int(np.argmin(linked))]]
        raise StagewiseError(
            f"assignment[{shown(name)}] = {shown(assignment[name])}: must be an edge that covers the "
            f"client"
        )
    edges = scenario.edges
    counts = np.bincount(edge_of[serving], minlength=len(edges))
    if (counts > edges.capacity).any():
        full = int(np.argmax(counts > edges.capacity))
        raise StagewiseError(
            f"assignment: edge {shown(edges.ids[full])} has {counts[full]} clients: must have at most "
            f"its capacity, {edges.capacity[full]}"
        )
    return edge_of
