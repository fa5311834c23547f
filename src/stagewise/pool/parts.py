"""Parts of an instance for workers: some edges with everybody whom these may use."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stagewise.compiled import NONE
from stagewise.exact.columns import Columns
from stagewise.exact.prices import Prices
from stagewise.search.blocks import candidate_rank, cut_out
from stagewise.search.instance import Instance
from stagewise.world.scenario import IntArray


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive edges as an instance of their own; parts may share clients."""

    instance: Instance
    first: int
    """The first edge's number in the whole."""
    clients: IntArray
    """The clients' numbers in the whole; ascending."""

    def own(self, prices: Prices) -> Prices:
        """The part's share of `prices`."""
        last = self.first + len(self.instance.capacity)
        return Prices(prices.client[self.clients], prices.delay[self.first : last])

    def in_whole(self, columns: Columns) -> Columns:
        """Columns of the part in the numbers of the whole."""
        members = np.where(columns.members == NONE, NONE, self.clients[columns.members])
        return replace(
            columns,
            edge=columns.edge + np.int32(self.first),
            members=members.astype(np.int32),
        )


def parts(instance: Instance, edges_of_each: int) -> Iterator[Part]:
    """The instance cut into parts of so many edges."""
    rank = candidate_rank(instance)
    edges = len(instance.capacity)
    for first in range(0, edges, edges_of_each):
        last = min(first + edges_of_each, edges)
        links = instance.candidate[instance.candidate_start[first] : instance.candidate_start[last]]
        clients = np.unique(instance.link_client[links])
        own = cut_out(instance, np.arange(first, last), clients, rank, instance.outside)
        yield Part(own, first, clients)
