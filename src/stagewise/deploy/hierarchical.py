"""Design H: an edge is a node of the cloud's SuperLink and has a SuperLink of its own.

The cloud sends each edge one model a round and receives one; updates of clients end at their edge.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from stagewise.deploy.aggregation import fault, mean_model
from stagewise.deploy.edge_rounds import POLL_S, REAL_TIME, Answer, Letter, Time
from stagewise.deploy.flat import client_report, edge_orders
from stagewise.deploy.in_process import links_of
from stagewise.deploy.messages import TRAIN, EdgeAnswer, EdgeOrder, model_of, pack, payload, read
from stagewise.deploy.roll_call import Listing, roll_call
from stagewise.deploy.transport import (
    NO_UPDATE,
    ClientReport,
    EdgeReport,
    Fate,
    Order,
    Outcome,
    Presence,
)
from stagewise.errors import StagewiseError
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import Weights

MARGIN_S = 8.0
"""What a message takes to an edge and back on a busy machine: nodes look for messages every 3 s."""


class Hierarchical:
    """The edges of a scenario at the cloud's SuperLink, which stays the caller's."""

    def __init__(self, scenario: Scenario, post: Listing, time: Time = REAL_TIME) -> None:
        self._scenario, self._post, self._time = scenario, post, time
        self._links = links_of(scenario)

    def who_is_there(self, deadline_s: float) -> Presence:
        """The edges that answer, and the clients that answered them."""
        scenario = self._scenario
        here = roll_call(self._post, scenario.edges.ids, deadline_s, deadline_s / 2, self._time)
        edges_of: dict[str, tuple[str, ...]] = {}
        answer_s: dict[str, float] = {}
        for edge in scenario.edges.ids:
            if edge not in here:
                continue
            for client, seconds in here[edge][0].clients.items():
                if edge in self._links.get(client, ()):
                    edges_of[client] = (*edges_of.get(client, ()), edge)
                    answer_s[client] = min(seconds, answer_s.get(client, deadline_s), deadline_s)
        return Presence(edges_of, answer_s, tuple(e for e in scenario.edges.ids if e in here))

    def train_round(self, order: Order) -> Outcome:
        """One model to each edge, one back from each, and their mean (Eq. 3)."""
        began = self._time.now()
        deadline_s = order.deadline_s - _margin(order.deadline_s)
        orders = edge_orders(self._scenario, order, deadline_s)
        letters = [Letter(o.edge, TRAIN, pack(o, order.weights)) for o in orders]
        numbers = self._post.send(letters, order.deadline_s) if letters else []
        answers = self._wait({n for n in numbers if n}, began + order.deadline_s)
        edges = [
            self._edge(edge_order, number, answers.get(number), order.weights)
            for edge_order, number in zip(orders, numbers, strict=True)
        ]
        models = [model for model, _, _ in edges if model is not None]
        data = [report.data for model, report, _ in edges if model is not None]
        return Outcome(
            mean_model(models, data) if models else order.weights,
            tuple(report for _, _, reports in edges for report in reports),
            tuple(report for _, report, _ in edges),
            sum(payload(a.content) for a in answers.values() if a.content is not None),
            sum(payload(x.content) for x, n in zip(letters, numbers, strict=True) if n),
            self._time.now() - began,
        )

    def _wait(self, numbers: set[str], deadline: float) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        while len(answers) < len(numbers) and self._time.now() < deadline:
            arrived = self._post.collect()
            if self._time.now() >= deadline:
                break
            for answer in arrived:
                if answer.letter in numbers:
                    answers.setdefault(answer.letter, answer)
            if not arrived:
                self._time.wait(POLL_S)
        return answers

    def _edge(
        self, order: EdgeOrder, number: str, answer: Answer | None, like: Weights
    ) -> tuple[Weights | None, EdgeReport, list[ClientReport]]:
        """An edge's model if it counts, and what became of it and of its clients' updates."""
        if not number:
            return _without(order, "lost", "it is not connected")
        if answer is None:
            fate: Fate = "late" if self._post.connected(order.edge) else "lost"
            return _without(order, fate, "no model within the round's deadline")
        if answer.content is None:
            return _without(order, answer.fate, answer.reason)
        try:
            said = read(answer.content, EdgeAnswer)
            model = model_of(answer.content)
        except StagewiseError as error:
            return _without(order, "rejected", str(error))
        reason = _inconsistent(order, said)
        if not reason and said.data:
            reason = "no model" if model is None else fault(model, like)
        if reason:
            return _without(order, "rejected", reason)
        reports = [
            _believable(client_report(order.edge, report), order.deadline_s)
            for report in said.reports
        ]
        if not said.data:
            return None, EdgeReport(order.edge, "lost", NO_UPDATE, 0), reports
        return model, EdgeReport(order.edge, "counted", "", said.data), reports


def _believable(report: ClientReport, most_s: float) -> ClientReport:
    """With times that fit into the round, whatever the edge says: deadlines are learnt from them."""
    train_s, round_trip_s = (
        None if seconds is None else min(seconds, most_s)
        for seconds in (report.train_s, report.round_trip_s)
    )
    return replace(report, train_s=train_s, round_trip_s=round_trip_s)


def _margin(deadline_s: float) -> float:
    return min(MARGIN_S, deadline_s / 3)


def _inconsistent(order: EdgeOrder, said: EdgeAnswer) -> str:
    """Why an edge's answer does not fit what it was asked; empty if it does."""
    if (said.round, said.edge) != (order.round, order.edge):
        return f"answers for round {said.round} of {said.edge}"
    expected = {(client, step) for client in order.clients for step in range(order.edge_rounds)}
    told = Counter((report.client, report.edge_round) for report in said.reports)
    if told.keys() != expected or max(told.values(), default=1) > 1:
        return "its reports are not one for each client and edge round"
    counted: dict[int, int] = {}
    for report in said.reports:
        if report.fate == "counted":
            samples = order.clients[report.client]
            counted[report.edge_round] = counted.get(report.edge_round, 0) + samples
    data = counted[max(counted)] if counted else 0
    return "" if said.data == data else f"data = {said.data}: its reports make it {data}"


def _without(
    order: EdgeOrder, fate: Fate, reason: str
) -> tuple[None, EdgeReport, list[ClientReport]]:
    """The reports of an edge whose model does not count: no update of its clients does."""
    lost = ClientReport("", order.edge, 0, "lost", f"{order.edge}: {reason}", None, None, 0, 0)
    reports = [
        replace(lost, client=client, edge_round=step)
        for step in range(order.edge_rounds)
        for client in order.clients
    ]
    return None, EdgeReport(order.edge, fate, reason, 0), reports
