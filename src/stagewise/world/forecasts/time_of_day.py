"""Clients with habits: how often each was online at this time of the day."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stagewise.world.checks import BoolArray, FloatArray, finite, whole
from stagewise.world.forecasts.forecast import Forecast, State, stored

_DAY_S = 86_400
_SLOTS = 24


class TimeOfDayForecast(Forecast):
    """The rate of each client by hour of the day, drawn towards what is expected of it at that hour.

    Expected is the client's rate over all hours, changed as the odds of all clients change at that
    hour. The rounds of one hour of one day count as one observation together, since clients seldom
    change within it. The day begins with the first round. Who is online at present makes no difference.

    Parameters
    ----------
    prior : array of float, shape (clients,)
        The probabilities known before the first round.
    round_seconds : float
        The time from one round to the next.
    prior_days : float
        How many days the prior counts for in a client's rate over all hours.
    pool_days : float
        How many days the rate over all hours counts for in that of all clients at an hour.
    slot_days : float
        How many days what is expected of a client at an hour counts for.
    """

    def __init__(
        self,
        prior: npt.ArrayLike,
        round_seconds: float,
        *,
        prior_days: float = 1.0,
        pool_days: float = 2.0,
        slot_days: float = 8.0,
    ) -> None:
        super().__init__(prior)
        self._round_seconds = finite("round_seconds", round_seconds, 0, open_below=True)
        # As so many rounds, of which there is at least one in a day, and in an hour that has any.
        of_a_day = max(_DAY_S / round_seconds, 1.0)
        of_an_hour = max(_DAY_S / _SLOTS / round_seconds, 1.0)
        self._prior_rounds = of_a_day * finite("prior_days", prior_days, 0, open_below=True)
        self._pool_rounds = of_an_hour * finite("pool_days", pool_days, 0, open_below=True)
        self._slot_rounds = of_an_hour * finite("slot_days", slot_days, 0, open_below=True)
        self._online = np.zeros((_SLOTS, len(self.prior)), dtype=np.int32)
        """In how many rounds of each slot each client was online."""
        self._rounds = np.zeros(_SLOTS, dtype=np.int64)

    def _learn(self, online: BoolArray) -> None:
        slot = self._slot(self.rounds)
        self._online[slot] += online
        self._rounds[slot] += 1

    def probabilities(self, ahead: int = 1) -> FloatArray:
        slot = self._slot(self.rounds + whole("ahead", ahead, 1) - 1)
        return self._mean_rate([slot], [1])

    def mean_probability(self, horizon: int) -> FloatArray:
        rounds = range(self.rounds, self.rounds + whole("horizon", horizon, 1))
        slots, times = np.unique([self._slot(index) for index in rounds], return_counts=True)
        return self._mean_rate(slots.tolist(), times.tolist())

    def state(self) -> State:
        return {
            "rounds": self.rounds,
            "online": self._online.copy(),
            "in_slot": self._rounds.copy(),
        }

    def restore(self, state: State) -> None:
        self._online = stored(state, "online", self._online)
        self._rounds = stored(state, "in_slot", self._rounds)
        self.rounds = int(state["rounds"])

    def _slot(self, index: int) -> int:
        return int(index * self._round_seconds % _DAY_S * _SLOTS / _DAY_S)

    def _mean_rate(self, slots: Sequence[int], times: Sequence[int]) -> FloatArray:
        """The mean of the rates in `slots`, each counted as often as `times` says."""
        seen = self._online.sum(axis=0)
        own = (self._prior_rounds * self.prior + seen) / (self._prior_rounds + self.rounds)
        everybody = float(own.mean())
        total = np.zeros(len(own))
        for slot, often in zip(slots, times, strict=True):
            online, rounds = self._online[slot], self._rounds[slot]
            here = (self._pool_rounds * everybody + online.mean()) / (self._pool_rounds + rounds)
            expected = _changed_odds(own, everybody, here)
            total += often * (self._slot_rounds * expected + online) / (self._slot_rounds + rounds)
        # Rounding must not leave [0, 1].
        return np.minimum(total / sum(times), 1.0)


def _changed_odds(probability: FloatArray, before: float, after: float) -> FloatArray:
    """`probability` with its odds changed by the factor from the odds of `before` to `after`'s."""
    if not 0 < before < 1:
        return probability
    here, away = probability * (after / before), (1 - probability) * ((1 - after) / (1 - before))
    return np.asarray(here / (here + away))
