"""Blocks: parts of an instance, small enough to be searched quickly, each an instance of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stagewise.compiled import NONE
from stagewise.problem.risk_kernels import LabelRows
from stagewise.search.instance import Instance, Outside
from stagewise.search.neighbourhoods import cheapest_links, link_price
from stagewise.search.state import State
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Block:
    """A part of an instance: some edges, and the clients that these alone may use."""

    instance: Instance
    edges: IntArray
    """The edges' numbers in the whole; ascending."""
    clients: IntArray
    """The clients' numbers in the whole; ascending."""

    def part_of(self, assignment: IntArray) -> IntArray:
        """The block's share of an assignment of the whole, in the block's own numbers."""
        edge = assignment[self.clients]
        return np.where(edge == UNASSIGNED, UNASSIGNED, np.searchsorted(self.edges, edge))

    def put_into(self, assignment: IntArray, part: IntArray) -> None:
        """Write the block's share into an assignment of the whole."""
        assignment[self.clients] = np.where(part == UNASSIGNED, UNASSIGNED, self.edges[part])


def cut_into_blocks(instance: Instance, state: State, block_of: IntArray) -> Iterator[Block]:
    """The blocks of edges with the same number in `block_of`, by number, at the state's assignment.

    A client that serves belongs to its edge's block. Any other is offered to one block alone: where
    an edge in violation may use it or else where it is cheapest.
    """
    block_of_client = _blocks_of_clients(instance, state, block_of)
    rank = candidate_rank(instance)
    blocks = int(block_of.max()) + 1
    outside = _outside(instance, state, block_of, block_of_client, blocks)
    clients = _groups(block_of_client, blocks)
    edges = _groups(block_of, blocks)
    for number in range(blocks):
        part = cut_out(instance, edges[number], clients[number], rank, outside[number])
        yield Block(part, edges[number], clients[number])


def _blocks_of_clients(instance: Instance, state: State, block_of: IntArray) -> IntArray:
    """The block of each client; -1 for one without links."""
    price = link_price(instance)
    in_need = state.violation[instance.link_edge] > 0
    price = np.where(in_need, price - 1.0 - price.max(initial=0.0), price)
    found = np.full(len(instance.lock), NONE, dtype=np.int64)
    cheapest = cheapest_links(instance, price)
    found[instance.link_client[cheapest]] = block_of[instance.link_edge[cheapest]]
    serving = np.flatnonzero(state.edge_of != UNASSIGNED)
    found[serving] = block_of[state.edge_of[serving]]
    return found


def _groups(number_of: IntArray, groups: int) -> list[IntArray]:
    """The members of each group, ascending; a number of -1 is in none."""
    order = np.argsort(number_of, kind="stable")
    ends = np.searchsorted(number_of[order], np.arange(groups + 1))
    return [order[ends[group] : ends[group + 1]] for group in range(groups)]


def _outside(
    instance: Instance, state: State, block_of: IntArray, block_of_client: IntArray, blocks: int
) -> list[Outside]:
    """For each block, what serves in all the others."""
    slowest = np.zeros(blocks)
    np.maximum.at(slowest, block_of, state.delay)
    order = np.argsort(slowest)
    others_slowest = np.full(blocks, slowest[order[-1]])
    others_slowest[order[-1]] = slowest[order[-2]] if blocks > 1 else 0.0

    serving = np.flatnonzero(state.edge_of != UNASSIGNED)
    block = block_of_client[serving]

    def in_others(amount: FloatArray) -> FloatArray:
        return np.asarray(amount.sum() - np.bincount(block, amount, minlength=blocks))

    log_probability = in_others(instance.log_probability[serving])
    count = in_others(np.ones(len(serving)))
    never = in_others((instance.probability[serving] <= 0).astype(np.float64))
    return [
        Outside(*row)
        for row in np.column_stack([others_slowest, log_probability, count, never]).tolist()
    ]


def candidate_rank(instance: Instance) -> IntArray:
    """Where each link stands among the candidates."""
    rank = np.empty(len(instance.candidate), dtype=np.int64)
    rank[instance.candidate] = np.arange(len(rank))
    return rank


def cut_out(
    instance: Instance, edges: IntArray, clients: IntArray, rank: IntArray, outside: Outside
) -> Instance:
    """The instance of these edges and clients alone."""
    own_number = np.full(len(instance.capacity), NONE, dtype=np.int64)
    own_number[edges] = np.arange(len(edges))
    start, links = _rows(instance.link_start, clients)
    client = np.repeat(np.arange(len(clients)), np.diff(start))
    edge = own_number[instance.link_edge[links]]
    inside = edge >= 0
    links, client, edge = links[inside], client[inside], edge[inside]
    rows, samples = instance.rows, instance.samples
    label_start, labels = _rows(rows.start, clients)
    return instance._replace(
        link_start=_starts(np.bincount(client, minlength=len(clients))),
        link_edge=edge,
        link_client=client,
        link_delay=instance.link_delay[links],
        link_energy=instance.link_energy[links],
        candidate_start=_starts(np.bincount(edge, minlength=len(edges))),
        candidate=np.argsort(rank[links]),
        rows=LabelRows(label_start, rows.label[labels], rows.amount[labels], rows.data[clients]),
        probability=instance.probability[clients],
        log_probability=instance.log_probability[clients],
        capacity=instance.capacity[edges],
        in_round=instance.in_round[edges],
        edges_in_round=int(instance.in_round[edges].sum()),
        uplink_delay=instance.uplink_delay[edges],
        uplink_energy=instance.uplink_energy[edges],
        lock=instance.lock[clients],
        zobrist=instance.zobrist[clients],
        samples=samples[clients] if len(samples) else samples,
        outside=outside,
    )


def _rows(start: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The chosen rows of a compressed table: where each begins now, and their entries' places."""
    length = start[chosen + 1] - start[chosen]
    new_start = _starts(length)
    shift = np.repeat(start[chosen] - new_start[:-1], length)
    return new_start, np.arange(int(new_start[-1])) + shift


def _starts(length: IntArray) -> IntArray:
    start = np.zeros(len(length) + 1, dtype=np.int64)
    np.cumsum(length, out=start[1:])
    return start
