"""REFL's selection against its rule, said again in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.selection.refl import Refl
from stagewise.world.forecasts import make_forecast


def least_available_first(record: Recorded, k: int, rest: int) -> list[list[int]]:
    seen: list[list[bool]] = []
    trained_in: dict[int, int] = {}
    chosen_in = []
    window = record[0][0].scenario.estimator_window
    for number, (round_, outcome) in enumerate(record):
        prior = round_.scenario.clients.online_probability.tolist()
        full = len(seen) // window
        newest = seen[len(seen) - full * window :]
        windows = [newest[i * window : (i + 1) * window] for i in range(full)]
        means = [prior] + [
            [sum(column) / window for column in zip(*rows, strict=True)] for rows in windows
        ]
        weights = [2 * (i + 1) / (len(means) * (len(means) + 1)) for i in range(len(means))]
        forecast = [
            min(1.0, sum(w * m[client] for w, m in zip(weights, means, strict=True)))
            for client in range(len(prior))
        ]
        able = online(round_)
        turns = generator(9, "REFL", round_.index).permutation(len(able))
        turn = dict(zip(able, turns, strict=True))
        resting = {c for c in able if c in trained_in and number - trained_in[c] < rest}
        ranked = sorted(able, key=lambda c: (c in resting, round(forecast[c], 12), turn[c]))
        chosen_in.append(sorted(ranked[:k]))
        seen.append(round_.online.tolist())
        trained_in |= {int(row["client"]): number for row in table(outcome)}
    return chosen_in


@given(seed=st.integers(0, 10_000), k=st.integers(1, 20), rest=st.integers(0, 4))
def test_it_selects_as_published(seed, k, rest):
    record = recorded(seed, rounds=12)
    expected = least_available_first(record, k, rest)
    assert selections(Refl(k=k, rest=rest, seed=9), record) == expected


@pytest.mark.parametrize("name", ["rolling", "markov", "time-of-day", "mixture"])
def test_it_goes_by_the_forecast_that_is_asked_for(name):
    """Nobody rests: the least likely of those online, by a forecast that saw the same rounds."""
    record = recorded(3, rounds=25)
    chosen = selections(Refl(k=5, rest=0, forecast=name), record)
    scenario = record[0][0].scenario
    forecast = make_forecast(name, scenario.clients.online_probability)
    for (round_, _), clients in zip(record, chosen, strict=True):
        likely = forecast.probabilities()
        others = [client for client in online(round_) if client not in clients]
        assert likely[clients].max() <= likely[others].min()
        forecast.observe(round_.online)


@pytest.mark.parametrize("name", ["rolling", "markov", "mixture"])
def test_it_goes_on_from_its_state(name):
    record = recorded(1, rounds=10)
    whole = selections(Refl(k=6, forecast=name), record)
    first, second = Refl(k=6, forecast=name), Refl(k=6, forecast=name)
    selections(first, record[:5])
    second.restore(first.state())
    assert second.state() is not None
    assert selections(second, record[5:]) == whole[5:]


def test_a_forecast_that_is_not_there():
    with pytest.raises(StagewiseError, match="forecast = 'luck': must be one of rolling, markov"):
        Refl(forecast="luck")


def test_a_rest_that_cannot_be():
    with pytest.raises(StagewiseError, match=r"rest = -1"):
        Refl(rest=-1)
