"""Everybody, or so many at random: what federated averaging does (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass

from stagewise.randomness import generator
from stagewise.selection.selector import Selector, candidates, checked_k, number_of_clients
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray


class AllOnline(Selector):
    """Everybody who is online.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> stagewise.make_policy("all-online", scenario).title
    'all-online'
    """

    def select(self, round_: Round) -> IntArray:
        return candidates(round_)


@dataclass(eq=False)
class RandomK(Selector):
    """`k` of those online, all sets equally likely.

    Parameters
    ----------
    k : int, optional
        How many; by default what the round needs (`number_of_clients`).
    seed : int
        Of the draws.
    """

    k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checked_k(self.k)

    def select(self, round_: Round) -> IntArray:
        clients = candidates(round_)
        count = number_of_clients(self.k, round_, len(clients))
        rng = generator(self.seed, "random selection", round_.index)
        return rng.choice(clients, count, replace=False)
