"""Numerical scenarios: clients spread over a square, edges on a jittered grid (Sec. V)."""

import math

import numpy as np

from stagewise.randomness import generator
from stagewise.world.checks import frozen, interval, seed_number, whole
from stagewise.world.generate.coverage import covering_links
from stagewise.world.generate.system import LARGEST_SIZE, SystemParameters, draw_system
from stagewise.world.generate.tasks import Task, task_of
from stagewise.world.scenario import FloatArray, Limits, Links, Scenario, Weights

SPACING_M = 250.0
"""The side of the square is this times the square root of the number of edges."""

_JITTER = 0.25
"""How far an edge may stand from the middle of its cell, along each axis, in cells."""


def numeric(
    clients: int = 93,
    edges: int = 4,
    seed: int = 0,
    *,
    task: str | Task = "mnist",
    radius_m: float = 300.0,
    gain_range: tuple[float, float] = (1e-9, 1e-8),
    parameters: SystemParameters | None = None,
    weights: Weights | None = None,
    limits: Limits | None = None,
) -> Scenario:
    """A scenario with clients `c0`, `c1`, ... and edges `es0`, `es1`, ... at random places.

    Four edges share the paper's 500 m x 500 m; other numbers a square of the same density.

    Parameters
    ----------
    clients, edges : int
        How many there are.
    seed : int
        Of every random draw.
    task : str or Task
        The learning task: `mnist`, `cifar10`, ..., or one of your own.
    radius_m : float
        How far an edge reaches; a client out of every edge's reach is linked to the nearest.
    gain_range : pair of float
        Channel gains are uniform in it.
    parameters : SystemParameters, optional
        What clients and edges draw from; by default the paper's.
    weights : Weights, optional
        Of delay, energy and continuity.
    limits : Limits, optional
        What every edge must keep.

    Examples
    --------
    >>> import stagewise
    >>> stagewise.generate.numeric(clients=6, edges=2, seed=0).clients.ids
    ('c0', 'c1', 'c2', 'c3', 'c4', 'c5')
    """
    whole("clients", clients, 1, LARGEST_SIZE)
    whole("edges", edges, 1, LARGEST_SIZE)
    seed_number(seed)
    interval("gain_range", gain_range, 0, open_below=True)
    chosen_task = task_of(task)

    side_m = SPACING_M * math.sqrt(edges)
    client_xy = generator(seed, "client positions").uniform(0, side_m, (clients, 2))
    edge_xy = _jittered_grid(edges, side_m, generator(seed, "edge positions"))
    start, edge, _ = covering_links(client_xy, edge_xy, radius_m)
    gain = generator(seed, "gain").uniform(*gain_range, len(edge))
    return draw_system(
        client_ids=tuple(f"c{number}" for number in range(clients)),
        edge_ids=tuple(f"es{number}" for number in range(edges)),
        client_xy=client_xy,
        edge_xy=edge_xy,
        links=Links(start=frozen(start), edge=frozen(edge), gain=frozen(gain)),
        seed=seed,
        task=chosen_task,
        parameters=parameters,
        weights=weights,
        limits=limits,
    )


def _jittered_grid(points: int, side_m: float, rng: np.random.Generator) -> FloatArray:
    """Points of shape (points, 2) in rows of nearly equal number, each moved within its cell."""
    rows = max(1, round(math.sqrt(points)))
    # Rows differ by at most one point, so that no corner of the square is left without an edge.
    ends = points * np.arange(1, rows + 1) // rows
    row = np.searchsorted(ends, np.arange(points), side="right")
    in_row = np.diff(ends, prepend=0)
    column = np.arange(points) - (ends - in_row)[row]
    cell = np.column_stack([side_m / in_row[row], np.full(points, side_m / rows)])
    middle = np.column_stack([column, row]) + 0.5
    return np.asarray((middle + rng.uniform(-_JITTER, _JITTER, (points, 2))) * cell)
