"""Prices: what the master's rows are worth."""

from dataclasses import dataclass

import numpy as np

from stagewise.exact.cuts import NO_CUTS, Cuts
from stagewise.world.scenario import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Prices:
    """What a client, and a second of an edge's delay, cost; seconds together at most their weight."""

    client: FloatArray
    delay: FloatArray
    cuts: Cuts = NO_CUTS
    """What a cluster pays that has two items of a cut."""

    @classmethod
    def even(cls, clients: int, delay_weight: float, in_round: BoolArray) -> "Prices":
        """Clients for nothing, the weight of delay spread evenly over the edges of the round."""
        share = delay_weight / max(1, int(in_round.sum()))
        return cls(np.zeros(clients), np.where(in_round, share, 0.0))

    @property
    def paid(self) -> float:
        """What clients and cuts get at the most, whatever disjoint clusters are chosen."""
        return float(self.client.sum() + self.cuts.price.sum())

    def mixed(self, other: "Prices", share: float) -> "Prices":
        """These prices with a `share` of the `other` ones, whose cuts are the first of these."""
        cuts = self.cuts.items
        return Prices(
            (1 - share) * self.client + share * other.client,
            (1 - share) * self.delay + share * other.delay,
            Cuts(cuts, (1 - share) * self.cuts.price + share * other.cuts.extended(len(cuts))),
        )
