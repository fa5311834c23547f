"""What is known of the losses of clients: the last that each of them told."""

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.world.scenario import FloatArray, IntArray


class KnownLosses:
    """The last loss of each client, NaN before its first; state for selectors that go by losses."""

    def __init__(self) -> None:
        self._loss = np.zeros(0)

    def of(self, clients: IntArray, count: int) -> FloatArray:
        """The last losses of `clients`, of `count` that there are."""
        self._reach(count)
        return self._loss[clients]

    def observe(self, outcome: Outcome) -> None:
        """Keep what the clients of a round tell of their training."""
        self._reach(len(outcome.decision.edge_of))
        told = outcome.clients
        # The mean over local steps is published; a round tells of its first and its last batch.
        self.tell(told.client, (told.loss_before + told.loss_after) / 2)

    def tell(self, clients: IntArray, losses: FloatArray) -> None:
        """Keep the losses that are known."""
        known = np.isfinite(losses)
        self._reach(int(clients.max(initial=-1)) + 1)
        self._loss = self._loss.copy()
        self._loss[clients[known]] = losses[known]

    def state(self) -> State:
        return {"loss": self._loss}

    def restore(self, state: State) -> None:
        self._loss = state["loss"]

    def _reach(self, count: int) -> None:
        missing = count - len(self._loss)
        if missing > 0:
            self._loss = np.concatenate([self._loss, np.full(missing, np.nan)])
