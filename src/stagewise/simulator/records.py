"""What a run tells of each round: a line of `rounds.jsonl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stagewise.decisions import Decision

if TYPE_CHECKING:
    from stagewise.training import Evaluation


class RoundRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One round, after it has been trained."""

    round: int
    accuracy: float | None
    """On the test set; None in a round that is not evaluated."""
    loss: float | None
    objective: float
    delay_s: float
    energy_j: float
    clients: int
    feasible: bool
    decision_ms: float
    wall_s: float
    """The whole round: decision, training, evaluation; without writing it down."""

    @classmethod
    def of(
        cls, index: int, decision: Decision, evaluation: Evaluation | None, wall_s: float
    ) -> RoundRecord:
        """Round `index`; `evaluation` is None where the model was not tested."""
        return cls(
            round=index,
            accuracy=None if evaluation is None else evaluation.accuracy,
            loss=None if evaluation is None else evaluation.loss,
            objective=decision.objective,
            delay_s=decision.delay_s,
            energy_j=decision.energy_j,
            clients=int(decision.evaluation.clients.sum()),
            feasible=decision.feasible,
            decision_ms=decision.decision_ms,
            wall_s=wall_s,
        )
