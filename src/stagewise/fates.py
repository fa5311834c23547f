"""What becomes of an update that was asked for."""

from typing import Literal, get_args

Fate = Literal["counted", "late", "rejected", "lost"]
"""Every update asked for ends in exactly one of these.

Counted: it is in its edge's mean. Late: its deadline passed without it; should it still come, it is
dropped. Rejected: it came, and is no model of the expected form, is too large an update, is left out by
the aggregator, or the client could not train. Lost: it is known not to come, or the model of its edge
did not count.
"""

FATES: tuple[Fate, ...] = get_args(Fate)
