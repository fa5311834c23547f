"""ShapeFL's association: edges with data as diverse as possible, reached at little cost.

Y. Deng et al.: A Communication-Efficient Hierarchical Federated Learning Framework via Shaping Data
Distribution at Edge. IEEE/ACM Transactions on Networking 32(3), 2024, Sec. IV-C, Alg. 1 (GoA).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stagewise.selection.associator import Associator, links_of
from stagewise.world.checks import finite, one_of
from stagewise.world.costs import UNASSIGNED, transmission_delay_s
from stagewise.world.divergence import kl_divergence
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario


@dataclass(eq=False)
class ShapeFl(Associator):
    """Again and again the pair of client and edge that adds most diversity for its communication cost.

    Edges are given here, so that the paper's other half, which nodes act as edges (LoS), is left out.
    It compares clients by the updates of their last layer, in place of which their label shares stand:
    S_ij = 1 - cos(shares of i, shares of j). The cost of a link is the time of sending over it (the
    whole delay where it was measured), in units of the mean over the links in question.

    SHARE (ICDCS 2021), its forerunner, minimises the mean KLD of the edges in place of diversity. Its
    listing is in no public text, so that it is no method of its own here: `measure = "kld"` is its
    objective in the steps of GoA.

    Parameters
    ----------
    gamma : float
        What a unit of diversity, or of KLD, is worth in units of a link's mean cost. The paper's value
        belongs to its own costs; with 5 both sides count here.
    measure : {"diversity", "kld"}
        What makes an edge's data good.
    """

    gamma: float = 5.0
    measure: str = "diversity"

    def __post_init__(self) -> None:
        finite("gamma", self.gamma, 0)
        one_of("measure", self.measure, _MEASURES)

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        scenario, links = round_.scenario, links_of(round_, clients)
        client, edge = scenario.links.client[links], scenario.links.edge[links]
        data = _MEASURES[self.measure](scenario)
        sending = transmission_delay_s(scenario, round_.cpu_hz, round_.gain, round_.delay_s)[links]
        cost = sending / max(float(sending.sum()) / max(len(links), 1), np.finfo(float).tiny)
        room, edge_of = scenario.edges.capacity.copy(), np.full(len(round_.online), UNASSIGNED)
        # Alg. 1: delta J of every pair; kappa_e and |E| are the same for all, and part of gamma.
        change = cost.copy()
        for at in np.unique(edge):
            change[edge == at] -= self.gamma * data.gain(client[edge == at], int(at))
        waiting = room[edge] > 0
        while waiting.any():
            best = int(np.argmin(np.where(waiting, change, np.inf)))
            at = int(edge[best])
            edge_of[client[best]] = at
            room[at] -= 1
            data.add(int(client[best]), at)
            waiting &= client != client[best]
            waiting &= (edge != at) | (room[at] > 0)
            own = np.flatnonzero(waiting & (edge == at))
            change[own] = cost[own] - self.gamma * data.gain(client[own], at)
        return edge_of


class _EdgeData(Protocol):
    """The data at the edges as clients are added."""

    def gain(self, clients: IntArray, edge: int) -> FloatArray:
        """How much better the data of `edge` would be with each of `clients`."""
        ...

    def add(self, client: int, edge: int) -> None: ...


class _Diversity:
    """S of an edge: the mean of S_ij over all pairs of its samples; 0 with less than two."""

    def __init__(self, scenario: Scenario) -> None:
        counts = scenario.clients.label_counts
        self._size = scenario.clients.data.astype(np.float64)
        self._direction = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        edges = len(scenario.edges)
        self._sum, self._data, self._pairs = (
            np.zeros((edges, scenario.labels)),
            *np.zeros((2, edges)),
        )

    def gain(self, clients: IntArray, edge: int) -> FloatArray:
        size, data = self._size[clients], self._data[edge]
        after = self._pairs[edge] + self._added(clients, edge)
        return _mean(after, data + size) - _mean(self._pairs[edge], data)

    def add(self, client: int, edge: int) -> None:
        self._pairs[edge] += self._added(np.array([client]), edge)[0]
        self._sum[edge] += self._size[client] * self._direction[client]
        self._data[edge] += self._size[client]

    def _added(self, clients: IntArray, edge: int) -> FloatArray:
        """The sum of D_n D_j S_nj over the clients j of `edge`."""
        alike = self._direction[clients] @ self._sum[edge]
        return np.asarray(self._size[clients] * (self._data[edge] - alike))


def _mean(pairs: FloatArray, samples: FloatArray) -> FloatArray:
    """A sum over pairs as a mean over all (D_e choose 2) of them."""
    return np.asarray(pairs / np.maximum(samples * (samples - 1) / 2, 1))


class _Kld:
    """The divergence of an edge's labels, falling; an empty edge has the largest there is."""

    def __init__(self, scenario: Scenario) -> None:
        self._counts, self._target = scenario.clients.label_counts, scenario.target
        self._sum = np.zeros((len(scenario.edges), scenario.labels), dtype=np.int64)
        self._kld = np.full(len(scenario.edges), -np.log(self._target.min()))

    def gain(self, clients: IntArray, edge: int) -> FloatArray:
        after = kl_divergence(self._sum[edge] + self._counts[clients], self._target)
        return np.asarray(self._kld[edge] - after)

    def add(self, client: int, edge: int) -> None:
        self._sum[edge] += self._counts[client]
        self._kld[edge] = kl_divergence(self._sum[edge][None], self._target)[0]


_MEASURES: dict[str, Callable[[Scenario], _EdgeData]] = {"diversity": _Diversity, "kld": _Kld}
