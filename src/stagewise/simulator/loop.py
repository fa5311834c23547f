"""A run, round after round: who trains where, the training, how good the model is by then."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stagewise.decisions import Decision
from stagewise.plan_b.remedies import edge_weights
from stagewise.simulator.checkpoint import Weights
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import Decider
from stagewise.simulator.records import RoundRecord
from stagewise.world.rounds import Round

if TYPE_CHECKING:
    from stagewise.training import TrainingTeam


@dataclass(frozen=True, eq=False)
class TrainedRound:
    """What a round gave."""

    record: RoundRecord
    decision: Decision
    weights: Weights


def train_rounds(
    config: RunConfig,
    rounds: Sequence[Round],
    first: int,
    weights: Weights,
    decider: Decider,
    team: "TrainingTeam",
) -> Iterator[TrainedRound]:
    """The rounds from `first` on, until the last or until the model is accurate enough."""
    for index in range(first, config.rounds):
        began = time.perf_counter()
        decision = decider.decide(rounds[index], index)
        weights = _train(team, weights, decision, reweight=config.remedy == "reweight")
        evaluation = team.evaluate(weights) if config.evaluates(index) else None
        record = RoundRecord.of(index, decision, evaluation, time.perf_counter() - began)
        yield TrainedRound(record, decision, weights)
        if config.reached(record.accuracy):
            return


def _train(
    team: "TrainingTeam", weights: Weights, decision: Decision, *, reweight: bool
) -> Weights:
    groups = [np.flatnonzero(decision.edge_of == j) for j in range(len(decision.scenario.edges))]
    shares = None
    if reweight:
        # Eq. 3 with the data of failing edges counted for less.
        shares = edge_weights(decision) * decision.evaluation.data
        if not shares.any():
            return weights
    return team.train_round(weights, groups, decision.round, edge_weights=shares)
