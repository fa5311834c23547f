"""Clusters of AIoTwin's orchestrator: a line a node, with what its links cost."""

from pathlib import Path

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.csv_file import number_in, read_csv
from stagewise.world.scenario import FloatArray

_CLOUD, _EDGE, _CLIENT = "global_aggregator", "local_aggregator", "client"


def read_cluster(path: Path) -> tuple[FloatArray, FloatArray]:
    """What the links of clients to aggregators cost, and of these to the one above them.

    A line has a node's name, its role, and `node:cost, ...` for all that it reaches; then its share of a
    CPU and of the data, which are not read.

    Returns
    -------
    cost : array of float, shape (clients, aggregators)
        0 without a link.
    uplink : array of float, shape (aggregators,)
    """
    table = read_csv(path)
    rows = [table.header, *table.rows]  # there is no line that names the columns
    lines = [table.header_line, *table.lines]
    links: dict[str, dict[str, dict[str, float]]] = {_CLOUD: {}, _EDGE: {}, _CLIENT: {}}
    for line, row in zip(lines, rows, strict=True):
        where = f"{path}: line {line}"
        if len(row) < 3 or row[1] not in links:
            role = shown(row[1]) if len(row) > 1 else "none"
            raise StagewiseError(f"{where}: role = {role}: must be one of {', '.join(links)}")
        if any(row[0] in named for named in links.values()):
            raise StagewiseError(f"{where}: node = {shown(row[0])}: must not occur twice")
        links[row[1]][row[0]] = _costs(where, row[2])
    edges, clients = links[_EDGE], links[_CLIENT]
    if len(links[_CLOUD]) != 1 or not edges or not clients:
        counts = ", ".join(f"{len(named)} {role}" for role, named in links.items())
        raise StagewiseError(f"{path}: has {counts}: must have one, and some of the others")
    [cloud] = links[_CLOUD]
    for edge, reached in edges.items():
        if cloud not in reached:
            raise StagewiseError(f"{path}: {edge}: must have a link to {cloud}")
    cost = [[reached.get(edge, 0.0) for edge in edges] for reached in clients.values()]
    return np.array(cost), np.array([reached[cloud] for reached in edges.values()])


def _costs(where: str, text: str) -> dict[str, float]:
    """`n2:20,n3:60` by node."""
    costs = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        node, _, number = pair.partition(":")
        cost = number_in(number)
        if cost is None or not 0 < cost < np.inf:
            raise StagewiseError(f"{where}: {shown(pair)}: must be a node and a cost above 0")
        costs[node.strip()] = float(cost)
    return costs
