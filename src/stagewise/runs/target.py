"""When training has reached an accuracy: the rule by which runs end, and costs to it are counted."""

import math
from collections.abc import Iterable

EVALUATIONS = 3
"""A target is reached where the mean accuracy of so many successive evaluations has passed it."""
_ROUNDING = 1e-9


def rounds_to_target(accuracies: Iterable[float | None], target: float) -> int | None:
    """How many rounds it takes to reach `target`; None where it is not reached.

    One lucky evaluation of a noisy curve is not enough: the mean of `EVALUATIONS` successive ones must
    be at least the target. `accuracies` has an entry for each round, None without an evaluation.
    """
    evaluated: list[float] = []
    for rounds, accuracy in enumerate(accuracies, start=1):
        if accuracy is None:
            continue
        evaluated = [*evaluated[1 - EVALUATIONS :], accuracy]
        mean = math.fsum(evaluated) / EVALUATIONS
        if len(evaluated) == EVALUATIONS and mean >= target - _ROUNDING:
            return rounds
    return None
