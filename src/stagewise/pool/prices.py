"""Prices: what a client, and a second of an edge's delay, are worth to the edges that want them."""

from dataclasses import dataclass

import numpy as np

from stagewise.world.scenario import FloatArray, Scenario


@dataclass(frozen=True, eq=False)
class Prices:
    """What a client, and a second of an edge's delay, cost on top of the energy."""

    client: FloatArray
    delay: FloatArray


def even_prices(scenario: Scenario) -> Prices:
    """Clients for nothing, the weight of delay spread evenly over the edges."""
    edges = len(scenario.edges)
    return Prices(np.zeros(len(scenario.clients)), np.full(edges, scenario.weights.delay / edges))
