"""Rounds whose channels and CPUs change: ranges, independence, reproducibility, round trip."""

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.world.fluctuation import fluctuate
from stagewise.world.participation import bernoulli
from stagewise.world.rounds_file import load_rounds, save_rounds
from stagewise.world.scenario import Limits, Scenario, Weights

SCENARIO = random_scenario(1, clients=40, edges=4)


def test_draws_fill_their_ranges_again_in_each_round():
    before = bernoulli(SCENARIO, 200, 3)
    after = fluctuate(before, 3)
    cpu = np.array([round_.cpu_hz for round_ in after])
    gain = np.array([round_.gain for round_ in after])
    for values, low, high in ((cpu, 1e9, 1e10), (gain, 1e-9, 1e-8)):
        assert low <= values.min()
        assert values.max() < high
        assert values.mean() == pytest.approx((low + high) / 2, rel=0.02)
        assert values.std() == pytest.approx((high - low) / np.sqrt(12), rel=0.03)
        # Neither the same in every round nor the same for every client.
        assert len(np.unique(values)) == values.size
    assert gain.shape == (200, len(SCENARIO.links))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old.online, new.online)
        assert old.cpu_hz is None


def test_a_round_is_drawn_from_its_place_alone():
    rounds = bernoulli(SCENARIO, 5, 0)
    few, many = fluctuate(rounds[:2], 9), fluctuate(rounds, 9)
    np.testing.assert_array_equal(few[1].gain, many[1].gain)
    np.testing.assert_array_equal(few[1].cpu_hz, many[1].cpu_hz)
    assert (fluctuate(rounds, 10)[1].gain != many[1].gain).all()


def test_costs_follow_the_draws():
    (round_,) = fluctuate(bernoulli(SCENARIO, 1, 0), 0)
    (usual,) = bernoulli(SCENARIO, 1, 0)
    assert (round_.costs.delay_s != usual.costs.delay_s).all()


def test_fluctuating_rounds_survive_their_file(tmp_path):
    rounds = fluctuate(bernoulli(SCENARIO, 3, 0), 0, cpu_range=(2e9, 3e9), gain_range=(1e-7, 2e-7))
    save_rounds(rounds, tmp_path / "rounds.jsonl")
    for old, new in zip(rounds, load_rounds(tmp_path / "rounds.jsonl", SCENARIO), strict=True):
        np.testing.assert_array_equal(old.online, new.online)
        np.testing.assert_array_equal(old.cpu_hz, new.cpu_hz)
        np.testing.assert_array_equal(old.gain, new.gain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gain_range": (2e-9, 1e-9)}, "gain_range = .* the lower end must not be above"),
        ({"gain_range": (0, 1e-9)}, "gain_range = 0: must be a finite number above 0"),
        ({"cpu_range": (1e9, float("nan"))}, "cpu_range = nan"),
        ({"seed": -2}, "seed = -2"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(StagewiseError, match=message):
        fluctuate(bernoulli(SCENARIO, 1, 0), **arguments)


def test_gains_that_are_not_known_cannot_fluctuate():
    scenario = Scenario.from_tables(
        [{"id": "a", "online_probability": 0.8, "label_0": 5}],
        [{"id": "e", "capacity": 1, "uplink_delay_s": 0.1, "uplink_energy_j": 0.0}],
        [{"client": "a", "edge": "e", "delay_s": 1.0}],
        weights=Weights(energy=0),
        limits=Limits(data_min=1, kld_max=5),
    )
    rounds = bernoulli(scenario, 1, 0)
    with pytest.raises(StagewiseError, match="links: there must be a channel gain"):
        fluctuate(rounds)
