"""The cloud's side of a run: who is online, orders and their replies, what became of each."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stagewise.decisions import Decision
from stagewise.deploy.accounts import reconcile
from stagewise.deploy.availability import observed_round
from stagewise.deploy.costs import MeasuredCosts, modelled_energy_j
from stagewise.deploy.deadlines import Deadlines
from stagewise.deploy.exchange import (
    Presence,
    RoundOrder,
    TrainedRound,
    Transport,
    count_fates,
    update_figures,
)
from stagewise.deploy.outcome import outcome_of
from stagewise.deploy.records import DesignName, LiveRecord, Phase, StatusRecord
from stagewise.errors import StagewiseError
from stagewise.fates import FATES
from stagewise.loop import unknown_losses
from stagewise.model_weights import ModelWeights
from stagewise.outcomes import Outcome, trains_anything
from stagewise.robust.labels import OutputBias
from stagewise.runs.config import RunConfig
from stagewise.runs.defence import Defence, SeenUpdate
from stagewise.runs.events import Event
from stagewise.world.costs import UNASSIGNED, edge_costs
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario

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
    output_bias: OutputBias | None = None
    """What updates may do to the biases of the outputs; None where that is not known."""
    ends: Callable[[], bool] = lambda: False
    """Asked before every round whether there is to be none, since the run is to go on otherwise."""
    report: Callable[[StatusRecord], None] = lambda status: None
    patience_s: float = PATIENCE_S
    live: LiveRecord | None = None
    _presence: Presence = field(default_factory=lambda: Presence({}, {}, ()))
    _roll_call_s: float = 0.0

    def __post_init__(self) -> None:
        settings = self.config.aggregator, self.config.quarantine_rounds
        self.defence = Defence(self.scenario, *settings, self.output_bias)
        self.events: Sequence[Event] = ()
        self._status = StatusRecord(
            design=self.design, rounds=self.config.rounds, pid=os.getpid(), fates=count_fates(())
        )

    def restore(self, records: list[LiveRecord]) -> None:
        """Learn from the records of the rounds so far."""
        for record in records:
            self.deadlines.learn_answers(record.answer_s.values())
            self._learn(record)

    def rounds(self, first: int) -> Iterator[Round]:
        """The rounds from `first` on, each of those who answer when it begins."""
        for index in range(first, self.config.rounds):
            if self.ends():
                return
            self._report("polling", round=index)
            self._presence, self._roll_call_s = self._wait_for_somebody()
            self.deadlines.learn_answers(self._presence.answer_s.values())
            delay_s = self.costs.link_delay_s if self.measured_costs else None
            reached = _lists(self._presence.edges_of)
            self._report("deciding", edges=list(self._presence.edges), reached=reached)
            yield observed_round(self.scenario, self._presence, index, delay_s)

    def carry_out(self, decision: Decision) -> Outcome:
        """Have a round trained, account for every update, evaluate where it is due."""
        delay_s, edge_rounds = self.costs.delay_s(decision.edge_of), self.scenario.edge_rounds
        order = self._order(decision, self.deadlines.round_s(delay_s, edge_rounds))
        self._report("training", groups=_lists(order.groups), deadline_s=order.deadline_s)
        expected_s = delay_s + self.deadlines.engine_s(edge_rounds)
        trained, faults = reconcile(order, self._train(order), edge_rounds)
        self.live = self._live_record(decision, expected_s, order, trained, faults)
        self._learn(self.live)
        self.events = self._learn_updates(trained, order.round)
        self.weights = trained.weights
        outcome = outcome_of(decision, trained.clients, trained.edges)
        if not self.config.evaluates(order.round):
            return outcome
        evaluation = self.evaluate(self.weights)
        return replace(outcome, accuracy=evaluation.accuracy, loss=evaluation.loss)

    def losses(self, clients: IntArray) -> FloatArray:
        """Unknown: no message asks clients for a loss without training."""
        return unknown_losses(clients)

    def _wait_for_somebody(self) -> tuple[Presence, float]:
        """Who is online, and how long it took to know; everyone is asked until a client answers."""
        began = time.perf_counter()
        while True:
            asked = time.perf_counter()
            presence = self.transport.roll_call(self.deadlines.roll_call_s())
            answered = time.perf_counter()
            if observed_round(self.scenario, presence).online.any():
                return presence, answered - asked
            if answered - began > self.patience_s:
                raise StagewiseError(
                    f"no client answered for {answered - began:.0f} s: the run must have one to go on"
                )
            # A transport that answers at once must not be asked without a pause.
            time.sleep(max(0.0, min(1.0, asked + 1.0 - answered)))

    def _order(self, decision: Decision, deadline_s: float) -> RoundOrder:
        clients, edges = self.scenario.clients.ids, self.scenario.edges.ids
        serving = decision.edge_of[decision.edge_of != UNASSIGNED]
        groups = {
            edges[edge]: tuple(clients[i] for i in np.flatnonzero(decision.edge_of == edge))
            for edge in (np.unique(serving) if trains_anything(decision) else ())
        }
        weights = decision.answer.named_weights(self.scenario)
        return RoundOrder(
            decision.round.index,
            self.weights,
            groups,
            deadline_s,
            edge_weights=weights.edges,
            safeguards=self.defence.safeguards(),
            client_weights=weights.clients,
        )

    def _train(self, order: RoundOrder) -> TrainedRound:
        if not order.groups:  # nobody is to train: the model stays as it is
            return TrainedRound(order.weights, (), (), 0, 0, 0.0)
        return self.transport.train_round(order)

    def _learn(self, live: LiveRecord) -> None:
        self.deadlines.learn_updates(live.updates)
        self.costs.learn(live.updates, live.deadline_s, self.deadlines.message_s)
        so_far = self._status
        self._status = msgspec.structs.replace(
            so_far,
            fates={fate: so_far.fates[fate] + live.fates.get(fate, 0) for fate in FATES},
            faults=so_far.faults + len(live.faults),
        )

    def _learn_updates(self, trained: TrainedRound, index: int) -> list[Event]:
        """Let the defence learn; an edge that fails takes what it saw with it."""
        clients, edges = self.scenario.clients.index, self.scenario.edges.index
        updates = [
            SeenUpdate(r.edge_round, edges[r.edge], clients[r.client], figures)
            for r in trained.clients
            if (figures := update_figures(r)) is not None
        ]
        models = {edges[r.edge]: r.update_norm for r in trained.edges if r.update_norm is not None}
        return self.defence.observe(index, updates, models)

    def _report(self, phase: Phase, deadline_s: float | None = None, **news: Any) -> None:
        """Tell what is going on; where there is no news, what was known last."""
        self._status = msgspec.structs.replace(
            self._status, phase=phase, changed=time.time(), deadline_s=deadline_s, **news
        )
        self.report(self._status)

    def end(self, phase: Phase) -> None:
        """Report that no round follows."""
        self._report(phase)

    def _live_record(
        self,
        decision: Decision,
        expected_s: float,
        order: RoundOrder,
        trained: TrainedRound,
        faults: tuple[str, ...],
    ) -> LiveRecord:
        presence, scenario, updates = self._presence, self.scenario, trained.clients
        arrived = [edge.edge for edge in trained.edges if edge.fate == "counted"]
        model_bytes = sum(array.nbytes for array in order.weights.values())
        return LiveRecord(
            round=order.round,
            edges=list(presence.edges),
            reached=_lists(presence.edges_of),
            answer_s=dict(presence.answer_s),
            poll_s=self._roll_call_s,
            deadline_s=order.deadline_s,
            delay_s=trained.delay_s,
            predicted_delay_s=edge_costs(scenario, scenario.costs, decision.edge_of).round_delay_s,
            expected_delay_s=expected_s,
            energy_j=modelled_energy_j(decision.round, updates, arrived),
            predicted_energy_j=decision.energy_j,
            cloud_bytes_up=trained.cloud_bytes_up,
            cloud_bytes_down=trained.cloud_bytes_down,
            predicted_cloud_bytes=model_bytes * models_at_cloud(self.design, trained),
            client_bytes_up=sum(update.bytes_up for update in updates),
            client_bytes_down=sum(update.bytes_down for update in updates),
            predicted_client_bytes=model_bytes * len(updates),
            asked=len(updates),
            fates=count_fates(update.fate for update in updates),
            faults=list(faults),
            updates=list(updates),
            edge_fates=list(trained.edges),
        )


def models_at_cloud(design: DesignName, trained: TrainedRound) -> int:
    """How many models are to cross the cloud's links each way: by edge in H, by update in F."""
    return {"H": len(trained.edges), "F": len(trained.clients), "in-process": 0}[design]


def _lists(by_name: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(members) for name, members in by_name.items()}
