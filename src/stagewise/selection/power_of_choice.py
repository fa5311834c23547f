"""Power-of-Choice: of some candidates, those with the highest loss.

Y. J. Cho, J. Wang, G. Joshi: Towards Understanding Biased Client Selection in Federated Learning.
AISTATS 2022 (arXiv:2010.01243): pow-d and rpow-d.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.randomness import generator
from stagewise.selection.known_losses import KnownLosses
from stagewise.selection.selector import (
    Selector,
    candidates,
    checked_k,
    number_of_clients,
    sample,
)
from stagewise.world.checks import whole
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray


@dataclass(eq=False)
class PowerOfChoice(Selector):
    """The `k` of highest loss among `d` candidates, who are drawn by their data.

    Where nobody can tell the losses of the present model, the last that each client told stand in,
    and clients that told none come first: the published variant rpow-d.

    Parameters
    ----------
    k : int, optional
        How many clients; by default what the round needs (`number_of_clients`).
    d : int, optional
        How many candidates; by default twice as many. The paper leaves it open, from `k` to all.
    seed : int
        Of the draws.
    """

    k: int | None = None
    d: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checked_k(self.k)
        if self.d is not None:
            whole("d", self.d, 1 if self.k is None else self.k)
        self._losses = KnownLosses()

    def _drawn(self, round_: Round) -> tuple[IntArray, int]:
        """The candidates of a round, and how many of them are selected."""
        clients = candidates(round_)
        count = number_of_clients(self.k, round_, len(clients))
        among = max(count, 2 * count if self.d is None else self.d)
        rng = generator(self.seed, "Power-of-Choice", round_.index)
        # Step 1: without replacement, client i with probability p_i, its share of the data.
        return sample(
            rng, clients, round_.scenario.clients.data[clients].astype(float), among
        ), count

    def probe(self, round_: Round) -> IntArray:
        return self._drawn(round_)[0]  # step 2

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        self._losses.tell(clients, losses)

    def select(self, round_: Round) -> IntArray:
        drawn, count = self._drawn(round_)
        losses = self._losses.of(drawn, len(round_.online))
        # Step 3; ties in the random order of the draw, as published. rpow-d: infinite before the first.
        ranked = np.argsort(-np.where(np.isnan(losses), np.inf, losses), kind="stable")
        return drawn[ranked][:count]

    def observe(self, outcome: Outcome) -> None:
        self._losses.observe(outcome)

    def state(self) -> State:
        return self._losses.state()

    def restore(self, state: State) -> None:
        self._losses.restore(state)
