"""The cloud's side of a run: who is online, orders and their replies, what became of each."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stagewise.decisions import Decision
from stagewise.deploy.accounts import Account, reconcile
from stagewise.deploy.availability import observed_round
from stagewise.deploy.costs import MeasuredCosts, modelled_delay_s, modelled_energy_j
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.exchange import Presence, RoundOrder, TrainedRound, Transport, count_fates
from stagewise.deploy.outcome import outcome_of
from stagewise.deploy.records import DesignName, LiveRecord, Phase, StatusRecord
from stagewise.errors import StagewiseError
from stagewise.fates import Fate
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import Outcome, trains_anything
from stagewise.runs.config import RunConfig
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import Evaluation

PATIENCE_S = 300.0
"""How long nobody may answer before the run ends; it can be resumed when somebody does."""


@dataclass(eq=False)
class Coordinator:
    """Finds out who is online before each round, and carries decisions out over a transport.

    `rounds` and `carry_out` are what a session runs on; `live` is the newest round's record.
    """

    config: RunConfig
    scenario: Scenario
    design: DesignName
    transport: Transport
    weights: ModelWeights
    """The model as it is now."""
    evaluate: "Callable[[ModelWeights], Evaluation]"
    deadlines: Deadlines
    costs: MeasuredCosts
    measured_costs: bool = False
    """Whether decisions use the delays that were measured."""
    report: Callable[[StatusRecord], None] = lambda status: None
    patience_s: float = PATIENCE_S
    live: LiveRecord | None = None
    _fates: dict[Fate, int] = field(default_factory=lambda: count_fates(()))
    _faults: int = 0
    _presence: Presence = field(default_factory=lambda: Presence({}, {}, ()))
    _poll_s: float = 0.0

    def __post_init__(self) -> None:
        self._status = StatusRecord(
            design=self.design,
            phase="starting",
            round=0,
            rounds=self.config.rounds,
            changed=time.time(),
            pid=os.getpid(),
        )

    def restore(self, records: list[LiveRecord]) -> None:
        """Learn from the records of the rounds so far."""
        for record in records:
            self.deadlines.learn_answers(record.answer_s.values())
            self._learn(record)

    def rounds(self, first: int) -> Iterator[Round]:
        """The rounds from `first` on, each of those who answer when it begins."""
        for index in range(first, self.config.rounds):
            self._report("polling", index)
            self._presence, self._poll_s = self._wait_for_somebody()
            self.deadlines.learn_answers(self._presence.answer_s.values())
            delay_s = self.costs.link_delay_s if self.measured_costs else None
            self._report("deciding", index, self._presence)
            yield observed_round(self.scenario, self._presence, index, delay_s)

    def carry_out(self, decision: Decision) -> Outcome:
        """Have a round trained, account for every update, evaluate where it is due."""
        index = decision.round.index
        order = self._order(decision)
        self._report("training", index, self._presence, order)
        expected_s = self._expected_s(decision)
        trained = self._train(order)
        account = reconcile(order, trained, self.scenario.edge_rounds)
        self.live = self._live_record(decision, expected_s, order, trained, account)
        self._learn(self.live)
        self.weights = trained.weights
        outcome = outcome_of(decision, account.updates, account.edges)
        if not self.config.evaluates(index):
            return outcome
        evaluation = self.evaluate(self.weights)
        return replace(outcome, accuracy=evaluation.accuracy, loss=evaluation.loss)

    def _wait_for_somebody(self) -> tuple[Presence, float]:
        """Who is online, and how long it took to know; everyone is asked until a client answers."""
        began = time.perf_counter()
        while True:
            asked = time.perf_counter()
            presence = self.transport.roll_call(self.deadlines.poll_s())
            answered = time.perf_counter()
            if observed_round(self.scenario, presence).online.any():
                return presence, answered - asked
            if answered - began > self.patience_s:
                raise StagewiseError(
                    f"no client answered for {answered - began:.0f} s: the run must have one to go on"
                )
            # A transport that answers at once must not be asked without a pause.
            time.sleep(max(0.0, min(1.0, asked + 1.0 - answered)))

    def _order(self, decision: Decision) -> RoundOrder:
        clients, edges = self.scenario.clients.ids, self.scenario.edges.ids
        serving = decision.edge_of[decision.edge_of != UNASSIGNED]
        groups = {
            edges[edge]: tuple(clients[i] for i in np.flatnonzero(decision.edge_of == edge))
            for edge in (np.unique(serving) if trains_anything(decision) else ())
        }
        weights = decision.answer.edge_weights
        by_edge = None if weights is None else dict(zip(edges, weights.tolist(), strict=True))
        delay_s = self.costs.delay_s(decision.edge_of)
        deadline_s = self.deadlines.round_s(delay_s, self.scenario.edge_rounds)
        return RoundOrder(decision.round.index, self.weights, groups, deadline_s, by_edge)

    def _expected_s(self, decision: Decision) -> float:
        engine_s = self.deadlines.engine_s(self.scenario.edge_rounds)
        return self.costs.delay_s(decision.edge_of) + engine_s

    def _train(self, order: RoundOrder) -> TrainedRound:
        if not order.groups:  # nobody is to train: the model stays as it is
            return TrainedRound(order.weights, (), (), 0, 0, 0.0)
        return self.transport.train_round(order)

    def _learn(self, live: LiveRecord) -> None:
        self.deadlines.learn_updates(live.updates)
        self.costs.learn(live.updates, live.deadline_s, self.deadlines.message_s)
        for fate, times in live.fates.items():
            self._fates[fate] += times
        self._faults += len(live.faults)

    def _report(
        self,
        phase: Phase,
        index: int,
        presence: Presence | None = None,
        order: RoundOrder | None = None,
    ) -> None:
        last = self._status
        self._status = StatusRecord(
            design=self.design,
            phase=phase,
            round=index,
            rounds=self.config.rounds,
            changed=time.time(),
            pid=os.getpid(),
            # Where nothing new is known, what was known last.
            edges=last.edges if presence is None else list(presence.edges),
            reached=last.reached if presence is None else _lists(presence.edges_of),
            groups=last.groups if order is None else _lists(order.groups),
            deadline_s=None if order is None else order.deadline_s,
            fates=dict(self._fates),
            faults=self._faults,
        )
        self.report(self._status)

    def end(self, phase: Phase) -> None:
        """Report that no round follows."""
        self._report(phase, self._status.round)

    def _live_record(
        self,
        decision: Decision,
        expected_s: float,
        order: RoundOrder,
        trained: TrainedRound,
        account: Account,
    ) -> LiveRecord:
        arrived = [edge.edge for edge in account.edges if edge.fate == "counted"]
        presence = self._presence
        model_bytes = sum(array.nbytes for array in order.weights.values())
        return LiveRecord(
            round=order.round,
            edges=list(presence.edges),
            reached=_lists(presence.edges_of),
            answer_s=dict(presence.answer_s),
            poll_s=self._poll_s,
            deadline_s=order.deadline_s,
            delay_s=trained.delay_s,
            predicted_delay_s=modelled_delay_s(self.scenario, decision.edge_of),
            expected_delay_s=expected_s,
            energy_j=modelled_energy_j(decision.round, account.updates, arrived),
            predicted_energy_j=decision.energy_j,
            cloud_bytes_up=trained.cloud_bytes_up,
            cloud_bytes_down=trained.cloud_bytes_down,
            predicted_cloud_bytes=model_bytes * models_at_cloud(self.design, order, account),
            client_bytes_up=sum(update.bytes_up for update in account.updates),
            client_bytes_down=sum(update.bytes_down for update in account.updates),
            predicted_client_bytes=model_bytes * len(account.updates),
            asked=len(account.updates),
            fates=count_fates(update.fate for update in account.updates),
            faults=list(account.faults),
            updates=list(account.updates),
            edge_fates=list(account.edges),
        )


def models_at_cloud(design: DesignName, order: RoundOrder, account: Account) -> int:
    """How many models are to cross the cloud's links each way: by edge in H, by update in F."""
    if design == "H":
        return len(order.groups)
    return len(account.updates) if design == "F" else 0


def _lists(by_name: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(members) for name, members in by_name.items()}
