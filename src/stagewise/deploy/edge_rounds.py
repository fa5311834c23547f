"""The edge rounds of a round (Eqs. 1 and 2): who was asked, what came, and what became of it.

The same code runs in the cloud for all edges (design F) and at every edge for itself (design H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import RecordDict

from stagewise.deploy.aggregation import (
    cloud_model,
    combined_model,
    model_fault,
    update_norm,
    weighted_data,
)
from stagewise.deploy.channel import PAUSE_S, IncomingReply, MessageChannel, OutgoingMessage
from stagewise.deploy.exchange import (
    ClientReport,
    EdgeReport,
    EdgeResult,
    JudgedReply,
    RoundOrder,
    TrainedRound,
    update_figures,
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
from stagewise.robust.labels import bias_rise
from stagewise.robust.rules import left_out
from stagewise.robust.safeguards import judge_edges, judge_updates
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.model_weights import ModelWeights


def edge_orders(scenario: Scenario, order: RoundOrder, deadline_s: float) -> list[EdgeOrder]:
    """What each edge with clients is to do, with the samples that the scenario says they have."""
    index, data, guard = scenario.clients.index, scenario.clients.data, order.safeguards
    labels = guard.labels
    return [
        EdgeOrder(
            round=order.round,
            edge=edge,
            clients={client: int(data[index[client]]) for client in members},
            edge_rounds=scenario.edge_rounds,
            deadline_s=deadline_s,
            client_weights={}
            if order.client_weights is None
            else {client: order.client_weights[client] for client in members},
            aggregator=guard.aggregator,
            limits=guard.updates,
            offenders=frozenset(client for client in members if index[client] in guard.offenders),
            outputs=None if labels is None else labels.outputs,
            held={}
            if labels is None
            else {client: tuple(labels.held[index[client]].tolist()) for client in members},
        )
        for edge, members in order.groups.items()
    ]


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
    edges, guard = _judged_edges(order, edges), order.safeguards
    models = ((edge.report.edge, edge.weights, edge.report.data) for edge in edges)
    weights, others = cloud_model(order.weights, models, order.edge_weights, guard.aggregator)
    reason = left_out(guard.aggregator)
    edges = [e.refused(reason) if e.report.edge in others else e for e in edges]
    return TrainedRound(
        weights,
        tuple(report for edge in edges for report in edge.clients),
        tuple(edge.report for edge in edges),
        bytes_up,
        bytes_down,
        delay_s,
    )


def _judged_edges(order: RoundOrder, edges: Sequence[EdgeResult]) -> list[EdgeResult]:
    """The edges with the norms of their models' updates; without those that are too large."""
    norms: dict[str, float] = {}
    for edge in edges:
        if edge.weights is not None and edge.report.data:
            norms[edge.report.edge] = update_norm(order.weights, edge.weights)
    refused = judge_edges(norms, order.safeguards)
    judged = []
    for edge in edges:
        name = edge.report.edge
        if name in norms:
            edge = replace(edge, report=replace(edge.report, update_norm=norms[name]))
        judged.append(edge.refused(refused[name]) if name in refused else edge)
    return judged


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
        self._arrived: dict[str, tuple[ClientReport, ModelWeights]] = {}  # of the right form

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
            known = {"round_trip_s": round_trip_s, **judged.figures}
            if "train_s" in known:  # the client's word is taken for no more than it can be
                known["train_s"] = min(known["train_s"], round_trip_s)
            asked = replace(asked, bytes_up=model_bytes(reply.content), **known)
            if judged.fate == "counted":  # unless it is wrong, which the edge round's end shows
                self._arrived[asked.client] = self._with_rise(asked, judged.weights), judged.weights
            else:
                self._report(asked, judged.fate, judged.reason)

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
        """What has not come is late; what came and counts makes the edge's model (Eq. 2)."""
        reason = f"no update within {self._ends - self._began:.1f} s"
        connected = self._channel.present() if self._pending else {}
        for asked in self._pending.values():
            if asked.client in connected:
                self._report(asked, "late", reason)
            else:
                self._report(asked, "lost", f"{reason}, and no connection")
        self._pending = {}
        arrived = {
            client: self._arrived[client]
            for client in self.order.clients
            if client in self._arrived
        }
        self._arrived = {}
        found = {client: update_figures(report) for client, (report, _) in arrived.items()}
        known = {client: figures for client, figures in found.items() if figures is not None}
        order = self.order
        judged = judge_updates(known, order.limits, order.offenders, order.aggregator)
        refused = {client: why.reason for client, why in judged.items()}
        counted = [client for client in arrived if client not in refused]
        if counted:
            models, data = (
                [arrived[c][1] for c in counted],
                [order.clients[c] for c in counted],
            )
            weights = [order.client_weights.get(c, 1.0) for c in counted]
            weighed = weighted_data(data, weights)
            self.weights, kept = combined_model(models, weighed, order.aggregator)
            for client, is_kept in zip(counted, kept, strict=True):
                if not is_kept:
                    refused[client] = left_out(order.aggregator)
            self.data = sum(n for n, is_kept in zip(data, kept, strict=True) if is_kept)
        for client, (report, _) in arrived.items():
            fate: Fate = "rejected" if client in refused else "counted"
            self._report(report, fate, refused.get(client, ""))

    def _with_rise(self, report: ClientReport, model: ModelWeights) -> ClientReport:
        outputs = self.order.outputs
        if outputs is None:
            return report
        before, after = self.weights[outputs.name], model[outputs.name]
        held = np.array(self.order.held[report.client])
        rise, foreign = bias_rise(before, after, held, outputs)
        return replace(report, bias_rise=rise, foreign_rise=foreign)

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
