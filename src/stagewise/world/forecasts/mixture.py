"""Several forecasts as one: each counts as much as it was right about the client."""

from collections.abc import Mapping

import numpy as np

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import BoolArray, FloatArray, finite
from stagewise.world.forecasts.forecast import Forecast, State, stored

MEMORY = 0.999
_LEAST_LIKELIHOOD = 1e-6
"""A forecast that was certain and wrong is not ruled out for ever."""


class MixtureForecast(Forecast):
    """A mean of forecasts, weighted for each client by the likelihood of what they said of it.

    The weights are those of Bayes' rule on forecasts of one round ahead, all alike at first. With a
    memory of 1 the log loss of a client, summed over any number of rounds, exceeds that of the best
    forecast for this client by no more than the logarithm of their number.

    Parameters
    ----------
    components : mapping of str to Forecast
        The forecasts by name, none of which has observed a round. They belong to the mixture.
    memory : float
        By what factor a round counts less for the weights once another has passed; 1 forgets nothing.
    """

    def __init__(self, components: Mapping[str, Forecast], memory: float = MEMORY) -> None:
        if not components:
            raise StagewiseError(f"components = {shown(components)}: there must be at least one")
        self._components = dict(components)
        first = next(iter(self._components.values()))
        super().__init__(first.prior)
        for name, component in self._components.items():
            if len(component.prior) != len(self.prior) or component.rounds > 0:
                raise StagewiseError(
                    f"components[{shown(name)}]: must be a forecast for {len(self.prior)} clients "
                    f"that has observed no round"
                )
        self._memory = finite("memory", memory, 0, 1)
        self._log_weights = np.zeros((len(self._components), len(self.prior)))

    @property
    def weights(self) -> FloatArray:
        """How much each forecast counts for each client; shape (components, clients)."""
        weights = np.exp(self._log_weights)
        return np.asarray(weights / weights.sum(axis=0))

    def _learn(self, online: BoolArray) -> None:
        for row, component in zip(self._log_weights, self._components.values(), strict=True):
            said = component.probabilities()
            likelihood = np.where(online, said, 1 - said)
            row *= self._memory
            row += np.log(np.maximum(likelihood, _LEAST_LIKELIHOOD))
            component.observe(online)
        self._log_weights -= self._log_weights.max(axis=0)

    def probabilities(self, ahead: int = 1) -> FloatArray:
        return self._weighted([one.probabilities(ahead) for one in self._components.values()])

    def mean_probability(self, horizon: int) -> FloatArray:
        return self._weighted([one.mean_probability(horizon) for one in self._components.values()])

    def _weighted(self, said: list[FloatArray]) -> FloatArray:
        # A sum of weights may exceed 1 by a rounding error.
        return np.asarray(np.minimum((self.weights * np.array(said)).sum(axis=0), 1.0))

    def state(self) -> State:
        within = {name: component.state() for name, component in self._components.items()}
        return {
            "rounds": self.rounds,
            "log_weights": self._log_weights.copy(),
            "components": within,
        }

    def restore(self, state: State) -> None:
        self._log_weights = stored(state, "log_weights", self._log_weights)
        for name, component in self._components.items():
            component.restore(state["components"][name])
        self.rounds = int(state["rounds"])
