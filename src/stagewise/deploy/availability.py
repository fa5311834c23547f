"""Who is online, as observed: a roll call becomes a round, and several become estimates."""

from collections.abc import Sequence

import numpy as np

from stagewise.deploy.exchange import Presence
from stagewise.world.forecasts import RollingForecast
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, Scenario


def observed_round(
    scenario: Scenario, presence: Presence, index: int = 0, delay_s: FloatArray | None = None
) -> Round:
    """The round of those who answered, with measured delays where they are given.

    A client is online if it answered through at least one edge that covers it and that answered, too.
    A link is down if its edge did not answer, or if its client did, but not through this edge.
    Strangers, and edges that do not cover a client, count for nothing.
    """
    links, clients, edges = scenario.links, scenario.clients.ids, scenario.edges.ids
    edge_answered = np.isin(np.array(edges), list(presence.edges))[links.edge]
    reached = edge_answered & np.array(
        [
            edges[edge] in presence.edges_of.get(clients[client], ())
            for client, edge in zip(links.client.tolist(), links.edge.tolist(), strict=True)
        ],
        dtype=np.bool_,
    )
    online = np.zeros(len(clients), dtype=np.bool_)
    online[links.client[reached]] = True
    up = reached | (edge_answered & ~online[links.client])
    return Round(scenario, online, index, delay_s=delay_s, up=None if up.all() else up)


def estimates_after(scenario: Scenario, roll_calls: Sequence[BoolArray]) -> Scenario:
    """The scenario with the estimates that roll calls before the first round give (Eq. 6).

    Each is a mask over the clients. What the scenario said counts as the older of two windows.
    """
    if not roll_calls:
        return scenario
    forecast = RollingForecast(scenario.clients.online_probability, window=len(roll_calls))
    for online in roll_calls:
        forecast.observe(online)
    return scenario.as_of(online_probability=forecast.probabilities())
