"""Who takes part in a round, and with what weight."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.training.task import TrainingTask
from stagewise.world.scenario import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Participants:
    """The clients with data and the edges they train at, in a fixed order.

    Clients come by falling size of their batches, so that the longest work is begun first and
    clients that are trained at once have batches of like size.
    """

    clients: IntArray
    edge: IntArray
    """The edge of each client, counting only edges that take part."""
    weight: FloatArray
    """What each client's data is multiplied by in its edge's mean."""
    share: FloatArray
    """What each client counts for in its edge's mean (Eq. 2): d_i / D_j where all weights are 1."""
    data_share: FloatArray
    """The share of its edge's data that each client holds, d_i / D_j."""
    edge_share: FloatArray
    """The weight of each edge in the cloud's mean, D_j / D (Eq. 3)."""
    group: IntArray
    """The number of each edge among all groups."""

    @classmethod
    def of(
        cls,
        groups: Sequence[IntArray],
        task: TrainingTask,
        edge_weights: FloatArray | None,
        client_weights: FloatArray | None = None,
    ) -> "Participants":
        """Those among `groups` who have data.

        `edge_weights` replace D_j in Eq. 3; `client_weights`, one for every client of the task, are
        what d_i is multiplied by in Eq. 2.
        """
        clients, edge = _members(groups, len(task.data_sizes))
        held = task.data_sizes[clients] > 0
        clients, edge = clients[held], edge[held]
        order = np.lexsort((clients, -task.batch_sizes[clients]))
        clients, edge = clients[order], edge[order]
        sizes = task.data_sizes[clients]
        edge_data = np.zeros(len(groups))
        np.add.at(edge_data, edge, sizes)
        cloud = edge_data if edge_weights is None else _checked(edge_weights, edge_data)
        present, row = np.unique(edge, return_inverse=True)
        counted = cloud[present]
        weight = np.ones(len(clients))
        if client_weights is not None:
            weight = _checked_client_weights(client_weights, len(task.data_sizes))[clients]
        data_share = sizes / edge_data[edge]
        share = _shares(row, sizes, weight)
        edge_share = counted / max(counted.sum(), 1e-300)
        return cls(clients, row, weight, share, data_share, edge_share, present)

    def only(self, chosen: BoolArray) -> "Participants":
        """The `chosen` among the clients, with their shares in the mean and the data of their edge."""
        clients, edge, weight = self.clients[chosen], self.edge[chosen], self.weight[chosen]
        data = self.data_share[chosen]
        data_share = data / np.bincount(edge, data)[edge]
        share = _shares(edge, data, weight)
        return Participants(clients, edge, weight, share, data_share, self.edge_share, self.group)


def _shares(edge: IntArray, data: FloatArray | IntArray, weight: FloatArray) -> FloatArray:
    """What clients count for in their edge's mean, by data times weight."""
    largest = np.zeros(edge.max(initial=-1) + 1)
    np.maximum.at(largest, edge, weight)  # relative to it no product is too large, and one is not 0
    counted = data * (weight / largest[edge])
    return np.asarray(counted / np.bincount(edge, counted)[edge])


def _members(groups: Sequence[IntArray], clients: int) -> tuple[IntArray, IntArray]:
    """All clients of the groups, and the group of each."""
    arrays = [np.asarray(group, dtype=np.int64).ravel() for group in groups]
    members = np.concatenate([np.empty(0, dtype=np.int64), *arrays])
    wrong = members[(members < 0) | (members >= clients)]
    if wrong.size:
        raise StagewiseError(f"groups: client {wrong[0]}: must be from 0 to {clients - 1}")
    values, counts = np.unique(members, return_counts=True)
    if np.any(counts > 1):
        twice = values[counts > 1][0]
        raise StagewiseError(f"groups: client {twice}: must train at one edge, and once")
    return members, np.repeat(np.arange(len(arrays)), [len(array) for array in arrays])


def _checked_client_weights(client_weights: FloatArray, clients: int) -> FloatArray:
    given = np.asarray(client_weights, dtype=np.float64)
    if given.shape != (clients,) or not np.all(np.isfinite(given) & (given > 0)):
        raise StagewiseError(
            f"client_weights: must be {clients} finite numbers above 0, one a client"
        )
    return given


def _checked(edge_weights: FloatArray, edge_data: FloatArray) -> FloatArray:
    given = np.asarray(edge_weights, dtype=np.float64)
    if given.shape != edge_data.shape or not np.all(np.isfinite(given) & (given >= 0)):
        raise StagewiseError(
            f"edge_weights: must be {len(edge_data)} finite numbers of at least 0, one a group"
        )
    if edge_data.any() and not given[edge_data > 0].any():
        raise StagewiseError("edge_weights: must not be 0 for every edge that takes part")
    return given
