"""What a client of the service and the service tell each other: rounds and outcomes as JSON."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from stagewise.decisions import (
    Answer,
    Decision,
    DecisionRecord,
    make_decision,
    numbered_assignment,
    numbered_weights,
)
from stagewise.errors import StagewiseError, shown
from stagewise.fates import Fate
from stagewise.files import json_decoder
from stagewise.outcomes import (
    ClientOutcomes,
    EdgeOutcomes,
    Outcome,
    edge_outcomes,
    expected_outcome,
)
from stagewise.world.checks import finite
from stagewise.world.records import Count
from stagewise.world.rounds import Round, client_number
from stagewise.world.rounds_file import RoundLine, line_of_round, round_from_line
from stagewise.world.scenario import Scenario

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RoundRequest(RoundLine, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a rounds file, and what a policy may be told besides."""

    round: Count | None = None
    """Its number; None is the one after the last."""
    losses: dict[str, float | None] = msgspec.field(default_factory=dict)
    """What `probe` asked for: the loss of the present model by client, null where nobody knows."""
    surcharge: dict[str, float] = msgspec.field(default_factory=dict)
    """What serving costs a client more in this decision, in units of what one client costs."""


class ClientReport(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What became of a client; what is not said went as decided, null is what nobody knows."""

    fate: Fate | UnsetType = UNSET
    samples: Whole | UnsetType = UNSET
    loss_before: float | UnsetType | None = UNSET
    loss_after: float | UnsetType | None = UNSET
    update_norm: float | UnsetType | None = UNSET
    seconds: float | UnsetType | None = UNSET
    joules: float | UnsetType | None = UNSET
    bytes: Whole | UnsetType = UNSET


class EdgeReport(msgspec.Struct, forbid_unknown_fields=True):
    """What became of an edge: the samples behind its model, their divergence, and its fate."""

    data: Whole
    kld: float | None
    """Null is infinite: there are no samples."""
    fate: Fate | None


class OutcomeReport(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a round gave; an empty one says that all went as decided."""

    clients: dict[str, ClientReport] = {}
    edges: dict[str, EdgeReport] = {}
    """Where none are given they follow from the clients."""
    accuracy: float | None = None
    loss: float | None = None


_NUMBERS = ("loss_before", "loss_after", "update_norm", "seconds", "joules")
_WHOLE = ("samples", "bytes")


def request_of(round_: Round, losses: Mapping[str, float]) -> RoundRequest:
    """What a client asks in a round."""
    line = line_of_round(round_)
    ids = round_.scenario.clients.ids
    surcharge = round_.surcharge
    return RoundRequest(
        **{name: getattr(line, name) for name in line.__struct_fields__},
        round=round_.index,
        losses={name: _known(loss) for name, loss in losses.items()},
        surcharge={} if surcharge is None else dict(zip(ids, surcharge.tolist(), strict=True)),
    )


def round_of_request(scenario: Scenario, request: RoundRequest, index: int) -> Round:
    """The round that a request speaks of."""
    round_ = round_from_line(scenario, request, index)
    if not request.surcharge:
        return round_
    surcharge = np.zeros(len(scenario.clients))
    for name, value in request.surcharge.items():
        number = client_number(scenario, name, "surcharge")
        surcharge[number] = finite(f"surcharge[{shown(name)}]", value, 0)
    return round_.surcharged(surcharge)


def line_of_request(request: RoundRequest) -> bytes:
    """The line of a rounds file that says the same, without its line break."""
    fields = {name: getattr(request, name) for name in RoundLine.__struct_fields__}
    line = RoundLine(**fields)
    plain = not (line.cpu_hz or line.links or line.down)
    return msgspec.json.encode(line.online if plain else line)


def losses_of_request(scenario: Scenario, request: RoundRequest) -> dict[int, float]:
    """The losses that a request tells, by the number of the client."""
    return {
        client_number(scenario, name, "losses"): np.nan if loss is None else loss
        for name, loss in request.losses.items()
    }


class RoundWeights(msgspec.Struct, frozen=True):
    """What a decision weighs beside its line, as the service keeps and tells it."""

    edge_weights: list[float] | None = None
    """In the order of the scenario's edges."""
    client_weights: Mapping[str, float] | None = None
    """Of those that serve, by id."""

    @classmethod
    def of(cls, decision: Decision) -> "RoundWeights":
        edges = decision.answer.edge_weights
        named = decision.answer.named_weights(decision.scenario)
        return cls(None if edges is None else edges.tolist(), named.clients)

    @classmethod
    def kept(cls, content: bytes | None) -> "RoundWeights":
        if content is None:
            return cls()
        if content.startswith(b"["):
            return cls(json_decoder(list[float]).decode(content))
        return json_decoder(cls).decode(content)

    def to_keep(self) -> bytes | None:
        """A list where only edges are weighed, as releases that knew nothing else keep and read it."""
        if self.client_weights is not None:
            return msgspec.json.encode(self)
        return None if self.edge_weights is None else msgspec.json.encode(self.edge_weights)


def answer_of_record(scenario: Scenario, record: DecisionRecord, weights: RoundWeights) -> Answer:
    """The answer that a line and the weights beside it speak of."""
    edges = weights.edge_weights
    return Answer(
        numbered_assignment(scenario, record.assignment),
        record.lower_bound,
        None if edges is None else np.array(edges),
        numbered_weights(weights.client_weights, scenario.clients.index, "client"),
    )


def decision_of_record(round_: Round, record: DecisionRecord, weights: RoundWeights) -> Decision:
    """The decision that a line speaks of; its figures are computed again."""
    answer = answer_of_record(round_.scenario, record, weights)
    return make_decision(round_, answer, method=record.method, decision_ms=record.decision_ms)


def report_of(outcome: Outcome) -> OutcomeReport:
    """All that a client knows of what a round gave."""
    scenario, clients, edges = outcome.decision.scenario, outcome.clients, outcome.edges
    columns: dict[str, list[Any]] = {n: getattr(clients, n).tolist() for n in (*_NUMBERS, *_WHOLE)}
    for name in _NUMBERS:
        columns[name] = [_known(value) for value in columns[name]]
    columns["fate"] = list(clients.fate)
    rows = zip(*columns.values(), strict=True)
    names = [scenario.clients.ids[number] for number in clients.client.tolist()]
    told = zip(edges.data.tolist(), edges.kld.tolist(), edges.fate, strict=True)
    return OutcomeReport(
        clients={
            name: ClientReport(**dict(zip(columns, row, strict=True)))
            for name, row in zip(names, rows, strict=True)
        },
        edges={
            name: EdgeReport(data, kld if np.isfinite(kld) else None, fate)
            for name, (data, kld, fate) in zip(scenario.edges.ids, told, strict=True)
        },
        accuracy=outcome.accuracy,
        loss=outcome.loss,
    )


def outcome_of_report(decision: Decision, report: OutcomeReport) -> Outcome:
    """What a report says of a decision."""
    expected = expected_outcome(decision)
    clients = _client_outcomes(decision, expected.clients, report.clients)
    if report.edges:
        edges = _edge_outcomes(decision.scenario, report.edges)
    elif report.clients:
        behind = np.array([fate == "counted" for fate in clients.fate], dtype=np.bool_)
        edges = edge_outcomes(decision, clients, behind)
    else:
        edges = expected.edges
    return Outcome(decision, clients, edges, report.accuracy, report.loss)


def _client_outcomes(
    decision: Decision, expected: ClientOutcomes, reports: Mapping[str, ClientReport]
) -> ClientOutcomes:
    place = {number: row for row, number in enumerate(expected.client.tolist())}
    columns = {name: getattr(expected, name).copy() for name in (*_NUMBERS, *_WHOLE)}
    fate = list(expected.fate)
    for name, report in reports.items():
        row = place.get(client_number(decision.scenario, name, "clients"))
        if row is None:
            raise StagewiseError(
                f"clients[{shown(name)}]: must be a client that was to train in round "
                f"{decision.round.index}"
            )
        for field in (*_NUMBERS, *_WHOLE):
            told = getattr(report, field)
            if told is not UNSET:
                columns[field][row] = np.nan if told is None else told
        if report.fate is not UNSET:
            fate[row] = report.fate
    return ClientOutcomes(client=expected.client, edge=expected.edge, fate=tuple(fate), **columns)


def _edge_outcomes(scenario: Scenario, reports: Mapping[str, EdgeReport]) -> EdgeOutcomes:
    if set(reports) != set(scenario.edges.ids):
        raise StagewiseError(
            f"edges: has {len(reports)} edges: must have none, or every edge of the scenario"
        )
    told = [reports[name] for name in scenario.edges.ids]
    return EdgeOutcomes(
        data=np.array([report.data for report in told], dtype=np.int64),
        kld=np.array([np.inf if report.kld is None else report.kld for report in told]),
        fate=tuple(report.fate for report in told),
    )


def _known(value: float) -> float | None:
    return None if value != value else value
