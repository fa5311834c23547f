"""The prices that a pool begins with."""

import numpy as np

from stagewise.exact.pricing import Prices
from stagewise.world.scenario import Scenario

__all__ = ["Prices", "even_prices"]


def even_prices(scenario: Scenario) -> Prices:
    """Clients for nothing, the weight of delay spread evenly over the edges."""
    edges = len(scenario.edges)
    return Prices(np.zeros(len(scenario.clients)), np.full(edges, scenario.weights.delay / edges))
