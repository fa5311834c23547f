"""The edge rounds of a round (Eqs. 1 and 2): who was asked, what came, and what became of it.

The same code runs in the cloud for all edges (design F) and at every edge for itself (design H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flwr.app import RecordDict

from stagewise.deploy.aggregation import cloud_model, mean_model, model_fault, update_norm
from stagewise.deploy.channel import PAUSE_S, IncomingReply, MessageChannel, OutgoingMessage
from stagewise.deploy.exchange import (
    ClientReport,
    EdgeReport,
    JudgedReply,
    RoundOrder,
    TrainedRound,
)
from stagewise.deploy.messages import (
    LONGEST_REASON,
    TRAIN,
    ClientOrder,
    ClientReply,
    EdgeOrder,
    model_bytes,
    model_of,
    pack,
    read,
)
from stagewise.errors import StagewiseError, one_line, shown
from stagewise.fates import Fate
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights


def edge_orders(scenario: Scenario, order: RoundOrder, deadline_s: float) -> list[EdgeOrder]:
    """What each edge with clients is to do, with the samples that the scenario says they have."""
    index, data = scenario.clients.index, scenario.clients.data
    return [
        EdgeOrder(
            round=order.round,
            edge=edge,
            clients={client: int(data[index[client]]) for client in members},
            edge_rounds=scenario.edge_rounds,
            deadline_s=deadline_s,
        )
        for edge, members in order.groups.items()
    ]


@dataclass(frozen=True, eq=False)
class EdgeResult:
    """What became of an edge's model and of its clients' updates; the model if there is one."""

    report: EdgeReport
    weights: ModelWeights | None
    clients: Sequence[ClientReport]


def train_edges(
    channel: MessageChannel, orders: Sequence[EdgeOrder], weights: ModelWeights
) -> list[EdgeResult]:
    """Take every edge through its edge rounds; each goes on as soon as its own clients answered.

    An edge round ends when all have answered or its share of the time that is left has passed.
    """
    began = channel.now()
    edges = [_EdgeTraining(order, weights, channel, began) for order in orders]
    while [edge for edge in edges if not edge.advance(channel.now())]:
        replies, now = channel.receive(), channel.now()
        for reply in replies:
            for edge in edges:
                edge.take(reply, now)
        if not replies:
            channel.wait(PAUSE_S)
    return [edge.result() for edge in edges]


def trained_round(
    order: RoundOrder, edges: Sequence[EdgeResult], bytes_up: int, bytes_down: int, delay_s: float
) -> TrainedRound:
    """A round from what became of its edges: the mean of their models (Eq. 3), and all reports."""
    models = ((edge.report.edge, edge.weights, edge.report.data) for edge in edges)
    return TrainedRound(
        cloud_model(order.weights, models, order.edge_weights),
        tuple(report for edge in edges for report in edge.clients),
        tuple(edge.report for edge in edges),
        bytes_up,
        bytes_down,
        delay_s,
    )


class _EdgeTraining:
    """One edge's round as it goes on; `weights` is its model, of `data` samples if any counted."""

    def __init__(
        self, order: EdgeOrder, weights: ModelWeights, channel: MessageChannel, began: float
    ) -> None:
        self.order, self.weights, self.data = order, weights, 0
        self.reports: list[ClientReport] = []
        self._channel, self._deadline = channel, began + order.deadline_s
        self._edge_round = -1
        self._began = self._ends = 0.0  # of the edge round
        self._pending: dict[str, ClientReport] = {}  # by message: whose fate is not known yet
        self._models: dict[str, ModelWeights] = {}

    def advance(self, now: float) -> bool:
        """Close an edge round that is over and begin the next; true when there is none left."""
        while not self._pending or now >= self._ends:
            self._close()
            if self._edge_round + 1 >= self.order.edge_rounds:
                return True
            self._edge_round += 1
            self._begin(now)
        return False

    def result(self) -> EdgeResult:
        """What became of it, with the reports by edge round and in the order of the clients."""
        place = {client: number for number, client in enumerate(self.order.clients)}
        self.reports.sort(key=lambda report: (report.edge_round, place[report.client]))
        report = EdgeReport.of_model(self.order.edge, self.data)
        return EdgeResult(report, self.weights if self.data else None, self.reports)

    def take(self, reply: IncomingReply, now: float) -> None:
        """Count or refuse a reply; one that nobody waits for any more is dropped."""
        asked = self._pending.pop(reply.message_id, None)
        if asked is None:
            return
        round_trip_s = now - self._began
        if now >= self._ends:
            self._report(asked, "late", f"came after {round_trip_s:.1f} s")
        elif reply.content is None:
            self._report(asked, reply.fate, reply.reason)
        else:
            judged = judge_update(reply.content, asked.client, self._client_order(), self.weights)
            if judged.fate == "counted":
                self._models[asked.client] = judged.weights
            known = {"round_trip_s": round_trip_s, **judged.figures}
            if "train_s" in known:  # the client's word is taken for no more than it can be
                known["train_s"] = min(known["train_s"], round_trip_s)
            size = model_bytes(reply.content)
            self._report(asked, judged.fate, judged.reason, bytes_up=size, **known)

    def _begin(self, now: float) -> None:
        left = self.order.edge_rounds - self._edge_round
        self._began, self._ends = now, now + max(self._deadline - now, 0.0) / left
        if not self.order.clients:
            return
        content = pack(self._client_order(), self.weights)
        messages = [OutgoingMessage(client, TRAIN, content) for client in self.order.clients]
        # A node that comes back later must not train for a round that is over.
        message_ids = self._channel.send(messages, max(self._ends - now, 0.1))
        for message, message_id in zip(messages, message_ids, strict=True):
            asked = ClientReport(message.receiver, self.order.edge, self._edge_round, "lost", "")
            if message_id is None:
                self._report(asked, "lost", "it is not connected")
            else:
                size = model_bytes(message.content)
                self._pending[message_id] = replace(asked, bytes_down=size)

    def _close(self) -> None:
        """What has not come is late; the mean of what came is the edge's model (Eq. 2)."""
        reason = f"no update within {self._ends - self._began:.1f} s"
        connected = self._channel.present() if self._pending else {}
        for asked in self._pending.values():
            if asked.client in connected:
                self._report(asked, "late", reason)
            else:
                self._report(asked, "lost", f"{reason}, and no connection")
        self._pending = {}
        counted = {c: data for c, data in self.order.clients.items() if c in self._models}
        if counted:
            data = list(counted.values())
            self.weights = mean_model([self._models[client] for client in counted], data)
            self.data = sum(data)
        self._models = {}

    def _client_order(self) -> ClientOrder:
        order = self.order
        return ClientOrder(round=order.round, edge_round=self._edge_round, edge=order.edge)

    def _report(self, asked: ClientReport, fate: Fate, reason: str, **known: Any) -> None:
        reason = one_line(reason)[:LONGEST_REASON]
        self.reports.append(replace(asked, fate=fate, reason=reason, **known))


def judge_update(
    content: RecordDict, client: str, order: ClientOrder, like: ModelWeights
) -> JudgedReply:
    """Whether a reply is the client's update to `order` of a model in the form of `like`."""
    figures: dict[str, float | None] = {}
    try:
        reply = read(content, ClientReply)
        figures["train_s"] = reply.train_s
        model = model_of(content)
        reason = "" if reply.order == order else f"answers to another order: {reply.order}"
        reason = reason or ("" if reply.client == client else f"answers as {shown(reply.client)}")
        reason = reason or reply.failure or model_fault(model, like)
    except StagewiseError as error:
        reason = str(error)
    if reason or model is None:
        return JudgedReply("rejected", reason, figures=figures)
    figures |= {"loss_before": reply.loss_before, "loss_after": reply.loss_after}
    return JudgedReply("counted", "", model, figures | {"update_norm": update_norm(like, model)})
