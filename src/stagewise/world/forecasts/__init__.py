"""Who will be online: forecasts that learn from every round."""

from stagewise.world.forecasts.forecast import Forecast as Forecast
from stagewise.world.forecasts.markov import MarkovForecast as MarkovForecast
from stagewise.world.forecasts.mixture import MixtureForecast as MixtureForecast
from stagewise.world.forecasts.named import FORECASTS as FORECASTS
from stagewise.world.forecasts.named import ROUND_SECONDS as ROUND_SECONDS
from stagewise.world.forecasts.named import ForecastName as ForecastName
from stagewise.world.forecasts.named import make_forecast as make_forecast
from stagewise.world.forecasts.rolling import RollingForecast as RollingForecast
from stagewise.world.forecasts.time_of_day import TimeOfDayForecast as TimeOfDayForecast
