"""Table II: what each set varies, what it keeps, and which values it takes."""

from dataclasses import replace

import numpy as np
import pytest

from stagewise.errors import StagewiseError
from stagewise.world.generate import PAPER_SETS, paper_set
from stagewise.world.scenario import Limits, Scenario, Weights


def facts(scenario: Scenario) -> tuple[int, int, float]:
    return len(scenario.clients), len(scenario.edges), scenario.limits.data_min


def test_the_table_is_the_papers():
    assert PAPER_SETS[1][1] == (75, 80, 85, 90, 95, 100, 105, 110, 115, 120)
    assert PAPER_SETS[2][1] == (3, 4, 5, 6, 7)
    assert PAPER_SETS[3][1] == (2000, 2500, 3000, 3500, 4000)
    assert PAPER_SETS[4][1] == (0.4, 0.45, 0.5, 0.6, 0.7)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_without_a_value_all_sets_are_the_same_scenario(number):
    scenario = paper_set(number, seed=9)
    assert facts(scenario) == (100, 4, 2500)
    assert scenario.sha256 == paper_set(1, 100, seed=9).sha256


def test_each_set_varies_its_own():
    for value in PAPER_SETS[1][1]:
        assert facts(paper_set(1, value)) == (value, 4, 2500)
    for value in PAPER_SETS[2][1]:
        assert facts(paper_set(2, value)) == (100, value, 2500)
    for value in PAPER_SETS[3][1]:
        assert facts(paper_set(3, value)) == (100, 4, value)
    for value in PAPER_SETS[4][1]:
        scenario = paper_set(4, value)
        assert facts(scenario) == (100, 4, 2500)
        assert value <= scenario.clients.online_probability.min() < value + 0.1
        assert 0.9 < scenario.clients.online_probability.max() < 1


def test_sets_of_one_seed_share_what_they_do_not_vary():
    usual, stricter = paper_set(3, 2500, seed=1), paper_set(3, 4000, seed=1)
    assert replace(stricter, limits=usual.limits).sha256 == usual.sha256
    rare, often = paper_set(4, 0.4, seed=1), paper_set(4, 0.7, seed=1)
    np.testing.assert_array_equal(rare.clients.label_counts, often.clients.label_counts)
    np.testing.assert_array_equal(rare.links.gain, often.links.gain)


def test_weights_and_other_limits_are_the_callers():
    weights = Weights(1, 0, 2)
    scenario = paper_set(2, 5, weights=weights, limits=Limits(kld_max=0.4, data_min=1))
    assert scenario.weights == weights
    assert (scenario.limits.kld_max, scenario.limits.data_min) == (0.4, 2500)


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (1, 77, r"clients = 77: must be one of 75, 80, 85, .* 120 in set 1"),
        (2, 8, r"edges = 8: must be one of 3, 4, 5, 6, 7 in set 2"),
        (3, 2501, r"data_min = 2501: must be one of 2000, 2500, 3000, 3500, 4000 in set 3"),
        (4, 0.55, r"p_min = 0.55: must be one of 0.4, 0.45, 0.5, 0.6, 0.7 in set 4"),
        (4, float("nan"), r"p_min = nan"),
        (5, None, r"set = 5: must be one of 1, 2, 3, 4"),
    ],
)
def test_values_outside_the_table_are_refused(number, value, message):
    with pytest.raises(StagewiseError, match=message):
        paper_set(number, value)
