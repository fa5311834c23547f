"""The library: for every edge its cheapest clusters over all clients, the likely ones preferred."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stagewise.exact.clusters import Market, build_market
from stagewise.exact.columns import Columns, enumerate_columns, select
from stagewise.problem.statement import Problem
from stagewise.search.instance import Instance, build_instance
from stagewise.world.scenario import FloatArray, IntArray, Scenario

CLUSTERS_PER_EDGE = 25_000
_NODES = 10_000_000
# What a nat of unlikelihood costs, in units of what one client costs.
_UNLIKELY = 0.1
_MISSING = -1


@dataclass(frozen=True, eq=False)
class Prices:
    """What a client, and a second of an edge's delay, cost when a round's pricing starts."""

    client: FloatArray
    delay: FloatArray


def even_prices(scenario: Scenario) -> Prices:
    """Clients for nothing, the weight of delay spread evenly over the edges."""
    edges = len(scenario.edges)
    return Prices(np.zeros(len(scenario.clients)), np.full(edges, scenario.weights.delay / edges))


@dataclass(frozen=True, eq=False)
class Library:
    """Clusters of all edges: rows start[j]:start[j+1] belong to edge j."""

    start: IntArray
    clients: npt.NDArray[np.int32]
    """Shape (clusters, most members): the members, -1 beyond the last."""
    links: npt.NDArray[np.int32]
    """The members' links to the cluster's edge, in the same places."""
    prices: Prices

    def __len__(self) -> int:
        return len(self.links)


def build_library(scenario: Scenario, clusters_per_edge: int = CLUSTERS_PER_EDGE) -> Library:
    """The cheapest clusters of every edge, by energy, delay and how unlikely their members are."""
    everybody = np.ones(len(scenario.clients), dtype=np.bool_)
    instance = build_instance(Problem(scenario, scenario.costs, everybody))
    unlikely = -np.log(np.maximum(scenario.clients.online_probability, 1e-6))
    price = _UNLIKELY * instance.price_scale * unlikely
    second = instance.delay_weight / len(scenario.edges)
    parts = [
        _cheapest(instance, build_market(instance, edge, price, second), price, clusters_per_edge)
        for edge in range(len(scenario.edges))
    ]
    width = max(part.members.shape[1] for part in parts)
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    clients = np.concatenate([_padded(part.members, width) for part in parts])
    return Library(start, clients, member_links(scenario, start, clients), even_prices(scenario))


def _cheapest(instance: Instance, market: Market, price: FloatArray, wanted: int) -> Columns:
    """About the `wanted` cheapest clusters of one edge: the cap is raised until there are enough."""
    best = enumerate_columns(instance, market, np.inf, most=1, nodes=_NODES, best_only=True)
    if len(best.columns) == 0:
        return best.columns
    edges = len(instance.capacity)
    second = np.full(edges, instance.delay_weight / edges)
    least = float(best.columns.reduced_costs(instance, np.zeros(edges), price, second)[0])
    low, high = least, np.inf
    cap = 1.3 * least
    kept = best.columns
    # Where not even the cheapest could be proven, no price prunes, and lower caps do not help.
    for _ in range(6 if best.complete else 1):
        found = enumerate_columns(instance, market, cap, most=3 * wanted, nodes=_NODES)
        if found.complete:
            kept, low = found.columns, cap
            if len(kept) >= wanted or cap > 20 * least:
                break
            cap = min(1.25 * cap, 0.5 * (low + high)) if np.isfinite(high) else 1.25 * cap
        else:
            if len(kept) < wanted // 10:
                kept = found.columns  # not the cheapest, but clusters all the same
            high = cap
            cap = 0.5 * (low + high)
    if len(kept) < wanted and np.isinf(high):  # few there are: take them all, whatever they cost
        found = enumerate_columns(instance, market, np.inf, most=3 * wanted, nodes=_NODES)
        if len(found.columns) > len(kept):
            kept = found.columns
    if len(kept) > wanted:
        costs = kept.reduced_costs(instance, np.zeros(edges), price, second)
        kept = select(kept, np.argpartition(costs, wanted)[:wanted])
    return kept


def _padded(members: npt.NDArray[np.int32], width: int) -> npt.NDArray[np.int32]:
    missing = width - members.shape[1]
    return np.pad(members, ((0, 0), (0, missing)), constant_values=_MISSING)


def member_links(
    scenario: Scenario, start: IntArray, clients: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """The link of each member to its cluster's edge; -1 beyond the last member, or without a link."""
    links = np.full(clients.shape, _MISSING, dtype=np.int32)
    row, place = np.nonzero(clients >= 0)
    edge = np.repeat(np.arange(len(start) - 1), np.diff(start))[row]
    links[row, place] = scenario.links.find(clients[row, place].astype(np.int64), edge)
    return links
