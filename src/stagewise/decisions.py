"""A policy's answer, the decision that follows from it, and its file, `stagewise-decision/1`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.files import decode_json_lines, errors_at, read_bytes, write_json_lines
from stagewise.problem.evaluation import Evaluation, evaluate, round_violations
from stagewise.world.checks import Frozen, Rule, finite, frozen_array
from stagewise.world.costs import UNASSIGNED
from stagewise.world.records import Count
from stagewise.world.rounds import Round, client_number
from stagewise.world.scenario import LARGEST_COUNT, FloatArray, IntArray, Scenario

FORMAT: Literal["stagewise-decision/1"] = "stagewise-decision/1"
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


_AS_RECORDED = (
    *("method", "assignment", "objective", "delay_s", "energy_j"),
    *("feasible", "decision_ms", "lower_bound"),
)


@dataclass(frozen=True, eq=False)
class Answer(Frozen):
    """What a policy answers: who serves where. Checked and frozen.

    Parameters
    ----------
    edge_of : array of int, shape (clients,)
        The edge of each client, or -1 for one that does not serve.
    lower_bound : float, optional
        A proven bound: no assignment within the limits costs less.
    edge_weights : array of float, shape (edges,), optional
        What the data of each edge is multiplied by in the cloud's average (Eq. 3).
    client_weights : array of float, shape (clients,), optional
        What the data of each client is multiplied by in its edge's average (Eq. 2); above 0.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> stagewise.Answer(np.array([0, -1, 1])).edge_of
    array([ 0, -1,  1])
    """

    edge_of: IntArray
    lower_bound: float | None = None
    edge_weights: FloatArray | None = None
    client_weights: FloatArray | None = None

    def __post_init__(self) -> None:
        try:
            given = np.asarray(self.edge_of)
        except Exception:  # whatever the conversion of an unknown object may raise
            given = np.array(None)
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise StagewiseError(
                f"answer.edge_of = {shown(self.edge_of)}: must be an array of whole numbers, one "
                f"for each client"
            )
        edge_of = frozen_array("answer.edge_of", given, np.int64)
        wrong = np.flatnonzero((edge_of < UNASSIGNED) | (edge_of > LARGEST_COUNT))
        if len(wrong):
            raise StagewiseError(
                f"answer.edge_of[{wrong[0]}] = {edge_of[wrong[0]]}: must be the number of an edge, "
                f"or {UNASSIGNED}"
            )
        self._set("edge_of", edge_of)
        if self.lower_bound is not None:
            bound = finite("answer.lower_bound", self.lower_bound, -math.inf, open_below=True)
            self._set("lower_bound", float(bound))
        if self.edge_weights is not None:
            weights = Rule().array("answer.edge_weights", self.edge_weights, things="edges")
            self._set("edge_weights", weights)
        if self.client_weights is not None:
            above_0 = Rule(0, open_below=True)
            weights = above_0.array("answer.client_weights", self.client_weights, things="clients")
            self._set("client_weights", weights)

    def named_weights(self, scenario: Scenario) -> "NamedWeights":
        """What edges and the clients that serve count for, by ids."""
        edges, clients = self.edge_weights, self.client_weights
        names, serving = scenario.clients.ids, np.flatnonzero(self.edge_of != UNASSIGNED)
        return NamedWeights(
            None if edges is None else dict(zip(scenario.edges.ids, edges.tolist(), strict=True)),
            None if clients is None else {names[i]: float(clients[i]) for i in serving.tolist()},
        )


class NamedWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an answer weighs, by ids: a decision's line in a file says nothing of it."""

    edges: Mapping[str, float] | None = None
    """None: every edge by its data."""
    clients: Mapping[str, float] | None = None
    """Of those that serve. None: every client by its data."""

    def __bool__(self) -> bool:
        return self.edges is not None or self.clients is not None

    def arrays(self, scenario: Scenario) -> tuple[FloatArray | None, FloatArray | None]:
        """`edge_weights` and `client_weights` of an answer for `scenario`; 1 for what is not named."""
        return (
            numbered_weights(self.edges, scenario.edges.index, "edge"),
            numbered_weights(self.clients, scenario.clients.index, "client"),
        )


def numbered_weights(
    given: Mapping[str, float] | None, index: Mapping[str, int], thing: str
) -> FloatArray | None:
    """Weights by number from those by id; 1 for what is not named, None where nothing is weighed."""
    if given is None:
        return None
    weights = np.ones(len(index))
    for name, weight in given.items():
        if name not in index:
            raise StagewiseError(f"weights of {thing}s: {shown(name)}: must be the id of one")
        weights[index[name]] = weight
    return weights


@dataclass(frozen=True, eq=False)
class Decision:
    """Who trains where in one round, with every figure computed from the scenario.

    `decide`, `solve` and `run_rounds` make decisions; users read them.

    Parameters
    ----------
    round : Round
        The round that was decided.
    method : str
        The name of the policy.
    answer : Answer
        What the policy answered.
    evaluation : Evaluation
        Clients, data and divergence of each edge; delay, energy and cost of the round.
    violations : tuple of str
        A line for each limit that is broken.
    decision_ms : float
        How long the policy took, in milliseconds.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1, seed=1)
    >>> [decision] = stagewise.solve(scenario, rounds, "c2e-assoc-only")
    >>> decision.method, decision.round.index, len(decision.edge_of)
    ('c2e-assoc-only', 0, 30)
    """

    round: Round
    method: str
    answer: Answer
    evaluation: Evaluation
    violations: tuple[str, ...]
    decision_ms: float

    @property
    def scenario(self) -> Scenario:
        """The system of the round."""
        return self.round.scenario

    @property
    def edge_of(self) -> IntArray:
        """The edge of each client, or -1; shape (clients,)."""
        return self.answer.edge_of

    @property
    def lower_bound(self) -> float | None:
        """A proven bound on what a feasible assignment costs, where the policy gives one."""
        return self.answer.lower_bound

    @property
    def objective(self) -> float:
        """lambda_t T + lambda_e E."""
        return self.evaluation.cost

    @property
    def delay_s(self) -> float:
        """How long the slowest edge takes, in seconds."""
        return self.evaluation.delay_s

    @property
    def energy_j(self) -> float:
        """What all clients and edges spend, in joules."""
        return self.evaluation.energy_j

    @property
    def feasible(self) -> bool:
        """Whether every limit is kept."""
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
            **{name: getattr(self, name) for name in _AS_RECORDED},
            format=FORMAT,
            round=self.round.index,
            edges=[
                EdgeRecord(name, clients, data, kld if clients else None)
                for name, clients, data, kld in columns
            ],
            violations=list(self.violations),
        )

    def __repr__(self) -> str:
        return (
            f"Decision(round={self.round.index}, method={self.method!r}, "
            f"clients={len(self.assignment)}, objective={self.objective:.4g}, "
            f"feasible={self.feasible})"
        )


def make_decision(round_: Round, answer: Answer, *, method: str, decision_ms: float) -> Decision:
    """The decision to do as `answer` says; an answer that cannot be carried out is an error.

    Every figure is computed here, whoever answered.
    """
    require_contract(round_, answer, method)
    evaluation = evaluate(round_, answer.edge_of)
    violations = tuple(round_violations(round_.scenario, evaluation))
    return Decision(round_, method, answer, evaluation, violations, decision_ms)


def require_contract(round_: Round, answer: Any, method: str) -> None:
    """Raise an error if the answer of `method` cannot be carried out."""
    broken = contract_violation(round_, answer)
    if broken is not None:
        raise StagewiseError(f"method {shown(method)}, round {round_.index}: {broken}")


def contract_violation(round_: Round, answer: Any) -> str | None:
    """What is wrong with a policy's answer, or None: the rules that hold whatever the policy."""
    if not isinstance(answer, Answer):
        return f"the answer must be a stagewise.Answer, not {type(answer).__name__}"
    scenario, edge_of = round_.scenario, answer.edge_of
    clients, edges = scenario.clients.ids, scenario.edges.ids
    if edge_of.shape != (len(clients),):
        return f"the answer must have shape ({len(clients)},), not {edge_of.shape}"
    if answer.edge_weights is not None and answer.edge_weights.shape != (len(edges),):
        return f"edge_weights must have shape ({len(edges)},), not {answer.edge_weights.shape}"
    if answer.client_weights is not None and answer.client_weights.shape != (len(clients),):
        return (
            f"client_weights must have shape ({len(clients)},), not {answer.client_weights.shape}"
        )
    if edge_of.max(initial=UNASSIGNED) >= len(edges):
        first = int(np.argmax(edge_of >= len(edges)))
        return f"client {clients[first]!r} is given edge {edge_of[first]}, which does not exist"
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    offline = ~round_.online[serving]
    if offline.any():
        return f"client {clients[serving[int(np.argmax(offline))]]!r} serves but is offline"
    link = scenario.links.find(serving, edge_of[serving])
    usable = np.append(round_.usable, False)[link]  # -1, no link, is not usable
    if not usable.all():
        place = int(np.argmin(usable))
        what = "has no link to" if link[place] < 0 else "has a link down to"
        first = int(serving[place])
        return f"client {clients[first]!r} {what} edge {edges[edge_of[first]]!r}"
    count = np.bincount(edge_of[serving], minlength=len(edges))
    over = count > scenario.edges.capacity
    if over.any():
        first = int(np.argmax(over))
        capacity = scenario.edges.capacity[first]
        return f"edge {edges[first]!r} has {count[first]} clients, above its capacity {capacity}"
    return None


def named_assignment(scenario: Scenario, edge_of: IntArray) -> dict[str, str]:
    """An assignment by ids; `numbered_assignment` is the way back."""
    clients, edges = scenario.clients.ids, scenario.edges.ids
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    return {
        clients[client]: edges[edge]
        for client, edge in zip(serving.tolist(), edge_of[serving].tolist(), strict=True)
    }


def numbered_assignment(scenario: Scenario, assignment: Mapping[str, str]) -> IntArray:
    """The edge of each client, or -1, from an assignment by ids."""
    edge_of = np.full(len(scenario.clients), UNASSIGNED, dtype=np.int64)
    for client, edge in assignment.items():
        number = client_number(scenario, client, "assignment")
        if edge not in scenario.edges.index:
            raise StagewiseError(
                f"assignment[{shown(client)}] = {shown(edge)}: must be the id of an edge"
            )
        edge_of[number] = scenario.edges.index[edge]
    return edge_of


def save_decisions(decisions: Sequence[Decision], path: str | Path) -> None:
    """Write a decisions file, a line for each.

    Parameters
    ----------
    decisions : sequence of Decision
        In the order of their rounds.
    path : str or Path
        The file; `-` is standard output.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> stagewise.save_decisions(stagewise.solve(scenario, rounds, "fedcs"), "decisions.jsonl")
    """
    write_json_lines(path, (decision.record() for decision in decisions))


def load_decision_records(path: str | Path) -> list[DecisionRecord]:
    """Read a decisions file as it is: what it claims is not checked against anything."""
    records: list[Any] = decode_json_lines(read_bytes(path), DecisionRecord, str(path))
    return records


def load_decisions(path: str | Path, rounds: Iterable[Round]) -> list[Decision]:
    """Read a decisions file, made in `rounds`; every figure is computed again.

    Parameters
    ----------
    path : str or Path
        The file; `-` is standard input.
    rounds : iterable of Round
        The rounds it was made for.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> stagewise.save_decisions(stagewise.solve(scenario, rounds, "fedcs"), "decisions.jsonl")
    >>> [decision.method for decision in stagewise.load_decisions("decisions.jsonl", rounds)]
    ['fedcs', 'fedcs']
    """
    known = {round_.index: round_ for round_ in rounds}
    decisions = []
    for record in load_decision_records(path):
        if record.round not in known:
            raise StagewiseError(
                f"{path}: round = {record.round}: must be one of the {len(known)} rounds"
            )
        round_ = known[record.round]
        with errors_at(f"{path}: round {record.round}"):
            edge_of = numbered_assignment(round_.scenario, record.assignment)
            answer = Answer(edge_of, record.lower_bound)
            decisions.append(
                make_decision(round_, answer, method=record.method, decision_ms=record.decision_ms)
            )
    return decisions
