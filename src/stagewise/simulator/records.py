"""What a run tells of each round: a line of `rounds.jsonl`."""

import msgspec


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
