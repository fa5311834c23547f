"""REFL's participant selection: those who will be there least often first.

A. M. Abdelmoniem, A. N. Sahu, M. Canini, S. A. Fahmy: REFL: Resource-Efficient Federated Learning.
EuroSys 2023, Intelligent Participant Selection.
"""

from dataclasses import dataclass

import numpy as np

from stagewise.outcomes import Outcome, State
from stagewise.randomness import generator
from stagewise.selection.selector import Selector, candidates, checked_k, number_of_clients
from stagewise.world.checks import finite, one_of, whole
from stagewise.world.costs import UNASSIGNED
from stagewise.world.forecasts import FORECASTS, ROUND_SECONDS, Forecast, make_forecast
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray


@dataclass(eq=False)
class Refl(Selector):
    """The clients that are least likely to be online in the next round; equal ones in random order.

    REFL-style: its other half, updates that come late and count for less, is not built; deployments drop
    them. REFL leaves the forecast to a model on each client; here it is made from the rounds seen, and
    begins with the scenario's probabilities.

    Parameters
    ----------
    k : int, optional
        How many clients; by default what the round needs (`number_of_clients`).
    rest : int
        The first round after it trained in which a client is asked again, as long as there are
        others; 5 in the authors' code.
    forecast : {"rolling", "markov", "time-of-day", "mixture"}
        Of who will be online (docs/availability.md); `rolling` is Eq. 6.
    round_seconds : float
        `time-of-day` and `mixture`: the time from one round to the next.
    seed : int
        Of the order of equal clients.
    """

    k: int | None = None
    rest: int = 5
    forecast: str = "rolling"
    round_seconds: float = ROUND_SECONDS
    seed: int = 0

    uses_feedback = False  # who was online and who was asked is no matter of training

    def __post_init__(self) -> None:
        checked_k(self.k)
        whole("rest", self.rest, 0)
        one_of("forecast", self.forecast, FORECASTS)
        finite("round_seconds", self.round_seconds, 0, open_below=True)
        self._forecast: Forecast | None = None
        self._restored: State = {}
        self._resting = np.zeros(0, dtype=np.int64)

    def select(self, round_: Round) -> IntArray:
        clients = candidates(round_)
        probability = self._forecast_of(round_).probabilities()[clients]
        resting = self._resting[clients] > 0
        turn = generator(self.seed, "REFL", round_.index).permutation(len(clients))
        order = np.lexsort((turn, probability, resting))
        return clients[order][: number_of_clients(self.k, round_, len(clients))]

    def observe(self, outcome: Outcome) -> None:
        round_ = outcome.decision.round
        self._forecast_of(round_).observe(round_.online)
        trained = outcome.decision.edge_of != UNASSIGNED
        # A client rests in the rounds R + 1 to R + rest - 1, as in the authors' code.
        self._resting = np.where(trained, max(self.rest - 1, 0), np.maximum(self._resting - 1, 0))

    def state(self) -> State:
        if self._forecast is None:
            return self._restored
        return {"forecast": self._forecast.state(), "resting": self._resting}

    def restore(self, state: State) -> None:
        self._forecast, self._restored = None, state

    def _forecast_of(self, round_: Round) -> Forecast:
        """From what was seen so far; the first round tells how many clients there are."""
        if self._forecast is None:
            scenario = round_.scenario
            prior = scenario.clients.online_probability
            self._forecast = make_forecast(
                self.forecast,
                prior,
                window=scenario.estimator_window,
                round_seconds=self.round_seconds,
            )
            self._resting = np.zeros(len(prior), dtype=np.int64)
            if self._restored:
                self._forecast.restore(self._restored["forecast"])
                self._resting = self._restored["resting"]
        return self._forecast
