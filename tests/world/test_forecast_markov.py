"""The Markov forecast beside brute force, and on chains whose rates are known."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.world.forecasts import MarkovForecast, RollingForecast
from stagewise.world.forecasts.markov import pooled_rate


def beta_mean_by_integration(a: float, b: float, hits: int, misses: int) -> float:
    """The posterior mean of a rate under a Beta prior, by summing over a fine grid."""
    rate = (np.arange(400_000) + 0.5) / 400_000
    log_density = (a - 1 + hits) * np.log(rate) + (b - 1 + misses) * np.log1p(-rate)
    density = np.exp(log_density - log_density.max())
    return float((rate * density).sum() / density.sum())


def counted(history: str, before: str, after: str) -> int:
    return sum(history[k : k + 2] == before + after for k in range(len(history) - 1))


HISTORIES = ["0011101110", "0000000011", "1111011111", "0101010101", "1100110011"]
PRIOR = np.array([0.4, 0.2, 0.9, 0.5, 0.6])


def observed(histories: list[str], prior: np.ndarray) -> MarkovForecast:
    forecast = MarkovForecast(prior)
    for bits in zip(*histories, strict=True):
        forecast.observe([bit == "1" for bit in bits])
    return forecast


def test_rates_are_the_posterior_means_of_brute_force():
    """Beta prior of the pool plus one round of the prior; the likelihood is integrated out."""
    leave, enter = observed(HISTORIES, PRIOR).rates
    for found, (before, after), known in (
        (leave, "10", 1 - PRIOR),
        (enter, "01", PRIOR),
    ):
        hits = np.array([counted(history, before, after) for history in HISTORIES])
        misses = np.array([counted(history, before, before) for history in HISTORIES])
        mean, worth = pooled_rate(hits, hits + misses)
        expected = [
            beta_mean_by_integration(
                worth * mean + known[k], worth * (1 - mean) + 1 - known[k], hits[k], misses[k]
            )
            for k in range(len(HISTORIES))
        ]
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("ahead", [1, 2, 3, 10])
def test_rounds_ahead_are_all_paths_of_the_chain(ahead):
    """The sum over every sequence of states that ends online."""
    forecast = observed(HISTORIES, PRIOR)
    leave, enter = forecast.rates
    said = forecast.probabilities(ahead)
    for k, history in enumerate(HISTORIES):
        chance = {"1": {"1": 1 - leave[k], "0": leave[k]}, "0": {"1": enter[k], "0": 1 - enter[k]}}
        total = 0.0
        for path in range(2 ** (ahead - 1)):
            states = history[-1] + format(path, "b").zfill(ahead - 1)[: ahead - 1] + "1"
            likely = 1.0
            for before, after in pairwise(states):
                likely *= chance[before][after]
            total += likely
        assert said[k] == pytest.approx(total)


@given(st.integers(0, 10**6))
def test_the_pool_is_worth_what_the_clients_have_in_common(seed):
    """Rates drawn from a known Beta: its size is found within a factor of two."""
    rng = np.random.default_rng(seed)
    size = rng.choice([3.0, 12.0, 60.0])
    rate = rng.beta(0.3 * size, 0.7 * size, 4000)
    trials = rng.integers(5, 60, 4000)
    mean, worth = pooled_rate(rng.binomial(trials, rate), trials)
    assert mean == pytest.approx(0.3, abs=0.02)
    assert size / 2 < worth < size * 2


@pytest.mark.parametrize(
    ("hits", "trials", "expected"),
    [
        ([0, 0], [0, 0], (0.0, 0.0)),  # nothing seen
        ([0, 0], [4, 5], (0.0, 1.0)),  # no variance to compare with
        ([2], [5], (0.4, 1.0)),  # one client says nothing of others
        ([5, 0], [5, 5], (0.5, 1.0)),  # as unlike as can be
        ([5, 5, 5], [10, 10, 10], (0.5, 999.0)),  # more alike than chance
    ],
)
def test_pools_of_few(hits, trials, expected):
    assert pooled_rate(np.array(hits), np.array(trials)) == pytest.approx(expected)


def chains(rng, leave, enter, rounds):
    online = rng.random(len(leave)) < enter / (leave + enter)
    for _ in range(rounds):
        yield online
        online = rng.random(len(leave)) < np.where(online, 1 - leave, enter)


def test_it_recovers_the_rates_of_chains_and_comes_close_to_the_oracle():
    """Brier scores on 400 chains: within 2% of the truth's own, and far below Eq. 6's."""
    rng = np.random.default_rng(5)
    leave, enter = rng.beta(2, 18, 400), rng.beta(1, 19, 400)
    prior = np.full(400, 0.5)
    forecast, rolling = MarkovForecast(prior), RollingForecast(prior)
    losses, truth = [], prior
    for index, online in enumerate(chains(rng, leave, enter, 700)):
        if index >= 300:
            said = (forecast.probabilities(), rolling.probabilities(), truth)
            losses.append([float(((p - online) ** 2).mean()) for p in said])
        forecast.observe(online)
        rolling.observe(online)
        truth = np.where(online, 1 - leave, enter)
    own, of_rolling, oracle = np.mean(losses, axis=0)
    assert oracle <= own < 1.02 * oracle
    assert of_rolling > 2 * oracle
    # Rates are as close to the truth as those of somebody who knows the Beta they were drawn from.
    (stayed_away, entered), (left, stayed) = forecast.state()["counts"]
    best_leave = (2 + left) / (20 + left + stayed)
    best_enter = (1 + entered) / (20 + stayed_away + entered)
    known = ((best_leave, leave), (best_enter, enter))
    for found, (best, true) in zip(forecast.rates, known, strict=True):
        assert np.abs(found - true).mean() < 1.05 * np.abs(best - true).mean()


def test_few_rounds_do_not_overfit():
    """After 20 rounds of alike clients the rates are nearly the pool's, not each client's own."""
    rng = np.random.default_rng(6)
    leave, enter = np.full(500, 0.1), np.full(500, 0.05)
    forecast = MarkovForecast(np.full(500, 1 / 3))
    own = np.zeros((2, 500))
    before = None
    for online in chains(rng, leave, enter, 20):
        forecast.observe(online)
        if before is not None:
            own += [before & ~online, before]
        before = online
    found = forecast.rates[0]
    some = own[1] > 0
    naive = own[0][some] / own[1][some]
    assert np.abs(found - 0.1).mean() < 0.4 * np.abs(naive - 0.1).mean()
