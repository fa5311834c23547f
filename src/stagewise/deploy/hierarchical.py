"""Design H: an edge is a node of the cloud's SuperLink and has a SuperLink of its own.

The cloud sends each edge one model a round and receives one; updates of clients end at their edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stagewise.deploy.aggregation import model_fault
from stagewise.deploy.channel import (
    IncomingReply,
    MessageChannel,
    OutgoingMessage,
    replies_until,
    roll_call,
)
from stagewise.deploy.edge_rounds import edge_orders, trained_round
from stagewise.deploy.exchange import (
    ClientReport,
    EdgeReport,
    EdgeResult,
    Presence,
    RoundOrder,
    TrainedRound,
)
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.messages import (
    TRAIN,
    EdgeNote,
    EdgeOrder,
    EdgeReply,
    decoded,
    model_bytes,
    model_of,
    pack,
    read,
)
from stagewise.errors import StagewiseError
from stagewise.fates import Fate
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights

MARGIN_S = 3.0
"""What a message may take to an edge and back on a busy machine."""


class Hierarchical:
    """The edges of a scenario at the cloud's SuperLink, which stays the caller's."""

    def __init__(self, scenario: Scenario, channel: MessageChannel) -> None:
        self._scenario, self._channel = scenario, channel
        self._covering = covering_edges(scenario)
        self._before: set[str] = set()

    def roll_call(self, deadline_s: float) -> Presence:
        """The edges that are in touch, and the clients that are in touch with them."""
        present, found_s = roll_call(self._channel, self._before, deadline_s)
        edges = tuple(edge for edge in self._scenario.edges.ids if edge in present)
        self._before = set(edges)
        edges_of: dict[str, tuple[str, ...]] = {}
        answer_s: dict[str, float] = {}
        for edge in edges:
            for client in _clients(present[edge]):
                if edge in self._covering.get(client, ()):
                    edges_of[client] = (*edges_of.get(client, ()), edge)
                    answer_s[client] = min(found_s[edge], answer_s.get(client, deadline_s))
        return Presence(edges_of, answer_s, edges)

    def train_round(self, order: RoundOrder) -> TrainedRound:
        """One model to each edge, one back from each, and their mean (Eq. 3)."""
        began = self._channel.now()
        margin_s = min(MARGIN_S, order.deadline_s / 3)
        orders = edge_orders(self._scenario, order, order.deadline_s - margin_s)
        messages = [OutgoingMessage(o.edge, TRAIN, pack(o, order.weights)) for o in orders]
        message_ids = self._channel.send(messages, order.deadline_s) if messages else []
        deadline = began + order.deadline_s
        arrived = replies_until(self._channel, message_ids, deadline)
        replies = {reply.message_id: reply for reply in arrived}
        edges = [
            judge_edge(self._reply(o.edge, message_id, replies), o, order.weights)
            for o, message_id in zip(orders, message_ids, strict=True)
        ]
        sent = [m.content for m, i in zip(messages, message_ids, strict=True) if i is not None]
        received = [reply.content for reply in replies.values() if reply.content is not None]
        bytes_up, bytes_down = sum(map(model_bytes, received)), sum(map(model_bytes, sent))
        return trained_round(order, edges, bytes_up, bytes_down, self._channel.now() - began)

    def _reply(
        self, edge: str, message_id: str | None, replies: Mapping[str, IncomingReply]
    ) -> IncomingReply:
        """What came of a message to an edge, or why nothing did."""
        if message_id is None:
            return IncomingReply("", None, "lost", "it is not connected")
        if message_id in replies:
            return replies[message_id]
        fate: Fate = "late" if edge in self._channel.present() else "lost"
        return IncomingReply(message_id, None, fate, "no model within the round's deadline")


def _clients(note: str) -> tuple[str, ...]:
    """The clients in touch with an edge, each once, by what it said; none if it said nothing."""
    try:
        return tuple(dict.fromkeys(decoded(note, EdgeNote).clients))
    except StagewiseError:
        return ()


def judge_edge(message: IncomingReply, order: EdgeOrder, like: ModelWeights) -> EdgeResult:
    """Whether an edge's reply fits its order and brings a model in the form of `like`."""
    if message.content is None:
        return _not_counted(order, message.fate, message.reason)
    try:
        reply, model = read(message.content, EdgeReply), model_of(message.content)
    except StagewiseError as error:
        return _not_counted(order, "rejected", str(error))
    reason = _inconsistency(order, reply) or (model_fault(model, like) if reply.data else "")
    if reason:
        return _not_counted(order, "rejected", reason)
    clients = [_plausible(report, order.deadline_s) for report in reply.reports]
    return EdgeResult(EdgeReport.of_model(order.edge, reply.data), model, clients)


def _plausible(report: ClientReport, limit_s: float) -> ClientReport:
    """With times that fit into the round, whatever the edge says: deadlines are learnt from them."""
    times: dict[str, Any] = {"train_s": report.train_s, "round_trip_s": report.round_trip_s}
    known = {name: min(taken, limit_s) for name, taken in times.items() if taken is not None}
    return replace(report, **known)


def _inconsistency(order: EdgeOrder, reply: EdgeReply) -> str:
    """Why an edge's reply does not fit what it was asked; empty if it does."""
    if (reply.round, reply.edge) != (order.round, order.edge):
        return f"answers for round {reply.round} of {reply.edge}"
    expected = Counter(
        (order.edge, client, edge_round)
        for client in order.clients
        for edge_round in range(order.edge_rounds)
    )
    if Counter((r.edge, r.client, r.edge_round) for r in reply.reports) != expected:
        return "its reports are not one for each client and edge round"
    counted: Counter[int] = Counter()
    for report in reply.reports:
        if report.fate == "counted":
            counted[report.edge_round] += order.clients[report.client]
    data = counted[max(counted)] if counted else 0
    return "" if reply.data == data else f"data = {reply.data}: its reports make it {data}"


def _not_counted(order: EdgeOrder, fate: Fate, reason: str) -> EdgeResult:
    """The result of an edge whose model does not count: no update of its clients does."""
    clients = [
        ClientReport(client, order.edge, edge_round, "lost", f"{order.edge}: {reason}")
        for edge_round in range(order.edge_rounds)
        for client in order.clients
    ]
    return EdgeResult(EdgeReport(order.edge, fate, reason, 0), None, clients)
