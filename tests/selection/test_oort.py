"""Oort against Alg. 1 of its paper, said again in plain Python over dictionaries."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.selection.oort import Oort


def drawn(rng: np.random.Generator, weights: dict[int, float], count: int) -> list[int]:
    """One after the other without replacement: the first of clocks that ring at these rates."""
    rings = rng.exponential(size=len(weights))
    at = {client: ring / weights[client] for client, ring in zip(weights, rings, strict=True)}
    return sorted(weights, key=at.__getitem__)[:count]


def alg_1(
    record: Recorded, k: int, window: int = 20, most_rounds: float = math.inf
) -> list[list[int]]:
    explored: dict[int, dict[str, float]] = {}
    history: list[float] = []
    percentile, epsilon, chosen_in = 10.0, 0.9, []
    for number, (round_, outcome) in enumerate(record, start=1):
        times = {client: facts["times"] for client, facts in explored.items()}
        able = [client for client in online(round_) if times.get(client, 0) <= most_rounds]
        count, rng = min(k, len(able)), generator(5, "Oort", round_.index)
        old = [client for client in able if client in explored]
        new = [client for client in able if client not in explored]
        exploited = min(int(count * (1 - epsilon)), len(old))
        exploited = max(exploited, count - len(new))
        chosen: list[int] = []
        if exploited:
            gained = sorted(explored[client]["utility"] for client in old)
            clip = gained[min(int(len(gained) * 0.95), len(gained) - 1)]
            least = gained[0] * 0.999
            spread = max(gained[-1] - least, 1e-4)
            durations = sorted(facts["seconds"] for facts in explored.values())
            place = int(len(durations) * percentile / 100)
            preferred = math.inf if percentile >= 100 else durations[min(place, len(durations) - 1)]
            utility = {}
            for client in old:
                facts = explored[client]
                value = (min(facts["utility"], clip) - least) / spread
                value += math.sqrt(0.1 * math.log(number) / facts["last"])
                if facts["seconds"] > preferred:
                    value *= (preferred / facts["seconds"]) ** 2
                utility[client] = value
            ranked = sorted(old, key=lambda client: -utility[client])
            enough = 0.95 * utility[ranked[min(exploited, len(ranked) - 1)]]
            near = {client: utility[client] for client in ranked if utility[client] >= enough}
            chosen += drawn(rng, near, exploited)
        links, delays = round_.scenario.links, round_.costs.delay_s * round_.scenario.edge_rounds
        speed = {
            client: 1 / min(delays[(links.client == client) & round_.usable]) for client in new
        }
        chosen += drawn(rng, speed, count - exploited)
        chosen_in.append(sorted(chosen))
        told = [row for row in table(outcome) if not math.isnan(row["loss_before"])]
        for row in told:
            before = explored.get(int(row["client"]), {"times": 0})
            explored[int(row["client"])] = {
                "utility": row["samples"] * row["loss_before"],
                "seconds": row["seconds"],
                "last": number,
                "times": before["times"] + 1,
            }
        history.append(sum(row["samples"] * row["loss_before"] for row in told))
        epsilon = max(epsilon * 0.98, 0.2)
        looks = number >= 2 * window and number % window == 0
        if looks and sum(history[-2 * window : -window]) > sum(history[-window:]):
            percentile = min(100.0, percentile + 5)
    return chosen_in


@given(seed=st.integers(0, 10_000), k=st.integers(1, 25), window=st.integers(1, 5))
def test_it_selects_as_algorithm_1(seed, k, window):
    record = recorded(seed, rounds=10)
    found = selections(Oort(k=k, window=window, seed=5), record)
    assert found == alg_1(record, k, window)


def test_clients_that_were_asked_more_often_are_not_asked_again():
    record = recorded(3, rounds=12)
    found = selections(Oort(k=10, most_rounds=2, seed=5), record)
    assert found == alg_1(record, 10, most_rounds=2) != alg_1(record, 10)


def test_exploration_gives_way_to_exploitation():
    record = recorded(1, rounds=60, clients=60)
    seen: set[int] = set()
    new = []
    for (_, outcome), chosen in zip(record, selections(Oort(k=10), record), strict=True):
        new.append(len(set(chosen) - seen))
        seen |= {int(row["client"]) for row in table(outcome) if row["loss_before"] > 0}
    assert new[0] == 10
    assert sum(new[-10:]) < sum(new[:10])


def test_the_pacer_relaxes_where_utility_falls():
    ((_, outcome),) = recorded(2, rounds=1)
    selector = Oort(k=5, window=1)
    selector.observe(outcome)
    assert selector.state()["percentile"] == 10
    smaller = replace(outcome.clients, loss_before=outcome.clients.loss_before / 2)
    selector.observe(replace(outcome, clients=smaller))
    assert selector.state()["percentile"] == 15
    selector.observe(outcome)
    assert selector.state()["percentile"] == 15


def test_without_losses_everybody_stays_unexplored():
    """Where nothing is trained, the fast are preferred for ever."""
    record = recorded(4, rounds=5)
    selector = Oort(k=6)
    for round_, _ in record:
        assert len(selector.select(round_)) == 6
    assert selector.state()["last"].sum() == 0


@pytest.mark.parametrize(
    "options",
    [{"exploration": 1.1}, {"cutoff": -0.1}, {"window": 0}, {"penalty": float("nan")}, {"k": 0}],
)
def test_options_that_cannot_be(options):
    (name,) = options
    with pytest.raises(StagewiseError, match=f"{name} = "):
        Oort(**options)
