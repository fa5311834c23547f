"""How the cloud's loop reaches edges and clients, whoever carries the messages.

An update is identified by (round, edge round, edge, client) and ends in exactly one fate; it is
counted at most once, whatever arrives twice. PyTorch is not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from stagewise.training import Weights

Fate = Literal["counted", "late", "rejected", "lost"]
"""Every update asked for ends in exactly one of these.

Counted: it is in its edge's mean. Late: its deadline passed without it; should it still come, it is
dropped. Rejected: it came, and is no model of the expected form, or the client could not train. Lost: it
is known not to come, or the model of its edge did not count.
"""

NO_UPDATE = "no update of its clients was counted"


@dataclass(frozen=True)
class Presence:
    """Who answered: the edges that reach each client, and how long the answer took."""

    edges_of: Mapping[str, tuple[str, ...]]
    """Client id -> ids of the edges through which it answered; without an edge layer, its links."""
    answer_s: Mapping[str, float]
    edges: tuple[str, ...]
    """Edges that answered."""


@dataclass(frozen=True)
class Order:
    """What one round asks for."""

    round: int
    weights: Weights
    groups: Mapping[str, tuple[str, ...]]
    """Edge id -> client ids, in a fixed order."""
    deadline_s: float
    """From the moment of sending; what comes later is dropped and counted."""


@dataclass(frozen=True)
class ClientReport:
    """What became of one update that was asked for."""

    client: str
    edge: str
    edge_round: int
    fate: Fate
    reason: str
    """Empty if counted."""
    train_s: float | None
    round_trip_s: float | None
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True)
class EdgeReport:
    """What became of an edge's model in a round."""

    edge: str
    fate: Fate
    reason: str
    data: int
    """Samples behind its model, 0 if it has none."""


@dataclass(frozen=True)
class Outcome:
    """A round's model, and the fate of everything that was asked for."""

    weights: Weights
    """The order's weights where nothing was counted."""
    clients: tuple[ClientReport, ...]
    edges: tuple[EdgeReport, ...]
    cloud_bytes_up: int
    """Model payload bytes that crossed the cloud's links."""
    cloud_bytes_down: int
    delay_s: float


class Transport(Protocol):
    """Carries orders to edges and clients, and their models back."""

    def who_is_there(self, deadline_s: float) -> Presence:
        """Who answers within `deadline_s` seconds."""
        ...

    def train_round(self, order: Order) -> Outcome:
        """One round; failures of clients and edges are fates in the outcome, not errors."""
        ...
