"""Eq. 6, kept up to date as rounds go by: one probability for all rounds to come."""

import numpy as np
import numpy.typing as npt

from stagewise.world.checks import BoolArray, FloatArray, whole
from stagewise.world.estimator import DEFAULT_WINDOW, window_means, window_weights
from stagewise.world.forecasts.forecast import Forecast, State, stored


class RollingForecast(Forecast):
    """The estimate of Eq. 6: means of windows, the newest with the most weight.

    The prior counts as the oldest window, so that the estimate starts there and moves with every full
    window that is observed. Windows are counted back from the newest round, so that every round that
    was observed is kept.

    Parameters
    ----------
    prior : array of float, shape (clients,)
        The probabilities known before the first round.
    window : int
        Rounds.
    """

    def __init__(self, prior: npt.ArrayLike, window: int = DEFAULT_WINDOW) -> None:
        super().__init__(prior)
        self._window = whole("window", window, 1)
        self._seen: list[BoolArray] = []

    def _learn(self, online: BoolArray) -> None:
        self._seen.append(online)

    def probabilities(self, ahead: int = 1) -> FloatArray:
        whole("ahead", ahead, 1)
        means = np.vstack([self.prior, window_means(self._observations(), self._window)])
        # A sum of weights may exceed 1 by a rounding error.
        return np.asarray(np.minimum(window_weights(len(means)) @ means, 1.0))

    def mean_probability(self, horizon: int) -> FloatArray:
        return self.probabilities(horizon)

    def state(self) -> State:
        return {"seen": self._observations()}

    def restore(self, state: State) -> None:
        seen = np.asarray(state["seen"])
        like = np.empty((len(seen), len(self.prior)), dtype=np.bool_)
        self._seen = list(stored(state, "seen", like))
        self.rounds = len(self._seen)

    def _observations(self) -> BoolArray:
        """All that was observed; shape (rounds, clients)."""
        return np.array(self._seen, dtype=np.bool_).reshape(len(self._seen), len(self.prior))
