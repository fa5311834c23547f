"""FedLECC: from clusters of clients with similar labels, those with the highest losses.

D. M. Jimenez-Gutierrez et al.: FedLECC: Cluster- and Loss-Guided Client Selection for Federated Learning
under Non-IID Data. arXiv:2603.08911, 2026.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.selection.known_losses import KnownLosses
from stagewise.selection.selector import Selector, candidates, checked_k, number_of_clients
from stagewise.world.checks import whole
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario


@dataclass(eq=False)
class FedLecc(Selector):
    """As many clients from each of the clusters of highest mean loss, those of highest loss first.

    Published are the distance (Hellinger, between the shares of labels), that clusters of high mean
    loss come first, and that clients of high loss do within them. Chosen here: k-means of scikit-learn;
    clients that told no loss yet come first; and where a cluster has too few, all clusters fill up in
    turn, each with the highest loss it has left.

    Parameters
    ----------
    k : int, optional
        How many clients; by default what the round needs (`number_of_clients`).
    clusters : int
        From how many clusters.
    among : int
        Of how many that clients are put into.
    scenario : Scenario, optional
        Where given, its clients are put into clusters at once, and not in the first round.
    """

    k: int | None = None
    clusters: int = 5
    among: int = 10
    scenario: Scenario | None = None

    def __post_init__(self) -> None:
        checked_k(self.k)
        whole("clusters", self.clusters, 1)
        whole("among", self.among, 1)
        self._losses = KnownLosses()
        self._label_counts: IntArray | None = None
        self._cluster = np.zeros(0, dtype=np.int64)
        if self.scenario is not None:
            self._cluster_of(self.scenario.clients.label_counts)

    def select(self, round_: Round) -> IntArray:
        clients = candidates(round_)
        count = number_of_clients(self.k, round_, len(clients))
        if count == 0:
            return clients
        loss = self._losses.of(clients, len(round_.online))
        loss = np.where(np.isnan(loss), np.inf, loss)
        cluster = self._cluster_of(round_.scenario.clients.label_counts)[clients]
        _, cluster, size = np.unique(cluster, return_inverse=True, return_counts=True)
        mean = np.bincount(cluster, weights=loss) / size
        ranked = np.argsort(-loss, kind="stable")
        members = [ranked[cluster[ranked] == number] for number in np.argsort(-mean, kind="stable")]
        each = ceil(count / len(members[: self.clusters]))
        first = [some[:each] for some in members[: self.clusters]]
        left = [some[each:] for some in members[: self.clusters]] + members[self.clusters :]
        turn = np.concatenate([np.arange(len(some)) for some in left])
        in_turn = np.concatenate(left)[np.argsort(turn, kind="stable")]
        chosen: IntArray = clients[np.concatenate([*first, in_turn])]
        return chosen[:count]

    def _cluster_of(self, label_counts: IntArray) -> IntArray:
        if self._label_counts is not label_counts:
            self._label_counts = label_counts
            self._cluster = label_clusters(label_counts, self.among)
        return self._cluster

    def observe(self, outcome: Outcome) -> None:
        self._losses.observe(outcome)

    def state(self) -> State:
        return self._losses.state()

    def restore(self, state: State) -> None:
        self._losses.restore(state)


def label_clusters(label_counts: IntArray, among: int) -> IntArray:
    """The cluster of each client by the Hellinger distance of its labels, shape (clients,)."""
    from sklearn.cluster import KMeans

    # Hellinger's distance is the Euclidean one between the roots of the shares.
    roots = np.sqrt(label_counts / label_counts.sum(axis=1, keepdims=True)) / np.sqrt(2)
    count = min(among, len(np.unique(roots, axis=0)))
    found: IntArray = KMeans(count, n_init=4, random_state=0).fit(roots).labels_.astype(np.int64)
    return found
