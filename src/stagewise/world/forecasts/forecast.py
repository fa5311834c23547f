"""What a forecast of availability is: it observes every round, and says who will be online."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError
from stagewise.world.checks import BoolArray, FloatArray, Rule, mask_of, whole

State = dict[str, Any]
"""Arrays and plain values by name, as a checkpoint keeps them."""

_PROBABILITY = Rule(high=1)


class Forecast(ABC):
    """How likely each client is to be online in the rounds to come.

    A forecast of your own has `_learn`, `probabilities`, `state` and `restore`.

    Parameters
    ----------
    prior : array of float, shape (clients,)
        The probabilities known before the first round.

    Examples
    --------
    >>> import stagewise
    >>> forecast = stagewise.make_forecast("markov", prior=[0.5, 0.5])
    >>> for online in ([True, False], [True, False], [True, False]):
    ...     forecast.observe(online)
    >>> forecast.probabilities().round(2)
    array([0.88, 0.12])
    """

    def __init__(self, prior: npt.ArrayLike) -> None:
        self.prior: FloatArray = _PROBABILITY.array("prior", prior)
        if len(self.prior) == 0:
            raise StagewiseError("prior: there must be at least one client")
        self.rounds = 0
        """How many rounds have been observed."""

    def observe(self, online: npt.ArrayLike) -> None:
        """Take in who was online in the round that has just passed; shape (clients,)."""
        self._learn(mask_of("online", online, len(self.prior), "clients"))
        self.rounds += 1

    @abstractmethod
    def _learn(self, online: BoolArray) -> None:
        """Take in a round; `rounds` does not count it yet. The mask is a copy nobody changes."""

    @abstractmethod
    def probabilities(self, ahead: int = 1) -> FloatArray:
        """How likely each client is to be online `ahead` rounds after the last one observed."""

    def mean_probability(self, horizon: int) -> FloatArray:
        """The share of the next `horizon` rounds that each client is expected to be online."""
        total = np.zeros(len(self.prior))
        for ahead in range(1, whole("horizon", horizon, 1) + 1):
            total += self.probabilities(ahead)
        # A mean of probabilities may exceed 1 by a rounding error.
        return np.minimum(total / horizon, 1.0)

    @abstractmethod
    def state(self) -> State:
        """All that was learned."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Be as when `state` was taken, `rounds` included."""


def stored(state: State, name: str, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of an array of `state`, if it has the shape of `like`."""
    array = np.array(state[name], dtype=like.dtype)
    if array.shape != like.shape:
        raise StagewiseError(
            f"state.{name} has the shape {array.shape}: must have {like.shape}, as that of this "
            f"forecast"
        )
    return array
