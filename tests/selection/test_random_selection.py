"""Everybody, or so many at random; and how many a round needs."""

from math import ceil

import numpy as np
import pytest

from stagewise.errors import StagewiseError
from stagewise.selection.random_selection import AllOnline, RandomK
from stagewise.selection.selector import candidates, number_of_clients, sample
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round


def rounds(count: int = 3) -> list[Round]:
    return bernoulli(numeric(clients=60, edges=3, seed=0), count, 1)


def test_all_online():
    for round_ in rounds():
        able = [
            client
            for client in range(60)
            if any(
                round_.usable[link]
                for link in np.flatnonzero(round_.scenario.links.client == client)
            )
        ]
        assert AllOnline().select(round_).tolist() == able == candidates(round_).tolist()


def test_random_k_depends_on_seed_and_round():
    one, two, *_ = rounds()
    chosen = RandomK(k=9, seed=4).select(one)
    assert len(set(chosen.tolist())) == 9
    assert set(chosen.tolist()) <= set(candidates(one).tolist())
    assert RandomK(k=9, seed=4).select(one).tolist() == chosen.tolist()
    assert RandomK(k=9, seed=5).select(one).tolist() != chosen.tolist()
    assert RandomK(k=9, seed=4).select(two).tolist() != chosen.tolist()


def test_every_client_is_as_likely():
    scenario = numeric(clients=10, edges=1, seed=0)
    online = np.ones(10, dtype=np.bool_)
    times = np.zeros(10)
    for index in range(400):
        times[RandomK(k=3).select(Round(scenario, online, index))] += 1
    assert times.sum() == 1200
    assert (abs(times - 120) < 5 * np.sqrt(400 * 0.3 * 0.7)).all()


def test_what_a_round_needs():
    (round_,) = rounds(1)
    scenario = round_.scenario
    mean = sum(scenario.clients.data.tolist()) / 60
    needed = ceil(3 * scenario.limits.data_min / mean)
    assert number_of_clients(None, round_, 60) == needed < 60
    assert number_of_clients(None, round_, 2) == 2
    assert number_of_clients(7, round_, 60) == 7


def test_sample_draws_one_by_one_by_weight():
    weights, clients = np.array([1.0, 2.0, 5.0]), np.array([4, 6, 9])
    first = [sample(np.random.default_rng(seed), clients, weights, 2)[0] for seed in range(2000)]
    shares = [np.mean(np.array(first) == client) for client in clients]
    assert shares == pytest.approx(weights / 8, abs=0.04)
    chosen = sample(np.random.default_rng(0), clients, np.array([1.0, 0.0, 1.0]), 2)
    assert sorted(chosen) == [4, 9]


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_number_that_cannot_be(k):
    with pytest.raises(StagewiseError, match=r"k = "):
        RandomK(k=k)
