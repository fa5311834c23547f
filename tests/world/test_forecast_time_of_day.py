"""The forecast by time of day: daily patterns, and days without one."""

import numpy as np
import pytest

from stagewise.world.forecasts import RollingForecast, TimeOfDayForecast

HOUR = 3600.0


def played(truth, days: int, seed: int, *forecasts, scored_from: int):
    """The Brier score of each forecast; `truth[hour]` are the clients' probabilities."""
    rng = np.random.default_rng(seed)
    losses = []
    for index in range(24 * days):
        online = rng.random(truth.shape[1]) < truth[index % 24]
        if index >= 24 * scored_from:
            losses.append([((f.probabilities() - online) ** 2).mean() for f in forecasts])
        for forecast in forecasts:
            forecast.observe(online)
    return np.mean(losses, axis=0)


def habits(clients: int, seed: int) -> np.ndarray:
    """Each client is there at night, more or less and earlier or later."""
    rng = np.random.default_rng(seed)
    hour = np.arange(24)[:, None]
    shift, strength = rng.normal(2, 2, clients), rng.uniform(0.5, 2.5, clients)
    return 1 / (1 + np.exp(-(strength * 2 * np.cos((hour - shift) * np.pi / 12) - 1)))


def test_a_daily_pattern_is_found():
    truth, prior = habits(200, seed=0), np.full(200, 0.4)
    own, rolling = played(
        truth, 30, 1, TimeOfDayForecast(prior, HOUR), RollingForecast(prior), scored_from=2
    )
    oracle = (truth * (1 - truth)).mean()
    assert oracle < own < 0.7 * rolling
    # The pattern that all share is there after two days, each client's own after many.
    late = TimeOfDayForecast(prior, HOUR)
    (after_long,) = played(truth, 200, 1, late, scored_from=180)
    assert after_long < 1.1 * oracle


def test_rates_by_hand():
    """Three clients, two days and a half of rounds of half an hour: two to an hour, 48 to a day."""
    rng = np.random.default_rng(6)
    prior, seen = [0.2, 0.5, 0.9], rng.random((120, 3)) < 0.5
    forecast = TimeOfDayForecast(prior, 1800.0, prior_days=0.5, pool_days=3.0, slot_days=4.0)
    for online in seen:
        forecast.observe(online)
    own = [(24 * p + seen[:, i].sum()) / (24 + 120) for i, p in enumerate(prior)]
    everybody = sum(own) / 3
    for ahead in (1, 2, 3, 30):
        of_hour = [g for g in range(120) if g % 48 // 2 == (119 + ahead) % 48 // 2]
        pooled = (6 * everybody + seen[of_hour].mean(axis=1).sum()) / (6 + len(of_hour))
        factor = pooled / (1 - pooled) / (everybody / (1 - everybody))
        expected = []
        for i in range(3):
            odds = factor * own[i] / (1 - own[i])
            here = seen[of_hour, i].sum()
            expected.append((8 * odds / (1 + odds) + here) / (8 + len(of_hour)))
        np.testing.assert_allclose(forecast.probabilities(ahead), expected)


def test_what_all_do_is_expected_of_one_that_was_hardly_seen():
    """Two days of habits that all share: the others' hours say more than two rounds of one's own."""
    truth = np.tile(habits(1, seed=7), (1, 300))
    (own,) = played(truth, 3, 8, TimeOfDayForecast(np.full(300, 0.4), HOUR), scored_from=2)
    alone = [
        played(truth[:, :1], 3, seed, TimeOfDayForecast([0.4], HOUR), scored_from=2)[0]
        for seed in range(200)
    ]
    assert own < 0.9 * np.mean(alone)


def test_rounds_ahead_are_those_of_their_hour():
    truth, prior = habits(50, seed=2), np.full(50, 0.4)
    forecast = TimeOfDayForecast(prior, HOUR)
    played(truth, 40, 3, forecast, scored_from=0)
    said = np.array([forecast.probabilities(ahead) for ahead in range(1, 49)])
    np.testing.assert_array_equal(said[:24], said[24:])
    assert np.corrcoef(said[:24].ravel(), truth.ravel())[0, 1] > 0.95


def test_without_a_pattern_it_is_little_worse_than_the_mean():
    truth = np.tile(np.random.default_rng(4).uniform(0.2, 0.8, 300), (24, 1))
    (own,) = played(truth, 10, 5, TimeOfDayForecast(np.full(300, 0.5), HOUR), scored_from=5)
    assert own < 1.05 * (truth * (1 - truth)).mean()


@pytest.mark.parametrize("round_seconds", [60.0, 7.7, 600.0, 5000.0, 86_400.0, 1e6])
def test_any_length_of_rounds(round_seconds):
    """A client that is online in the first half of each day only."""
    forecast = TimeOfDayForecast([0.5, 0.5], round_seconds)
    rounds = min(int(20 * 86_400 / round_seconds), 20_000) + 1
    for index in range(rounds):
        first_half = index * round_seconds % 86_400 < 43_200
        forecast.observe([first_half, not first_half])
    said = forecast.probabilities()
    assert said.sum() == pytest.approx(1)
    if round_seconds in (600.0, 60.0):
        first_half = rounds * round_seconds % 86_400 < 43_200
        assert (said[0] > 0.6) == first_half
