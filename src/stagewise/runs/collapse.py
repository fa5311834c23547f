"""When training has collapsed: the rule by which a run returns to an earlier model."""

import math
from statistics import median

from stagewise.runs.records import RoundRecord

EVALUATIONS = 5
"""An accuracy is compared with the median of so many good evaluations before it; fewer at first."""
LEAST_EVALUATIONS = 3
COLLAPSE = 0.25
"""Less than that share of the accuracy before; honest rounds of clients with few labels came to half."""
LEAST_ACCURACY = 0.5
"""A model that has not learned more than this has nothing to lose."""


class CollapseWatch:
    """Looks at the records of a run, one after the other."""

    def __init__(self) -> None:
        self._good: list[float] = []
        self.last_good: int | None = None
        """The last round that was evaluated and had not collapsed."""

    def collapse(self, record: RoundRecord) -> str:
        """Why the model collapsed in a round; empty if it did not, or was not evaluated.

        It did where the loss is no finite number, or where the accuracy is less than a
        quarter of the median of the last good evaluations and that is at least `LEAST_ACCURACY`.
        """
        if record.accuracy is None:
            return ""
        if record.loss is None or not math.isfinite(record.loss):
            return "the loss is not a finite number"
        recent = self._good[-EVALUATIONS:]
        usual = median(recent) if len(recent) >= LEAST_EVALUATIONS else 0.0
        if usual >= LEAST_ACCURACY and record.accuracy < COLLAPSE * usual:
            return (
                f"the accuracy is {record.accuracy:.4f}: less than {COLLAPSE} of {usual:.4f} before"
            )
        self._good.append(record.accuracy)
        self.last_good = record.round
        return ""
