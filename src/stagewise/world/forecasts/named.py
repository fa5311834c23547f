"""Forecasts by name."""

from typing import Literal, get_args

import numpy.typing as npt

from stagewise.world.checks import one_of
from stagewise.world.estimator import DEFAULT_WINDOW
from stagewise.world.forecasts.forecast import Forecast
from stagewise.world.forecasts.markov import MarkovForecast
from stagewise.world.forecasts.mixture import MixtureForecast
from stagewise.world.forecasts.rolling import RollingForecast
from stagewise.world.forecasts.time_of_day import TimeOfDayForecast

ForecastName = Literal["rolling", "markov", "time-of-day", "mixture"]
FORECASTS: tuple[ForecastName, ...] = get_args(ForecastName)

ROUND_SECONDS = 600.0


def make_forecast(
    name: str,
    prior: npt.ArrayLike,
    *,
    window: int = DEFAULT_WINDOW,
    round_seconds: float = ROUND_SECONDS,
) -> Forecast:
    """A forecast of who will be online, which has observed no round yet.

    Parameters
    ----------
    name : {"rolling", "markov", "time-of-day", "mixture"}
        `rolling` is Eq. 6; `mixture` weighs the three others by how right they were.
    prior : array of float, shape (clients,)
        The probabilities known before the first round: a scenario's `clients.online_probability`.
    window : int
        `rolling`: the rounds of a window.
    round_seconds : float
        `time-of-day`: the time from one round to the next.

    Examples
    --------
    >>> import stagewise
    >>> forecast = stagewise.make_forecast("rolling", prior=[0.5, 0.5], window=1)
    >>> forecast.observe([True, False])
    >>> forecast.probabilities(ahead=3).round(2)
    array([0.83, 0.17])
    """
    one_of("forecast", name, FORECASTS)
    if name == "rolling":
        return RollingForecast(prior, window)
    if name == "markov":
        return MarkovForecast(prior)
    if name == "time-of-day":
        return TimeOfDayForecast(prior, round_seconds)
    return MixtureForecast(
        {
            "rolling": RollingForecast(prior, window),
            "markov": MarkovForecast(prior),
            "time-of-day": TimeOfDayForecast(prior, round_seconds),
        }
    )
