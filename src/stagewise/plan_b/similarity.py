"""Which clients of an edge are alike: cosine similarity of scaled features, clustered by DBSCAN."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stagewise.world.costs import LinkCosts
from stagewise.world.scenario import FloatArray, IntArray, Scenario

NOISE = -1
SIMILARITY_MIN = 0.9
"""psi_min: neighbours are clients at least this similar."""
NEIGHBOURS_MIN = 3
"""P_min: a core point has this many neighbours, itself included."""


@dataclass(frozen=True, eq=False)
class EdgeClusters:
    """The clients an edge covers, their features u = [d, T, E] scaled to unit length, and clusters."""

    clients: IntArray
    place: dict[int, int]
    """Where a client stands in `clients`."""
    features: FloatArray
    cluster: IntArray

    def similarity(self, place: int) -> FloatArray:
        """psi between the client at `place` and every client of the edge."""
        return np.asarray(self.features @ self.features[place])


@lru_cache(maxsize=256)
def edge_clusters(scenario: Scenario, costs: LinkCosts, edge: int) -> EdgeClusters:
    """Alg. 4, lines 1-2, for one edge; the same while the costs are the same.

    Data sizes are in the hundreds and costs near one, so that unscaled vectors all point the same
    way. Each feature is therefore standardised over the edge's candidates first.
    """
    from sklearn.cluster import DBSCAN

    links = np.flatnonzero(scenario.links.edge == edge)
    clients = scenario.links.client[links]
    features = np.column_stack(
        [scenario.clients.data[clients], costs.delay_s[links], costs.energy_j[links]]
    ).astype(np.float64)
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    length = np.linalg.norm(features, axis=1, keepdims=True)
    features = features / np.where(length > 0, length, 1.0)
    distance = np.clip(1.0 - features @ features.T, 0.0, None)
    clustering = DBSCAN(
        eps=1.0 - SIMILARITY_MIN, min_samples=NEIGHBOURS_MIN, metric="precomputed"
    ).fit(distance)
    return EdgeClusters(
        clients=clients,
        place={int(client): place for place, client in enumerate(clients)},
        features=features,
        cluster=np.asarray(clustering.labels_),
    )
