"""A decision: what is to happen in one round; and its file, `stagewise-decision/1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from stagewise.files import decode_json_lines, read_bytes, writing
from stagewise.problem.evaluation import Evaluation, evaluate, round_violations
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import LARGEST_COUNT, IntArray, Scenario

FORMAT: Literal["stagewise-decision/1"] = "stagewise-decision/1"
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
DataSum = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class EdgeRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What one edge gets in a round."""

    id: str
    clients: Count
    data: DataSum
    kld: float | None
    """None for an edge without clients."""


class DecisionRecord(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a decisions file."""

    format: Literal["stagewise-decision/1"]
    round: Count
    method: str
    assignment: dict[str, str]
    objective: float
    delay_s: float
    energy_j: float
    edges: list[EdgeRecord]
    feasible: bool
    violations: list[str]
    decision_ms: float
    lower_bound: float | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """Who trains where in one round, with every figure computed from the scenario."""

    scenario: Scenario
    round: int
    method: str
    edge_of: IntArray
    """The edge of each client, or -1; shape (clients,)."""
    evaluation: Evaluation
    violations: tuple[str, ...]
    decision_ms: float
    lower_bound: float | None = None

    @property
    def objective(self) -> float:
        """lambda_t T + lambda_e E."""
        return self.evaluation.cost

    @property
    def delay_s(self) -> float:
        return self.evaluation.delay_s

    @property
    def energy_j(self) -> float:
        return self.evaluation.energy_j

    @property
    def feasible(self) -> bool:
        return not self.violations

    @cached_property
    def assignment(self) -> dict[str, str]:
        """The edge of every client that trains, by id."""
        return named_assignment(self.scenario, self.edge_of)

    def record(self) -> DecisionRecord:
        """The decision as it stands in a file."""
        evaluation = self.evaluation
        columns = zip(
            self.scenario.edges.ids,
            evaluation.clients.tolist(),
            evaluation.data.tolist(),
            evaluation.kld.tolist(),
            strict=True,
        )
        return DecisionRecord(
            format=FORMAT,
            round=self.round,
            method=self.method,
            assignment=self.assignment,
            objective=self.objective,
            delay_s=self.delay_s,
            energy_j=self.energy_j,
            edges=[
                EdgeRecord(name, clients, data, kld if clients else None)
                for name, clients, data, kld in columns
            ],
            feasible=self.feasible,
            violations=list(self.violations),
            decision_ms=self.decision_ms,
            lower_bound=self.lower_bound,
        )

    def __repr__(self) -> str:
        return (
            f"Decision(round={self.round}, method={self.method!r}, clients={len(self.assignment)}, "
            f"objective={self.objective:.4g}, feasible={self.feasible})"
        )


def make_decision(
    round_: Round,
    edge_of: IntArray,
    *,
    index: int,
    method: str,
    decision_ms: float,
    lower_bound: float | None = None,
) -> Decision:
    """The decision to use `edge_of`; its figures are computed here, whoever proposed it."""
    evaluation = evaluate(round_.scenario, round_.costs, edge_of)
    return Decision(
        scenario=round_.scenario,
        round=index,
        method=method,
        edge_of=edge_of,
        evaluation=evaluation,
        violations=tuple(round_violations(round_.scenario, evaluation)),
        decision_ms=decision_ms,
        lower_bound=lower_bound,
    )


def named_assignment(scenario: Scenario, edge_of: IntArray) -> dict[str, str]:
    """An assignment by ids."""
    clients, edges = scenario.clients.ids, scenario.edges.ids
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    return {
        clients[client]: edges[edge]
        for client, edge in zip(serving.tolist(), edge_of[serving].tolist(), strict=True)
    }


def save_decisions(decisions: Sequence[Decision], path: str | Path) -> None:
    """Write a decisions file, a line for each."""
    encoder = msgspec.json.Encoder()
    with writing(path) as stream:
        for decision in decisions:
            stream.write(encoder.encode(decision.record()) + b"\n")


def load_decision_records(path: str | Path) -> list[DecisionRecord]:
    """Read a decisions file as it is: what it claims is not checked against anything."""
    records: list[Any] = decode_json_lines(read_bytes(path), DecisionRecord, str(path))
    return records
