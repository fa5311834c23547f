"""Columns: the clusters found so far, with the figures that do not depend on any price."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from stagewise.compiled import NONE
from stagewise.exact.clusters import (
    EdgeCandidates,
    enumerate_clusters,
    new_enumeration_workspace,
)
from stagewise.exact.cuts import crossings, incidence
from stagewise.exact.prices import Prices
from stagewise.search.instance import AT_ITS_EDGE, Instance
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Columns:
    """Clusters of all edges, one row each."""

    edge: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]
    """Shape (clusters, most members): clients, -1 beyond the last; pinned clients are left out."""
    energy: FloatArray
    """The edge's energy in the round, uplink and pinned clients included."""
    delay: FloatArray

    def __len__(self) -> int:
        return len(self.edge)

    def reduced_costs(
        self, instance: Instance, edge_dual: FloatArray, prices: Prices
    ) -> FloatArray:
        """What each cluster costs above its edge's dual at the given prices."""
        padded = np.append(prices.client, 0.0)  # index -1 is no client
        costs = (
            instance.energy_weight * self.energy
            + prices.delay[self.edge] * self.delay
            + padded[self.members].sum(axis=1)
            - edge_dual[self.edge]
        )
        if len(prices.cuts.price):
            costs += crossings(self.held(instance), prices.cuts.items) @ prices.cuts.price
        return np.asarray(costs)

    def held(self, instance: Instance) -> csr_matrix:
        """Which items of cuts each cluster has."""
        return incidence(self.edge, self.members, len(instance.lock), len(instance.capacity))


@dataclass(frozen=True)
class Enumeration:
    """The outcome of one enumeration."""

    columns: Columns
    complete: bool
    nodes: int
    left_out: float
    """No cluster below the cap that is missing costs less than this."""


def enumerate_columns(
    instance: Instance,
    candidates: EdgeCandidates,
    cap: float,
    *,
    max_clusters: int,
    nodes: int,
    best_only: bool = False,
    stop: npt.NDArray[np.int8] | None = None,
) -> Enumeration:
    """The clusters of one edge with a price of at most `cap`; at most `max_clusters`, in `nodes` steps.

    Another thread may end the search by setting stop[0].
    """
    stop = np.zeros(1, dtype=np.int8) if stop is None else stop
    work = new_enumeration_workspace(candidates, 1 if best_only else max_clusters, stop)
    written, visited, complete, left_out = enumerate_clusters(
        candidates, cap, best_only, nodes, work
    )
    columns = _columns_at(
        instance, candidates.edge, candidates.link, work.members[:written], work.size[:written]
    )
    return Enumeration(columns, bool(complete), int(visited), float(left_out))


def _columns_at(
    instance: Instance,
    edge: int,
    links: IntArray,
    members: npt.NDArray[np.int32],
    sizes: IntArray,
) -> Columns:
    """Clusters of one edge as columns; row r holds the first sizes[r] of members[r], places in `links`.

    The edge's pinned clients are in each of them.
    """
    inside = np.arange(members.shape[1]) < sizes[:, None]
    used = links[members[inside]]
    clients = np.full(inside.shape, NONE, dtype=np.int32)
    clients[inside] = instance.link_client[used]
    energies, delays = np.zeros((2, *inside.shape))
    energies[inside] = instance.link_energy[used]
    delays[inside] = instance.link_delay[used]
    base = instance.candidate[instance.candidate_start[edge] : instance.candidate_start[edge + 1]]
    base = base[instance.lock[instance.link_client[base]] == AT_ITS_EDGE]
    slowest = delays.max(axis=1, initial=float(instance.link_delay[base].max(initial=0.0)))
    return Columns(
        edge=np.full(len(sizes), edge, dtype=np.int32),
        members=clients,
        energy=energies.sum(axis=1)
        + (instance.link_energy[base].sum() + instance.uplink_energy[edge]),
        delay=slowest + instance.uplink_delay[edge],
    )


def columns_of(instance: Instance, assignment: IntArray) -> Columns:
    """The clusters of `assignment`, edge by edge; every edge of the round must have clients."""
    edges = len(instance.capacity)
    serving = np.flatnonzero(assignment[instance.link_client] == instance.link_edge)
    serving = serving[np.argsort(instance.link_edge[serving], kind="stable")]
    edge, client = instance.link_edge[serving], instance.link_client[serving]
    energy = np.bincount(edge, instance.link_energy[serving], minlength=edges)
    delay = np.zeros(edges)
    np.maximum.at(delay, edge, instance.link_delay[serving])
    free = instance.lock[client] != AT_ITS_EDGE
    edge, client = edge[free], client[free]
    counts = np.bincount(edge, minlength=edges)
    members = np.full((edges, max(1, counts.max(initial=0))), NONE, dtype=np.int32)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    members[edge, place] = client
    return Columns(
        edge=np.arange(edges, dtype=np.int32),
        members=members,
        energy=energy + instance.uplink_energy,
        delay=delay + instance.uplink_delay,
    )


def edge_of(instance: Instance, chosen: Columns, pinned: IntArray | None = None) -> IntArray:
    """The edge of each client, or -1, where the clusters `chosen` serve besides the `pinned`."""
    assignment = np.full(len(instance.lock), UNASSIGNED, dtype=np.int64)
    if pinned is not None:
        assignment[:] = pinned
    row, place = np.nonzero(chosen.members != NONE)
    assignment[chosen.members[row, place]] = chosen.edge[row]
    return assignment


def shared_clients(edge: IntArray, client: npt.NDArray[np.integer[Any]], edges: int) -> csr_matrix:
    """How many clients two edges have in common, shape (edges, edges); of pairs that may repeat."""
    shape = (edges, int(client.max(initial=0)) + 1)
    incidence = csr_matrix((np.ones(len(edge)), (edge, client)), shape=shape)
    incidence.sum_duplicates()
    incidence.data[:] = 1
    return csr_matrix(incidence @ incidence.T)


def distinct(columns: Columns) -> Columns:
    """Each cluster once."""
    return select(columns, _distinct_rows(columns)[0])


def _distinct_rows(columns: Columns) -> tuple[IntArray, IntArray]:
    """The first row of every cluster, and which of these each row repeats."""
    rows = np.column_stack([columns.edge, np.sort(columns.members, axis=1)])
    _, first, where = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, where.ravel()


def join(parts: list[Columns]) -> Columns:
    """All clusters of `parts`, padded to one width."""
    width = max(part.members.shape[1] for part in parts)
    members = [
        np.pad(p.members, ((0, 0), (0, width - p.members.shape[1])), constant_values=NONE)
        for p in parts
    ]
    figures = zip(*((part.edge, part.energy, part.delay) for part in parts), strict=True)
    edge, energy, delay = map(np.concatenate, figures)
    return Columns(edge, np.concatenate(members), energy, delay)


def with_columns(columns: Columns, others: Columns) -> tuple[Columns, IntArray]:
    """Each cluster of both once, and the rows that those of `others` have."""
    together = join([others, columns])
    first, where = _distinct_rows(together)
    return select(together, first), where[: len(others)]


def select(columns: Columns, rows: IntArray | npt.NDArray[np.bool_]) -> Columns:
    """The clusters in `rows`."""
    if rows.dtype == np.bool_:
        rows = np.flatnonzero(rows)
    return Columns(
        columns.edge[rows],
        columns.members.take(rows, axis=0),  # several times as fast as by index
        columns.energy[rows],
        columns.delay[rows],
    )
