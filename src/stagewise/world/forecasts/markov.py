"""Clients as chains with two states: who is online now is likely to be so in the next round."""

import numpy as np
import numpy.typing as npt

from stagewise.world.checks import BoolArray, FloatArray, whole
from stagewise.world.forecasts.forecast import Forecast, State, stored

_LEAST_SPREAD, _LARGEST_SPREAD = 1e-3, 0.5
"""How unlike clients may be: pooled rates count for 999 of a client's own rounds, or for one."""


class MarkovForecast(Forecast):
    """A chain with two states for each client, whose rates are drawn towards those of all clients.

    The chances of leaving and of entering from one round to the next are posterior means. Their Beta
    prior is that of all clients, fitted by its moments: where clients are alike it counts for many
    rounds, where they differ for few. The probability known before the first round counts for one
    round in either state.

    Parameters
    ----------
    prior : array of float, shape (clients,)
        The probabilities known before the first round.
    """

    def __init__(self, prior: npt.ArrayLike) -> None:
        super().__init__(prior)
        clients = len(self.prior)
        self._last = np.zeros(clients, dtype=np.bool_)
        self._counts = np.zeros((2, 2, clients), dtype=np.int32)
        """How often each client went from one state to another: [from online, to online]."""

    def _learn(self, online: BoolArray) -> None:
        if self.rounds > 0:
            for before in (False, True):
                for after in (False, True):
                    self._counts[int(before), int(after)] += (self._last == before) & (
                        online == after
                    )
        self._last = online

    @property
    def rates(self) -> tuple[FloatArray, FloatArray]:
        """The chances of going offline and of coming online from one round to the next."""
        stayed_away, entered = self._counts[0]
        left, stayed = self._counts[1]
        leave = _posterior_mean(1 - self.prior, left, left + stayed)
        enter = _posterior_mean(self.prior, entered, stayed_away + entered)
        return leave, enter

    def probabilities(self, ahead: int = 1) -> FloatArray:
        whole("ahead", ahead, 1)
        leave, enter = self.rates
        return self._towards_the_long_run(leave, enter, (1 - leave - enter) ** ahead)

    def mean_probability(self, horizon: int) -> FloatArray:
        whole("horizon", horizon, 1)
        leave, enter = self.rates
        # The mean of a geometric series: what is left of the present state over the horizon.
        kept = 1 - leave - enter
        left = kept * (1 - kept**horizon) / (leave + enter) / horizon
        return self._towards_the_long_run(leave, enter, left)

    def state(self) -> State:
        return {"rounds": self.rounds, "last": self._last, "counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._last = stored(state, "last", self._last)
        self._counts = stored(state, "counts", self._counts)
        self.rounds = int(state["rounds"])

    def _towards_the_long_run(
        self, leave: FloatArray, enter: FloatArray, present: FloatArray
    ) -> FloatArray:
        """Between the long-run share (0) and the state of the last round (1), by `present`."""
        if self.rounds == 0:
            return self.prior.copy()
        # Never 0 / 0: of prior and 1 - prior one is above 0, and stays so in its rate.
        long_run = enter / (leave + enter)
        # Rounding must not leave [0, 1].
        return np.clip(long_run + present * (self._last - long_run), 0.0, 1.0)


def _posterior_mean(
    prior: FloatArray, hits: npt.NDArray[np.int32], trials: npt.NDArray[np.int32]
) -> FloatArray:
    """Each client's rate: its own trials, one trial of the prior, and those that the pool is worth."""
    mean, worth = pooled_rate(hits, trials)
    return np.asarray((prior + worth * mean + hits) / (1 + worth + trials))


def pooled_rate(hits: npt.NDArray[np.int32], trials: npt.NDArray[np.int32]) -> tuple[float, float]:
    """The rate of all clients, and how many of a client's own trials it is worth.

    The two are the mean m and the size s of a Beta(m s, (1 - m) s) fitted to the clients' rates by the
    method of moments (Kleinman 1973). Without trials, 0 and 0.
    """
    total = float(trials.sum(dtype=np.int64))
    if total == 0:
        return 0.0, 0.0
    mean = float(hits.sum(dtype=np.int64)) / total
    tried = trials > 0
    own, count = hits[tried] / trials[tried], trials[tried].astype(np.float64)
    free = len(count) - 1
    room = total - float(count @ count) / total - free
    variance = mean * (1 - mean)
    if room <= 0 or variance == 0:
        return mean, 1 / _LARGEST_SPREAD - 1
    spread = (float(count @ (own - mean) ** 2) / variance - free) / room
    return mean, 1 / min(max(spread, _LEAST_SPREAD), _LARGEST_SPREAD) - 1
