"""The edge that is nearest, fastest, any, the hash's, the emptiest, or the pool's."""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from stagewise.plan_b.pool import library_for, load_pool, searched_further
from stagewise.pool.pick import pick_from_library
from stagewise.problem.statement import p0
from stagewise.randomness import generator
from stagewise.search.instance import build_instance
from stagewise.selection.associator import Associator, links_of, place_by
from stagewise.world.costs import UNASSIGNED, transmission_delay_s
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario


class Nearest(Associator):
    """The nearest edge; where positions are missing, the one each client sends to fastest."""

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        scenario, links = round_.scenario, round_.scenario.links
        ends = scenario.clients.position_m, scenario.edges.position_m
        if ends[0] is not None and ends[1] is not None:
            distance = np.linalg.norm(ends[0][links.client] - ends[1][links.edge], axis=1)
            if not np.isnan(distance).any():
                return place_by(round_, clients, distance)
        sending = transmission_delay_s(scenario, round_.cpu_hz, round_.gain, round_.delay_s)
        return place_by(round_, clients, sending)


class LeastDelay(Associator):
    """The edge at which an edge round takes a client least time, training and sending."""

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        return place_by(round_, clients, round_.costs.delay_s)


@dataclass(eq=False)
class RandomEdge(Associator):
    """Any edge that a client reaches, drawn again in every round."""

    seed: int = 0

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        rng = generator(self.seed, "random association", round_.index)
        return place_by(round_, clients, rng.random(len(round_.scenario.links)))


class Hashed(Associator):
    """The edge that a hash of the names gives, the same in every round: what shipping systems do.

    Each pair of client and edge has a number, and a client takes the least of its own (rendezvous
    hashing): when an edge goes away, only its clients move.
    """

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        scenario, links = round_.scenario, round_.scenario.links
        key = np.full(len(links), np.inf)
        for link in links_of(round_, clients).tolist():
            client = scenario.clients.ids[links.client[link]]
            pair = f"{len(client)}:{client}{scenario.edges.ids[links.edge[link]]}".encode()
            digest = blake2b(pair, digest_size=6).digest()  # as many bits as a float holds exactly
            key[link] = int.from_bytes(digest, "big")
        return place_by(round_, clients, key)


class Balanced(Associator):
    """The edge whose capacity is used least; of equal ones the fastest.

    Those with the smallest choice of edges are placed first.
    """

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        scenario, links = round_.scenario, links_of(round_, clients)
        client, edge = scenario.links.client[links], scenario.links.edge[links]
        delay = round_.costs.delay_s[links]
        first, choice = np.unique(client, return_index=True, return_counts=True)[1:]
        capacity, load = scenario.edges.capacity, np.zeros(len(scenario.edges), dtype=np.int64)
        edge_of = np.full(len(round_.online), UNASSIGNED)
        for start, count in sorted(zip(first, choice, strict=True), key=lambda c: (c[1], c[0])):
            own = np.arange(start, start + count)
            own = own[load[edge[own]] < capacity[edge[own]]]
            if len(own):
                used = load[edge[own]] / capacity[edge[own]]
                at = edge[own[np.lexsort((delay[own], used))[0]]]
                edge_of[client[start]] = at
                load[at] += 1
        return edge_of


class PoolAssociator(Associator):
    """Ours: the cheapest clusters of the pool from the given clients, as if nobody else were online.

    Those that no edge needs to keep its limits are not placed: they are spared.

    Parameters
    ----------
    scenario : Scenario
        The system whose clusters are to be kept.
    seed : int
        Of the search where the clusters at hand do not suffice.
    seconds : float, optional
        The time that this search may take.
    """

    def __init__(self, scenario: Scenario, seed: int = 0, seconds: float | None = None) -> None:
        self._library, self._seed, self._seconds = library_for(scenario), seed, seconds
        load_pool(self._library)

    def associate(self, round_: Round, clients: IntArray) -> IntArray:
        there = np.zeros(len(round_.online), dtype=np.bool_)
        there[clients] = True
        among = replace(round_, online=there)
        problem = p0(among)
        instance = build_instance(problem)
        found = pick_from_library(instance, self._library, among)
        return searched_further(problem, instance, found, self._seed, self._seconds)
