"""Who trains: the base class of selectors, and what each of them needs of a round."""

from abc import ABC, abstractmethod
from math import ceil

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.selection.component import Component
from stagewise.world.checks import frozen_array, whole
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray


class Selector(Component, ABC):
    """Chooses who trains in a round; only `select` must be written.

    A selector made again with the same seed, and told the same, must choose the same.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> class MostData(stagewise.Selector):
    ...     def select(self, round_):
    ...         clients = stagewise.candidates(round_)
    ...         return clients[np.argsort(-round_.scenario.clients.data[clients])][:5]
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> policy = stagewise.Compose(MostData(), stagewise.make_associator("nearest", scenario))
    >>> [round_] = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> int((policy.decide(round_).edge_of >= 0).sum())
    5
    """

    uses_feedback = False  # unless it takes something in

    @abstractmethod
    def select(self, round_: Round) -> IntArray:
        """The numbers of the clients that train, in any order, from `candidates(round_)`."""

    def probe(self, round_: Round) -> IntArray | None:
        """The candidates whose loss under the present model is asked for before `select`."""
        return None

    def told(self, clients: IntArray, losses: FloatArray) -> None:
        """Take in the losses that `probe` asked for; NaN where nobody knows."""


def candidates(round_: Round) -> IntArray:
    """The numbers of those who are online and have a link that is up, ascending.

    Parameters
    ----------
    round_ : Round
        The round that is to be decided.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> scenario = stagewise.generate.numeric(clients=4, edges=1, seed=0)
    >>> stagewise.candidates(stagewise.Round(scenario, np.array([True, False, True, True])))
    array([0, 2, 3])
    """
    able = np.zeros(len(round_.online), dtype=np.bool_)
    able[round_.scenario.links.client[round_.usable]] = True
    return np.flatnonzero(able)


def checked_clients(round_: Round, given: object, where: str) -> IntArray:
    """The client numbers `given`, ascending, if each is once one of `candidates(round_)`."""
    numbers: IntArray = np.sort(frozen_array(where, given, np.int64), axis=None)
    strange = np.setdiff1d(numbers, candidates(round_))
    if len(strange):
        raise StagewiseError(
            f"{where} gave {strange[0]}: must be the number of an online client with a link that is up"
        )
    if (numbers[1:] == numbers[:-1]).any():
        twice = numbers[1:][numbers[1:] == numbers[:-1]][0]
        raise StagewiseError(f"{where} gave {twice} twice: must give a client once")
    return numbers


def number_of_clients(k: int | None, round_: Round, among: int) -> int:
    """`k`, or how many a round needs where it is None; at most `among`.

    What a round needs: so many clients of average data that every edge of the round has `data_min`.
    Oort asks for 1.3 times as many and keeps the fastest; here everybody who is chosen trains. With
    the pool's association more are needed, of whom it leaves some out.
    """
    if k is None:
        needed = int(round_.edges_up.sum()) * round_.scenario.limits.data_min
        k = max(1, ceil(needed / float(round_.scenario.clients.data.mean())))
    return min(k, among)


def checked_k(k: int | None) -> int | None:
    """`k` if it is a number of clients, or None."""
    return None if k is None else whole("k", k, 1)


def least_delay_s(round_: Round) -> FloatArray:
    """The seconds of a whole round for each client over its fastest usable link; else infinite."""
    links, fastest = round_.scenario.links, np.full(len(round_.online), np.inf)
    delay = round_.scenario.edge_rounds * round_.costs.delay_s
    np.minimum.at(fastest, links.client[round_.usable], delay[round_.usable])
    return fastest


def sample(
    rng: np.random.Generator, clients: IntArray, weights: FloatArray, count: int
) -> IntArray:
    """`count` of `clients` without replacement, each draw by `weights`; those of weight 0 come last."""
    # The order of exponential draws over weights is that of draws one by one (Efraimidis, Spirakis).
    with np.errstate(divide="ignore"):
        turn = rng.exponential(size=len(clients)) / weights
    return clients[np.argsort(turn, kind="stable")][:count]
