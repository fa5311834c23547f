"""Prices: what the master's rows are worth."""

from dataclasses import dataclass

from stagewise.exact.cuts import NO_CUTS, Cuts
from stagewise.world.scenario import FloatArray


@dataclass(frozen=True, eq=False)
class Prices:
    """What a client, and a second of an edge's delay, cost; seconds together at most their weight."""

    client: FloatArray
    delay: FloatArray
    cuts: Cuts = NO_CUTS
    """What a cluster pays that has two items of a cut."""

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
