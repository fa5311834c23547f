"""Training by simulation: a decision carried out in this process and its workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stagewise.decisions import Decision
from stagewise.outcomes import Outcome, expected_outcome, trains_anything
from stagewise.runs.config import RunConfig
from stagewise.runs.defence import Defence, updates_seen
from stagewise.runs.events import Event
from stagewise.world.scenario import FloatArray, IntArray, Scenario

if TYPE_CHECKING:
    from stagewise.training import Trainer


class SimulatedTraining:
    """Trains and evaluates as a run's configuration says; wrong updates do not count."""

    def __init__(self, config: RunConfig, scenario: Scenario, trainer: "Trainer") -> None:
        self._config, self._trainer = config, trainer
        self.weights = trainer.initial_weights()
        settings = config.aggregator, config.quarantine_rounds
        self.defence = Defence(scenario, *settings, trainer.output_bias)
        self.events: Sequence[Event] = ()

    def carry_out(self, decision: Decision) -> Outcome:
        """Train the decision's clients, and evaluate where it is due."""
        index = decision.round.index
        outcome = self._train(decision)
        if not self._config.evaluates(index):
            return outcome
        evaluation = self._trainer.evaluate(self.weights)
        return replace(outcome, accuracy=evaluation.accuracy, loss=evaluation.loss)

    def losses(self, clients: IntArray) -> FloatArray:
        """The mean loss of the present model on the training data of each client."""
        return self._trainer.losses(self.weights, clients)

    def _train(self, decision: Decision) -> Outcome:
        self.events = ()
        if not trains_anything(decision):
            return expected_outcome(decision)
        weights = decision.answer.edge_weights
        groups = [
            np.flatnonzero(decision.edge_of == j) for j in range(len(decision.scenario.edges))
        ]
        # Eq. 3, with the data of some edges counted for less where the policy says so.
        shares = None if weights is None else weights * decision.evaluation.data
        self.weights, figures = self._trainer.train_round(
            self.weights,
            groups,
            decision.round.index,
            edge_weights=shares,
            safeguards=self.defence.safeguards(),
            client_weights=decision.answer.client_weights,
        )
        if figures.account is not None:
            seen = updates_seen(figures.account), figures.account.edge_norms
            self.events = self.defence.observe(decision.round.index, *seen)
        model_bytes = sum(array.nbytes for array in self.weights.values())
        return expected_outcome(decision, figures, model_bytes)
