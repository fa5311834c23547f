"""The compiled form of a problem: candidates by edge and price, whatever of them is usable."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import random_scenario
from stagewise.problem.statement import p0
from stagewise.search.instance import _median, build_instance
from stagewise.world.fluctuation import fluctuate
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Weights


def sorted_again(instance, scenario):
    """The candidates in order, by sorting the links of this instance alone."""
    price = (
        scenario.weights.delay * instance.link_delay
        + scenario.weights.energy * instance.link_energy
    )
    return np.lexsort((price, instance.link_edge))


@pytest.mark.parametrize("weights", [Weights(0.5, 0.5), Weights(1, 0), Weights(0, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_candidates_come_by_edge_and_price_in_usual_rounds_and_others(seed, weights):
    """With weights of nothing all links cost the same: the order must still be one."""
    scenario = replace(random_scenario(seed, clients=30, edges=4), weights=weights)
    usual = list(bernoulli(scenario, rounds=3, seed=seed))
    for round_ in [*usual, *fluctuate(usual, seed)]:
        instance = build_instance(p0(round_))
        np.testing.assert_array_equal(instance.candidate, sorted_again(instance, scenario))
    some = np.random.default_rng(seed).random(len(scenario.links)) < 0.5
    instance = build_instance(p0(usual[0]), usable=some)
    np.testing.assert_array_equal(instance.candidate, sorted_again(instance, scenario))


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_the_median_is_numpys(size):
    values = np.random.default_rng(size).uniform(size=size)
    assert _median(values) == np.median(values)
