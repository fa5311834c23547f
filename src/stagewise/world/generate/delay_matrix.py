"""Scenarios from delays that were measured: a matrix of clients and edges, whatever lies between."""

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError
from stagewise.world.checks import finite, fitting, frozen, frozen_array, seed_number
from stagewise.world.generate.system import SystemParameters, draw_common
from stagewise.world.generate.tasks import Task, task_of
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights


def from_delays(
    exchange_s: npt.ArrayLike,
    training_s: npt.ArrayLike,
    uplink_delay_s: npt.ArrayLike,
    seed: int = 0,
    *,
    task: str | Task = "mnist",
    parameters: SystemParameters | None = None,
    weights: Weights | None = None,
    limits: Limits | None = None,
) -> Scenario:
    """A scenario with clients `c0`, `c1`, ... and edges `es0`, `es1`, ... and the delays between them.

    Energy was not measured, so it has no weight. Who holds which data, how often clients are online and
    how many an edge can serve is drawn.

    Parameters
    ----------
    exchange_s : array of shape (clients, edges)
        Seconds in which a client gets the model from an edge and sends its own; 0 without a link.
    training_s : array of shape (clients,)
        Seconds of a client's local steps.
    uplink_delay_s : array of shape (edges,)
        Seconds between an edge and the cloud.
    seed : int
        Of every random draw.
    task : str or Task
        The learning task.
    parameters : SystemParameters, optional
        What is drawn from for what was not measured; by default the paper's.
    weights : Weights, optional
        That of energy must be 0; by default only delay counts.
    limits : Limits, optional
        What every edge must keep.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.from_delays([[2.0, 0.0], [1.5, 3.0]], [10.0, 20.0], [0.2, 0.2])
    >>> scenario.links.delay_s
    array([12. , 21.5, 23. ])
    """
    exchange = frozen_array("exchange_s", exchange_s, np.float64)
    if exchange.ndim != 2 or not exchange.size:
        raise StagewiseError(
            f"exchange_s of shape {exchange.shape}: must be a row for each client and a column for "
            f"each edge"
        )
    clients, edges = map(int, exchange.shape)
    training = frozen_array("training_s", training_s, np.float64)
    fitting("training_s", training, clients, "clients")
    for name, seconds in (("exchange_s", exchange), ("training_s", training)):
        for place in np.argwhere(~np.isfinite(seconds) | (seconds < 0))[:1].tolist():
            finite(f"{name}{place}", seconds[tuple(place)], 0)
    seed_number(seed)
    parameters = SystemParameters() if parameters is None else parameters
    client, edge = np.nonzero(exchange)
    labels, online, capacity = draw_common(seed, task_of(task), parameters, clients, edges)
    start = np.searchsorted(client, np.arange(clients + 1))
    return Scenario(
        clients=Clients(
            ids=tuple(f"c{number}" for number in range(clients)),
            label_counts=labels,
            batch_fraction=np.full(clients, parameters.batch_fraction),
            online_probability=online,
        ),
        edges=Edges(
            ids=tuple(f"es{number}" for number in range(edges)),
            capacity=capacity,
            uplink_delay_s=frozen_array("uplink_delay_s", uplink_delay_s, np.float64),
            uplink_energy_j=np.zeros(edges),
        ),
        links=Links(
            start=frozen(start),
            edge=frozen(edge),
            delay_s=frozen(training[client] + exchange[client, edge]),
        ),
        local_steps=parameters.local_steps,
        edge_rounds=parameters.edge_rounds,
        weights=Weights(delay=1.0, energy=0.0) if weights is None else weights,
        limits=Limits() if limits is None else limits,
    )
