"""How often and how lately each client has served, so that equally good clients take turns."""

import numpy as np

from stagewise.world.checks import finite
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray

_FADING = 0.5  # what a round more leaves of having served lately


class ServiceRecord:
    """Who has served, round after round.

    Where clients are nearly always online, the cheapest choice is the same in every round, and training
    sees the same data again and again. A weight above 0 makes a client dearer the more often and the
    more lately it has served; at 1 a client that serves all the time costs one typical client more.
    """

    def __init__(self, clients: int, weight: float = 0.0) -> None:
        self.weight = finite("diversity", weight, 0)
        self._rounds = 0
        self._times = np.zeros(clients)
        self._lately = np.zeros(clients)

    def remember(self, edge_of: IntArray) -> None:
        """Note who serves in a round."""
        served = edge_of != UNASSIGNED
        self._rounds += 1
        self._times += served
        self._lately = _FADING * self._lately + (1 - _FADING) * served

    def surcharge(self) -> FloatArray | None:
        """What each client costs more, in units of what one client costs; None where nothing does."""
        if self.weight == 0 or self._rounds == 0:
            return None
        return np.asarray(0.5 * self.weight * (self._times / self._rounds + self._lately))
