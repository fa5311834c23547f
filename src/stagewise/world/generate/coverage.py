"""Which edges cover which clients, found without ever comparing every client with every edge."""

import numpy as np
from scipy.spatial import cKDTree

from stagewise.errors import StagewiseError
from stagewise.world.checks import finite
from stagewise.world.scenario import FloatArray, IntArray

LARGEST_LINKS = 200_000_000


def covering_links(
    client_xyz: FloatArray, edge_xyz: FloatArray, radius: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """The links of clients to the edges within `radius`, or to the nearest where there is none.

    Parameters
    ----------
    client_xyz : array of float, shape (clients, d)
        Where clients are, in metres.
    edge_xyz : array of float, shape (edges, d)
        Where edges are, in metres.
    radius : float
        How far an edge reaches, in metres.

    Returns
    -------
    start, edge : array of int, shapes (clients + 1,) and (links,)
        The compressed rows of `Links`; edges ascend within a client.
    distance : array of float, shape (links,)
        The straight length of each link, in metres.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> clients, edges = np.array([[0.0, 0.0], [90.0, 0.0]]), np.array([[10.0, 0.0], [80.0, 0.0]])
    >>> start, edge, distance = stagewise.generate.covering_links(clients, edges, 20.0)
    >>> edge, distance
    (array([0, 1]), array([10., 10.]))
    """
    finite("radius_m", radius, 0, open_below=True)
    clients = len(client_xyz)
    client_tree, edge_tree = cKDTree(client_xyz), cKDTree(edge_xyz)
    expected = int(client_tree.count_neighbors(edge_tree, radius))
    if expected > LARGEST_LINKS:
        raise StagewiseError(
            f"radius_m = {radius:g}: makes {expected} links between {clients} clients and "
            f"{len(edge_xyz)} edges, and there must be at most {LARGEST_LINKS}"
        )
    near = client_tree.sparse_distance_matrix(edge_tree, radius, output_type="ndarray")
    client, edge, distance = near["i"], near["j"], near["v"]

    alone = np.flatnonzero(np.bincount(client, minlength=clients) == 0)
    if len(alone):
        nearest_distance, nearest = edge_tree.query(client_xyz[alone])
        client = np.concatenate([client, alone])
        edge = np.concatenate([edge, nearest])
        distance = np.concatenate([distance, nearest_distance])

    order = np.lexsort((edge, client))
    start = np.zeros(clients + 1, dtype=np.int64)
    np.cumsum(np.bincount(client, minlength=clients), out=start[1:])
    return start, edge[order].astype(np.int64), distance[order]
