"""The edge rounds of a round (Eqs. 1 and 2): who was asked, what came, and what became of it.

The same code runs in the cloud for all edges (design F) and at every edge for itself (design H).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flwr.app import RecordDict

from stagewise.deploy.aggregation import fault, mean_model
from stagewise.deploy.messages import (
    LONGEST_REASON,
    TRAIN,
    EdgeOrder,
    Step,
    StepReport,
    Update,
    model_of,
    pack,
    payload,
    read,
)
from stagewise.deploy.transport import Fate
from stagewise.errors import StagewiseError, one_line

if TYPE_CHECKING:
    from stagewise.training import Weights

POLL_S = 0.3


@dataclass(frozen=True)
class Time:
    """The seconds that pass, and how to let them."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


REAL_TIME = Time()


@dataclass(frozen=True)
class Letter:
    """A message to a client or an edge, by its id."""

    to: str
    kind: str
    content: RecordDict


@dataclass(frozen=True)
class Answer:
    """What came back for a letter: content, or why there is none and what that makes of it."""

    letter: str
    content: RecordDict | None
    fate: Fate = "counted"
    reason: str = ""


class Post(Protocol):
    """Carries letters to nodes and their answers back."""

    def send(self, letters: Sequence[Letter], expire_s: float) -> list[str]:
        """A number for each letter; empty where its receiver is not connected."""
        ...

    def collect(self) -> list[Answer]:
        """What has arrived since, for any letter ever sent; each answer once. Does not wait."""
        ...

    def connected(self, name: str) -> bool:
        """Whether a node of this name is there, as far as is known."""
        ...


@dataclass
class EdgeResult:
    """An edge's round as it goes on; `weights` are its model, of `data` samples if any counted."""

    order: EdgeOrder
    weights: Weights
    data: int = 0
    reports: list[StepReport] = field(default_factory=list)


def train_edges(
    post: Post,
    orders: Sequence[EdgeOrder],
    weights: Weights,
    time: Time = REAL_TIME,
) -> list[EdgeResult]:
    """Take every edge through its edge rounds; each goes on as soon as its own clients answered.

    An edge round ends when all have answered or its share of the time that is left has passed.
    """
    began = time.now()
    edges = [_Edge(EdgeResult(order, weights), post, began + order.deadline_s) for order in orders]
    while [edge for edge in edges if not edge.go_on(time.now())]:
        answers, now = post.collect(), time.now()
        for answer in answers:
            for edge in edges:
                edge.take(answer, now)
        if not answers:
            time.wait(POLL_S)
    return [edge.result for edge in edges]


@dataclass(frozen=True)
class _Asked:
    client: str
    at: float
    bytes_down: int


class _Edge:
    """One edge's place in its edge rounds."""

    def __init__(self, result: EdgeResult, post: Post, deadline: float) -> None:
        self.result, self._post, self._deadline = result, post, deadline
        self._edge_round = -1
        self._step_began = self._step_deadline = 0.0
        self._open: dict[str, _Asked] = {}
        self._models: dict[str, Weights] = {}

    def go_on(self, now: float) -> bool:
        """Close an edge round that is over and begin the next; true when there is none left."""
        order = self.result.order
        while not self._open or now >= self._step_deadline:
            self._close()
            self._edge_round += 1
            if self._edge_round >= order.edge_rounds:
                self._edge_round = order.edge_rounds
                place = {client: number for number, client in enumerate(order.clients)}
                self.result.reports.sort(key=lambda r: (r.edge_round, place[r.client]))
                return True
            self._begin(now)
        return False

    def take(self, answer: Answer, now: float) -> None:
        """Count or refuse an answer; one that nobody waits for any more is dropped."""
        asked = self._open.pop(answer.letter, None)
        if asked is None:
            return
        if now >= self._step_deadline:
            self._report(asked, "late", f"came after {now - asked.at:.1f} s")
            return
        if answer.content is None:
            self._report(asked, answer.fate, answer.reason)
            return
        train_s, bytes_up = None, payload(answer.content)
        try:
            update = read(answer.content, Update)
            # The client's word is taken for no more than it can be.
            train_s = min(update.train_s, now - asked.at)
            reason = self._fault(update, asked)
            model = model_of(answer.content)
            if not reason:
                reason = "no model" if model is None else fault(model, self.result.weights)
        except StagewiseError as error:
            reason, model = str(error), None
        if reason or model is None:
            self._report(asked, "rejected", reason, train_s, now - asked.at, bytes_up)
            return
        self._models[asked.client] = model
        self._report(asked, "counted", "", train_s, now - asked.at, bytes_up)

    def _begin(self, now: float) -> None:
        order = self.result.order
        left = order.edge_rounds - self._edge_round
        self._step_began = now
        self._step_deadline = now + max(self._deadline - now, 0.0) / left
        letters = [
            Letter(client, TRAIN, pack(self._step(client), self.result.weights))
            for client in order.clients
        ]
        if not letters:
            return
        # A node that comes back later must not train for a round that is over.
        numbers = self._post.send(letters, max(self._step_deadline - now, 0.1))
        for letter, number in zip(letters, numbers, strict=True):
            if number:
                self._open[number] = _Asked(letter.to, now, payload(letter.content))
            else:
                self._report(_Asked(letter.to, now, 0), "lost", "it is not connected")

    def _close(self) -> None:
        """What has not come is late; the mean of what came is the edge's model (Eq. 2)."""
        waited = self._step_deadline - self._step_began
        for asked in self._open.values():
            if self._post.connected(asked.client):
                self._report(asked, "late", f"no update within {waited:.1f} s")
            else:
                self._report(asked, "lost", f"no update within {waited:.1f} s, and no connection")
        self._open = {}
        clients = self.result.order.clients
        counted = [client for client in clients if client in self._models]
        if counted:
            data = [clients[client] for client in counted]
            models = [self._models[client] for client in counted]
            self.result.weights, self.result.data = mean_model(models, data), sum(data)
        self._models = {}

    def _step(self, client: str) -> Step:
        order = self.result.order
        return Step(round=order.round, edge_round=self._edge_round, edge=order.edge, client=client)

    def _fault(self, update: Update, asked: _Asked) -> str:
        if update.step != self._step(asked.client):
            return f"answers to another order: {update.step}"
        return update.failure

    def _report(
        self,
        asked: _Asked,
        fate: Fate,
        reason: str,
        train_s: float | None = None,
        round_trip_s: float | None = None,
        bytes_up: int = 0,
    ) -> None:
        self.result.reports.append(
            StepReport(
                client=asked.client,
                edge_round=self._edge_round,
                fate=fate,
                reason=one_line(reason)[:LONGEST_REASON],
                train_s=train_s,
                round_trip_s=round_trip_s,
                bytes_up=bytes_up,
                bytes_down=asked.bytes_down,
            )
        )
