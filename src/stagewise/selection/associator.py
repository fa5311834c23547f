"""Where clients train: the base class of associators, and placing clients one after the other."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from stagewise.selection.component import Component
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray


class Associator(Component, ABC):
    """Says at which edge each of the given clients trains; only `associate` must be written.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> class LastEdge(stagewise.Associator):
    ...     def associate(self, round_, clients):
    ...         edge_of = np.full(len(round_.online), -1)
    ...         linked = np.isin(clients, round_.scenario.links.client[round_.scenario.links.edge == 1])
    ...         edge_of[clients[linked]] = 1
    ...         return edge_of
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> selector = stagewise.make_selector("random-k,k=4", scenario)
    >>> [round_] = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> set(stagewise.Compose(selector, LastEdge()).decide(round_).edge_of.tolist()) <= {-1, 1}
    True
    """

    @abstractmethod
    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        """The edge of each client of the scenario; -1 for all but those of `clients` that are placed.

        Only usable links may be used, and no edge may have more clients than its capacity.
        """


def links_of(round_: Round, clients: IntArray) -> IntArray:
    """The usable links of `clients`, ascending."""
    asked = np.zeros(len(round_.online), dtype=np.bool_)
    asked[clients] = True
    return np.flatnonzero(round_.usable & asked[round_.scenario.links.client])


def place(round_: Round, links: Iterable[int]) -> IntArray:
    """Each client over the first of its `links` whose edge still has room."""
    edge_of_link, client_of_link = round_.scenario.links.edge, round_.scenario.links.client
    room = round_.scenario.edges.capacity.tolist()
    edge_of = [UNASSIGNED] * len(round_.online)
    for link in links:
        client, edge = int(client_of_link[link]), int(edge_of_link[link])
        if edge_of[client] == UNASSIGNED and room[edge] > 0:
            edge_of[client] = edge
            room[edge] -= 1
    return np.array(edge_of, dtype=np.int64)


def place_by(round_: Round, clients: IntArray, key: FloatArray) -> IntArray:
    """Each client over its link of least `key`, shape (links,); where an edge is full, the next.

    Links are taken in the order of their keys, so that a crowded edge keeps its closest clients.
    """
    links = links_of(round_, clients)
    return place(round_, links[np.argsort(key[links], kind="stable")])
