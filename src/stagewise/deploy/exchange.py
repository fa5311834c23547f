"""What a server asks of edges and clients, and what becomes of it: one vocabulary for all transports.

A round has a roll call (who is online), orders (train from this model) and replies, each judged against
the model that was sent. An update is identified by (round, edge round, edge, client) and ends in exactly
one fate; it is counted at most once, whatever arrives twice. Imports neither Flower nor PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec

from stagewise.fates import FATES, Fate
from stagewise.robust.labels import BiasRise
from stagewise.robust.safeguards import Safeguards, UpdateFigures

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""Of one model: the sums of a round stay far from what 64 bits can hold."""
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Norm = Annotated[float, msgspec.Meta(ge=0)]
ClientWeight = Annotated[float, msgspec.Meta(gt=0)]

NO_UPDATE = "no update of its clients was counted"


@dataclass(frozen=True)
class Presence:
    """Who answered a roll call: the edges that reach each client, and how long the answer took."""

    edges_of: Mapping[str, tuple[str, ...]]
    """Client id -> ids of the edges through which it answered; without an edge layer, its links."""
    answer_s: Mapping[str, float]
    edges: tuple[str, ...]
    """Edges that answered."""


@dataclass(frozen=True)
class RoundOrder:
    """What one round asks for."""

    round: int
    weights: ModelWeights
    groups: Mapping[str, tuple[str, ...]]
    """Edge id -> client ids, in a fixed order."""
    deadline_s: float
    """From the moment of sending; what comes later is dropped and counted."""
    edge_weights: Mapping[str, float] | None = None
    """Edge id -> what its data is multiplied by in Eq. 3; None: all by 1."""
    safeguards: Safeguards = field(default=Safeguards())
    """How models are combined, and which are left out."""
    client_weights: Mapping[str, float] | None = None
    """Client id -> what its data is multiplied by in Eq. 2, of everybody in `groups`; None: all by 1."""


@dataclass(frozen=True, eq=False)
class JudgedReply:
    """A reply to an order, or its absence; with the model it brought if it counts."""

    fate: Fate
    reason: str = ""
    """Empty if counted."""
    weights: ModelWeights = field(default_factory=dict)
    """Empty unless counted."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it beside that, by the fields of `ClientReport`."""


@dataclass(frozen=True)
class ClientReport:
    """What became of one update that was asked for."""

    client: str
    edge: str
    edge_round: Count
    fate: Fate
    reason: str
    """Empty if counted."""
    train_s: Seconds | None = None
    """How long training took, as the client says; so are the losses."""
    round_trip_s: Seconds | None = None
    bytes_up: Bytes = 0
    bytes_down: Bytes = 0
    loss_before: float | None = None
    """Of the first batch of this edge round; None where it is not known, as for the next two."""
    loss_after: float | None = None
    """Of the last batch of this edge round."""
    update_norm: Norm | None = None
    """The Euclidean norm of the update, as its receiver finds it; so are the next two."""
    bias_rise: Norm | None = None
    """By how much it raises the biases of the outputs, as a multiple of what training can."""
    foreign_rise: Norm | None = None
    """The share of that in labels that the client has no samples of."""


@dataclass(frozen=True)
class EdgeReport:
    """What became of an edge's model in a round."""

    edge: str
    fate: Fate
    reason: str
    data: int
    """Samples behind its model, 0 if it has none."""
    update_norm: Norm | None = field(default=None, compare=False)
    """How far its model is from the cloud's; None where it has none."""

    @classmethod
    def of_model(cls, edge: str, data: int) -> EdgeReport:
        """The report of an edge that answered, with a model of `data` samples or without one."""
        return cls(edge, "counted", "", data) if data else cls(edge, "lost", NO_UPDATE, 0)


@dataclass(frozen=True, eq=False)
class EdgeResult:
    """What became of an edge's model and of its clients' updates; the model if there is one."""

    report: EdgeReport
    weights: ModelWeights | None
    clients: Sequence[ClientReport]

    def refused(self, reason: str) -> EdgeResult:
        """The result where the edge's model does not count: no update of its clients does."""
        lost = f"{self.report.edge}: {reason}"
        clients = [
            replace(report, fate="lost", reason=lost) if report.fate == "counted" else report
            for report in self.clients
        ]
        report = replace(self.report, fate="rejected", reason=reason, data=0)
        return EdgeResult(report, None, clients)


@dataclass(frozen=True)
class TrainedRound:
    """A round's model, and the fate of everything that was asked for."""

    weights: ModelWeights
    """The order's weights where nothing was counted."""
    clients: tuple[ClientReport, ...]
    edges: tuple[EdgeReport, ...]
    cloud_bytes_up: int
    """Model payload bytes that crossed the cloud's links."""
    cloud_bytes_down: int
    delay_s: float


class Transport(Protocol):
    """Carries orders to edges and clients, and their models back."""

    def roll_call(self, deadline_s: float) -> Presence:
        """Who answers within `deadline_s` seconds."""
        ...

    def train_round(self, order: RoundOrder) -> TrainedRound:
        """One round; failures of clients and edges are fates in the result, not errors."""
        ...


def update_figures(report: ClientReport) -> UpdateFigures | None:
    """What an update is judged by; None for one that did not arrive as a model."""
    if report.update_norm is None:
        return None
    if report.bias_rise is None or report.foreign_rise is None:
        return UpdateFigures(report.update_norm)
    return UpdateFigures(report.update_norm, BiasRise(report.bias_rise, report.foreign_rise))


def count_fates(fates: Iterable[Fate]) -> dict[Fate, int]:
    """How many ended in each fate."""
    count = Counter(fates)
    return {fate: count[fate] for fate in FATES}
