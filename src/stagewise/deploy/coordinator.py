"""The cloud's loop: who is there, who trains where, until when; what came of it, written down."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stagewise.decisions import Decision
from stagewise.deploy.accounts import Account, settle, tally
from stagewise.deploy.availability import ObservedRound, observed_round
from stagewise.deploy.costs import MeasuredCosts, modelled_energy_j
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.records import DesignName, LiveRecord, Phase, StatusRecord
from stagewise.deploy.transport import Fate, Order, Outcome, Presence, Transport
from stagewise.errors import StagewiseError
from stagewise.simulator.checkpoint import Weights
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import Decider
from stagewise.simulator.records import RoundRecord
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import Evaluation

PATIENCE_S = 300.0
"""How long nobody may answer before the run ends, to be taken up again when somebody does."""


@dataclass(frozen=True, eq=False)
class LiveRound:
    """What a round gave."""

    round: ObservedRound
    decision: Decision
    record: RoundRecord
    live: LiveRecord
    weights: Weights


@dataclass(eq=False)
class Coordinator:
    """Carries a run out, a round at a time; whoever calls writes it down."""

    config: RunConfig
    scenario: Scenario
    design: DesignName
    transport: Transport
    decider: Decider
    evaluate: "Callable[[Weights], Evaluation]"
    deadlines: Deadlines
    costs: MeasuredCosts
    measured_costs: bool = False
    """Whether decisions use the CPU frequencies that were measured."""
    tell: Callable[[StatusRecord], None] = lambda status: None
    patience_s: float = PATIENCE_S
    _fates: dict[Fate, int] = field(default_factory=lambda: tally(()))
    _faults: int = 0

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
        """Know what the rounds so far taught."""
        for record in records:
            self.deadlines.learn_answers(record.answer_s.values())
            self._learn(record)

    def play(self, index: int, weights: Weights) -> LiveRound:
        """Round `index`: poll, decision, training, evaluation."""
        began = time.perf_counter()
        self._say("polling", index)
        presence, poll_s = self._wait_for_somebody()
        self.deadlines.learn_answers(presence.answer_s.values())
        cpu_hz = self.costs.cpu_hz if self.measured_costs else None
        round_ = observed_round(self.scenario, presence, cpu_hz)
        self._say("deciding", index, presence)
        decision = self.decider.decide(round_, index)
        order = self._order(decision, weights)
        self._say("training", index, presence, order)
        expected_s = self._expected_s(decision)
        outcome = self._train(order)
        account = settle(order, outcome, self.scenario.edge_rounds)
        live = self._live_record(
            round_, decision, presence, poll_s, expected_s, order, outcome, account
        )
        self._learn(live)
        evaluation = self.evaluate(outcome.weights) if self.config.evaluates(index) else None
        record = RoundRecord.of(index, decision, evaluation, time.perf_counter() - began)
        return LiveRound(round_, decision, record, live, outcome.weights)

    def _wait_for_somebody(self) -> tuple[Presence, float]:
        """Who is there, and how long it took to know; it is asked until a client answers."""
        began = time.perf_counter()
        while True:
            asked = time.perf_counter()
            presence = self.transport.who_is_there(self.deadlines.poll_s())
            answered = time.perf_counter()
            if observed_round(self.scenario, presence).online.any():
                return presence, answered - asked
            if answered - began > self.patience_s:
                raise StagewiseError(
                    f"no client answered for {answered - began:.0f} s: the run must have one to go on"
                )
            # A transport that answers at once must not be asked without a pause.
            time.sleep(max(0.0, min(1.0, asked + 1.0 - answered)))

    def _order(self, decision: Decision, weights: Weights) -> Order:
        clients, edges = self.scenario.clients.ids, self.scenario.edges.ids
        groups = {
            edges[edge]: tuple(clients[i] for i in np.flatnonzero(decision.edge_of == edge))
            for edge in np.unique(decision.edge_of[decision.edge_of != UNASSIGNED])
        }
        delay_s = self.costs.delay_s(decision.edge_of)
        deadline_s = self.deadlines.round_s(delay_s, self.scenario.edge_rounds)
        return Order(decision.round, weights, groups, deadline_s)

    def _expected_s(self, decision: Decision) -> float:
        engine_s = self.deadlines.engine_s(self.scenario.edge_rounds)
        return self.costs.delay_s(decision.edge_of) + engine_s

    def _train(self, order: Order) -> Outcome:
        if not order.groups:  # nobody may serve: the model stays as it is
            return Outcome(order.weights, (), (), 0, 0, 0.0)
        return self.transport.train_round(order)

    def _learn(self, live: LiveRecord) -> None:
        self.deadlines.learn_updates(live.updates)
        self.costs.learn(live.updates, live.deadline_s, self.deadlines.message_s)
        for fate, times in live.fates.items():
            self._fates[fate] += times
        self._faults += len(live.faults)

    def _say(
        self,
        phase: Phase,
        index: int,
        presence: Presence | None = None,
        order: Order | None = None,
    ) -> None:
        last = self._status
        self._status = StatusRecord(
            design=self.design,
            phase=phase,
            round=index,
            rounds=self.config.rounds,
            changed=time.time(),
            pid=os.getpid(),
            # Until there is news, what was known last.
            edges=last.edges if presence is None else list(presence.edges),
            reached=last.reached if presence is None else _lists(presence.edges_of),
            groups=last.groups if order is None else _lists(order.groups),
            deadline_s=None if order is None else order.deadline_s,
            fates=dict(self._fates),
            faults=self._faults,
        )
        self.tell(self._status)

    def end(self, phase: Phase) -> None:
        """Say that no round follows."""
        self._say(phase, self._status.round)

    def _live_record(
        self,
        round_: ObservedRound,
        decision: Decision,
        presence: Presence,
        poll_s: float,
        expected_s: float,
        order: Order,
        outcome: Outcome,
        account: Account,
    ) -> LiveRecord:
        arrived = [edge.edge for edge in account.edges if edge.fate == "counted"]
        model_bytes = sum(array.nbytes for array in order.weights.values())
        return LiveRecord(
            round=order.round,
            edges=list(presence.edges),
            reached=_lists(presence.edges_of),
            answer_s=dict(presence.answer_s),
            poll_s=poll_s,
            deadline_s=order.deadline_s,
            delay_s=outcome.delay_s,
            predicted_delay_s=decision.delay_s,
            expected_delay_s=expected_s,
            energy_j=modelled_energy_j(round_, account.updates, arrived),
            predicted_energy_j=decision.energy_j,
            cloud_bytes_up=outcome.cloud_bytes_up,
            cloud_bytes_down=outcome.cloud_bytes_down,
            predicted_cloud_bytes=model_bytes * models_at_cloud(self.design, order, account),
            client_bytes_up=sum(update.bytes_up for update in account.updates),
            client_bytes_down=sum(update.bytes_down for update in account.updates),
            predicted_client_bytes=model_bytes * len(account.updates),
            asked=len(account.updates),
            fates=tally(update.fate for update in account.updates),
            faults=list(account.faults),
            updates=list(account.updates),
            edge_fates=list(account.edges),
        )


def models_at_cloud(design: DesignName, order: Order, account: Account) -> int:
    """How many models are to cross the cloud's links each way: by edge in H, by update in F."""
    if design == "H":
        return len(order.groups)
    return len(account.updates) if design == "F" else 0


def _lists(by_name: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(members) for name, members in by_name.items()}
