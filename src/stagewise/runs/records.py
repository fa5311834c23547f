"""What a run tells of each round: a line of `rounds.jsonl`."""

import msgspec

from stagewise.loop import PlayedRound


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
    def of(cls, played: PlayedRound) -> "RoundRecord":
        """The record of a round."""
        decision, outcome, wall_s = played
        return cls(
            round=decision.round.index,
            accuracy=outcome.accuracy,
            loss=outcome.loss,
            clients=int(decision.evaluation.clients.sum()),
            objective=decision.objective,
            delay_s=decision.delay_s,
            energy_j=decision.energy_j,
            feasible=decision.feasible,
            decision_ms=decision.decision_ms,
            wall_s=wall_s,
        )
