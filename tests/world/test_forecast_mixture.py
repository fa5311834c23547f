"""The mixture: what Bayes' rule promises, and clients of different kinds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.world.forecasts import (
    Forecast,
    MarkovForecast,
    MixtureForecast,
    RollingForecast,
    TimeOfDayForecast,
    make_forecast,
)


def three(prior: np.ndarray, memory: float = 1.0) -> MixtureForecast:
    parts: dict[str, Forecast] = {
        "rolling": RollingForecast(prior, 3),
        "markov": MarkovForecast(prior),
        "time-of-day": TimeOfDayForecast(prior, 3600.0),
    }
    return MixtureForecast(parts, memory)


def losses(forecasts, seen) -> np.ndarray:
    """The log loss of each forecast, round and client; shape (forecasts, rounds, clients)."""
    found = []
    for online in seen:
        said = np.array([forecast.probabilities() for forecast in forecasts])
        found.append(-np.log(np.where(online, said, 1 - said)))
        for forecast in forecasts:
            forecast.observe(online)
    return np.moveaxis(np.array(found), 0, 1)


@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.sampled_from(["coins", "chains", "days", "switches"]),
)
def test_no_client_loses_more_than_the_logarithm_of_three(seed, rounds, kind):
    """Without forgetting: at most log(3) above the best of the three, after every round."""
    rng = np.random.default_rng(seed)
    prior, index = rng.uniform(0.05, 0.95, 4), np.arange(rounds)[:, None]
    drawn = rng.random((rounds, 4))
    seen = {
        "coins": drawn < prior,
        "chains": np.cumsum(drawn < 0.1, axis=0) % 2 == 1,
        "days": (drawn < 0.9) == (index % 24 < 12),
        "switches": drawn < np.where(index < rounds / 2, 0.02, 0.98),
    }[kind]
    components = [
        RollingForecast(prior, 3),
        MarkovForecast(prior),
        TimeOfDayForecast(prior, 3600.0),
    ]
    lost = losses([three(prior), *components], seen).cumsum(axis=1)
    # One that was certain and wrong has lost without end, and is no rival any more.
    best = lost[1:].min(axis=0)
    assert (lost[0] <= best + np.log(3) + 1e-9).all()


def test_the_weights_are_those_of_bayes_rule():
    rng = np.random.default_rng(2)
    prior = rng.uniform(0.2, 0.8, 5)
    seen = rng.random((40, 5)) < 0.3
    components = [
        RollingForecast(prior, 3),
        MarkovForecast(prior),
        TimeOfDayForecast(prior, 3600.0),
    ]
    mixture = three(prior)
    likelihood = np.exp(-losses([mixture, *components], seen)[1:].sum(axis=1))
    np.testing.assert_allclose(mixture.weights, likelihood / likelihood.sum(axis=0))
    said = np.array([component.probabilities(4) for component in components])
    np.testing.assert_allclose(mixture.probabilities(4), (mixture.weights * said).sum(axis=0))


def test_each_client_gets_the_forecast_that_fits_it():
    """Half of the clients keep hours, half stay as they are: no single forecast serves both."""
    rng, clients = np.random.default_rng(3), 60
    daily, busy = np.arange(clients) < clients // 2, rng.random(24) < 0.5
    online, seen = rng.random(clients) < 0.3, []
    for index in range(24 * 40):
        by_hour = rng.random(clients) < (0.9 if busy[index % 24] else 0.1)
        changes = rng.random(clients) < 0.05
        online = np.where(daily, by_hour, online ^ changes)
        seen.append(online)
    prior = np.full(clients, 0.4)
    components = [
        RollingForecast(prior),
        MarkovForecast(prior),
        TimeOfDayForecast(prior, 3600.0),
    ]
    mixture = MixtureForecast(
        {
            "rolling": RollingForecast(prior),
            "markov": MarkovForecast(prior),
            "time-of-day": TimeOfDayForecast(prior, 3600.0),
        }
    )
    mean = losses([mixture, *components], seen)[:, 24 * 20 :].mean(axis=1)
    of_mixture, of_rolling, of_markov, of_hours = mean.mean(axis=1)
    assert of_mixture < 0.9 * min(of_rolling, of_markov, of_hours)
    assert mixture.weights[1, ~daily].min() > 0.9


class Fixed(Forecast):
    """Says the same of every round."""

    def _learn(self, online):
        pass

    def probabilities(self, ahead=1):
        return self.prior

    def state(self):
        return {}

    def restore(self, state):
        pass


def test_forgetting_follows_a_change():
    """A client that was away for long comes and stays: what was right for long must not count."""
    weights = {}
    for memory in (1.0, 0.9):
        mixture = MixtureForecast({"away": Fixed([0.1]), "there": Fixed([0.9])}, memory)
        for online in [False] * 100 + [True] * 20:
            mixture.observe([online])
        weights[memory] = float(mixture.weights[1, 0])
    # With forgetting: log 9 times the sum of 0.9^k, k < 20, less that of the hundred before.
    newer, older = (1 - 0.9**20) / 0.1, (0.9**20 - 0.9**120) / 0.1
    assert weights[0.9] == pytest.approx(1 / (1 + 9.0 ** (older - newer)))
    assert weights[0.9] > 0.99
    assert weights[1.0] < 1e-50


def test_one_that_was_certain_and_wrong_can_come_back():
    mixture = MixtureForecast({"certain": Fixed([1.0]), "coin": Fixed([0.5])})
    mixture.observe([False])
    assert mixture.weights[0, 0] == pytest.approx(2e-6, rel=1e-3)
    for _ in range(40):
        mixture.observe([True])
    assert mixture.weights[0, 0] > 0.99


def test_a_client_that_nobody_can_foresee_does_not_vanish_beside_the_others():
    """Its likelihoods are too small for any number, but their ratio is not."""
    mixture = MixtureForecast({"one": Fixed([0.5, 1e-5]), "other": Fixed([0.5, 2e-5])}, memory=1.0)
    for _ in range(200):
        mixture.observe([True, True])
    assert mixture.weights[:, 0].tolist() == [0.5, 0.5]
    assert mixture.weights[:, 1] == pytest.approx([2.0**-200, 1.0])


def test_by_name_it_is_made_of_the_three_others():
    mixture = make_forecast("mixture", [0.5])
    assert mixture.state()["components"].keys() == {"rolling", "markov", "time-of-day"}
    assert mixture.weights[:, 0] == pytest.approx([1 / 3] * 3)
