"""The library: for every edge its cheapest clusters over all clients, the likely ones preferred.

Which clusters are cheap depends on what the other edges want: a client that all of them want is worth
more than its energy. So clients have prices, learned on sampled rounds, and a cluster's cost includes
those of its members.
"""

from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stagewise.compiled import NONE
from stagewise.exact.prices import Prices
from stagewise.pool.clusters import clusters_of_edges
from stagewise.pool.neighbours import neighbours
from stagewise.pool.parts import parts
from stagewise.pool.sizes import CLUSTERS_AT_ONCE
from stagewise.problem.statement import p0
from stagewise.search.instance import build_instance
from stagewise.search.workers import workers
from stagewise.world.costs import LinkCosts
from stagewise.world.rounds import everybody_online
from stagewise.world.scenario import IntArray, Scenario

# What a nat of unlikelihood costs, in units of what one client costs.
_UNLIKELY = 0.1
_EDGES_OF_A_TASK = 25

Members = npt.NDArray[np.int32]
"""Shape (clusters, most members): clients, or their links; -1 beyond the last."""


@dataclass(frozen=True, eq=False)
class Library:
    """Clusters of all edges: rows start[j]:start[j+1] belong to edge j."""

    start: IntArray
    clients: Members
    links: Members
    """The members' links to the cluster's edge, in the same places."""
    prices: Prices
    """Where a round's pricing starts."""
    costs: LinkCosts
    """What it was made for."""

    def __len__(self) -> int:
        return len(self.links)

    @cached_property
    def near(self) -> IntArray:
        """For every edge those that want the same clients."""
        edges = len(self.start) - 1
        return neighbours(edges, np.repeat(np.arange(edges), np.diff(self.start)), self.clients)


def unlearned_prices(scenario: Scenario) -> Prices:
    """Those of a system in which no round has been seen."""
    everywhere = np.ones(len(scenario.edges), dtype=np.bool_)
    return Prices.even(len(scenario.clients), scenario.weights.delay, everywhere)


def generate_library(
    scenario: Scenario, prices: Prices, clusters_per_edge: int, executor: Executor | None = None
) -> Library:
    """The cheapest clusters of every edge at `prices`, by how unlikely their members are, too."""
    instance = build_instance(p0(everybody_online(scenario)))
    unlikely = -np.log(np.maximum(scenario.clients.online_probability, 1e-6))
    priced = Prices(prices.client + _UNLIKELY * instance.price_scale * unlikely, prices.delay)
    with workers(executor) as pool:
        tasks = deque(
            (
                part,
                pool.submit(
                    clusters_of_edges,
                    part.instance,
                    range(len(part.instance.capacity)),
                    part.own(priced),
                    clusters_per_edge,
                ),
            )
            for part in parts(instance, _EDGES_OF_A_TASK)
        )
        counts, members = list[IntArray](), deque[Members]()
        while tasks:  # what has been taken over is let go: of a million clients it is gigabytes
            part, task = tasks.popleft()
            columns = part.in_whole(task.result())
            edges = np.arange(part.first, part.first + len(part.instance.capacity) + 1)
            counts.append(np.diff(np.searchsorted(columns.edge, edges)))
            width = int((columns.members >= 0).sum(axis=1).max(initial=0))
            members.append(columns.members[:, :width].copy())
    return _library_of(scenario, np.concatenate(counts), members, prices)


def _library_of(
    scenario: Scenario, counts: IntArray, members: deque[Members], prices: Prices
) -> Library:
    """The library of edges with so many clusters each, whose `members`, part by part, are used up."""
    start = np.concatenate([[0], np.cumsum(counts)])
    width = max(1, *(part.shape[1] for part in members))
    clients = np.full((start[-1], width), NONE, dtype=np.int32)
    first = 0
    while members:
        part = members.popleft()
        clients[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return Library(start, clients, member_links(scenario, start, clients), prices, scenario.costs)


def member_links(scenario: Scenario, start: IntArray, clients: Members) -> Members:
    """The link of each member to its cluster's edge; -1 beyond the last member, or without a link."""
    links = np.full(clients.shape, NONE, dtype=np.int32)
    edge = np.repeat(np.arange(len(start) - 1), np.diff(start))
    for first in range(0, len(clients), CLUSTERS_AT_ONCE):
        rows = slice(first, first + CLUSTERS_AT_ONCE)
        row, place = np.nonzero(clients[rows] >= 0)
        found = scenario.links.find(clients[rows][row, place].astype(np.int64), edge[rows][row])
        links[rows][row, place] = found
    return links
