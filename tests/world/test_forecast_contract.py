"""What every forecast keeps: probabilities, horizons, states, and errors of one line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.runs.checkpoint import state_from_arrays, state_to_arrays
from stagewise.world.forecasts import FORECASTS, Forecast, MixtureForecast, make_forecast

every = pytest.mark.parametrize("name", FORECASTS)


def made(name: str, prior: np.ndarray) -> Forecast:
    return make_forecast(name, prior, window=3, round_seconds=5000.0)


@every
def test_before_the_first_round_it_says_what_was_known(name):
    forecast = made(name, np.array([0.0, 0.25, 1.0]))
    for said in (
        forecast.probabilities(),
        forecast.probabilities(ahead=9),
        forecast.mean_probability(horizon=4),
    ):
        np.testing.assert_allclose(said, [0.0, 0.25, 1.0])


@every
@given(
    st.lists(st.sampled_from([0.0, 1e-12, 0.3, 0.99, 1.0]), min_size=1, max_size=5),
    st.integers(0, 25),
    st.sampled_from([0.0, 0.03, 0.5, 1.0]),
    st.integers(0, 2**31),
    st.integers(1, 40),
)
def test_probabilities_and_their_means(name, prior, rounds, share, seed, horizon):
    """Within [0, 1] whatever was seen, and a horizon is the mean of its rounds."""
    rng = np.random.default_rng(seed)
    forecast = made(name, np.array(prior))
    for _ in range(rounds):
        forecast.observe(rng.random(len(prior)) < share)
    assert forecast.rounds == rounds
    said = np.array([forecast.probabilities(ahead) for ahead in range(1, horizon + 1)])
    mean = forecast.mean_probability(horizon)
    for probabilities in (*said, mean):
        assert probabilities.shape == (len(prior),)
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
    np.testing.assert_allclose(mean, said.mean(axis=0), atol=1e-9)
    # What a forecast of another package has that says nothing shorter.
    np.testing.assert_allclose(Forecast.mean_probability(forecast, horizon), mean, atol=1e-9)


@every
def test_a_forecast_goes_on_from_its_state(name):
    """Through the form in which a checkpoint keeps it, and without a tie to the first one."""
    rng = np.random.default_rng(3)
    prior, seen = rng.random(6), rng.random((60, 6)) < 0.4
    whole, first = made(name, prior), made(name, prior)
    for online in seen[:35]:
        whole.observe(online)
        first.observe(online)
    state = first.state()
    kept = state_from_arrays(*state_to_arrays(state))
    second = made(name, prior)
    second.restore(kept)
    for online in seen[35:]:
        first.observe(~online)  # must not reach the state that was taken
        whole.observe(online)
        second.observe(online)
    third = made(name, prior)
    third.restore(state)
    for online in seen[35:]:
        third.observe(online)
    assert second.rounds == third.rounds == 60
    for other in (second, third):
        for ahead in (1, 6):
            assert other.probabilities(ahead).tolist() == whole.probabilities(ahead).tolist()
        assert other.mean_probability(9).tolist() == whole.mean_probability(9).tolist()


@every
def test_observations_are_copied(name):
    forecast, same = made(name, np.full(2, 0.5)), made(name, np.full(2, 0.5))
    mask = np.array([True, False])
    for _ in range(4):
        forecast.observe(mask)
        mask[:] = ~mask
        same.observe(~mask)
    assert forecast.probabilities().tolist() == same.probabilities().tolist()


@every
@pytest.mark.parametrize(
    ("online", "message"),
    [
        ([True], r"online has the shape \(1,\): must have one value for each of the 2 clients"),
        ([[True, False]], r"online has the shape \(1, 2\): must have one value"),
        ([0.5, float("nan")], "must be an array of true and false"),
        (None, "online = None: must be an array of true and false"),
    ],
)
def test_what_is_no_round(name, online, message):
    forecast = made(name, np.full(2, 0.5))
    with pytest.raises(StagewiseError, match=message):
        forecast.observe(online)
    assert forecast.rounds == 0


@every
@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, float("nan")], r"prior\[1\] = nan: must be a finite number of at least 0"),
        ([0.5, 1.01], r"prior\[1\] = 1.01: .* at most 1"),
        ([[0.5, 0.5]], r"prior has the shape \(1, 2\)"),
        ([], "prior: there must be at least one client"),
    ],
)
def test_what_is_no_prior(name, prior, message):
    with pytest.raises(StagewiseError, match=message):
        make_forecast(name, prior)


@every
def test_what_is_no_time(name):
    forecast = made(name, np.full(2, 0.5))
    with pytest.raises(StagewiseError, match="= 0: must be at least 1"):
        forecast.probabilities(ahead=0)
    with pytest.raises(StagewiseError, match=r"= 1.5: must be a whole number"):
        forecast.mean_probability(horizon=1.5)


@every
def test_a_state_of_other_clients(name):
    forecast = made(name, np.full(3, 0.5))
    forecast.observe([True, False, True])
    with pytest.raises(StagewiseError, match=r"state\.\w+ has the shape .*: must have"):
        made(name, np.full(2, 0.5)).restore(forecast.state())


def test_names_and_settings_that_cannot_be():
    with pytest.raises(
        StagewiseError, match="forecast = 'arima': must be one of rolling, markov, "
    ):
        make_forecast("arima", [0.5])
    with pytest.raises(StagewiseError, match="round_seconds = 0: must be a finite number above 0"):
        make_forecast("time-of-day", [0.5], round_seconds=0)
    with pytest.raises(StagewiseError, match=r"components = \{\}: there must be at least one"):
        MixtureForecast({})
    with pytest.raises(StagewiseError, match=r"memory = 1\.5: must be"):
        MixtureForecast({"one": make_forecast("markov", [0.5])}, memory=1.5)
    old = make_forecast("markov", [0.5, 0.5])
    old.observe([True, True])
    for other in (old, make_forecast("markov", [0.5])):
        with pytest.raises(StagewiseError, match=r"components\['two'\]: must be a forecast for 2"):
            MixtureForecast({"one": make_forecast("rolling", [0.5, 0.5]), "two": other})
