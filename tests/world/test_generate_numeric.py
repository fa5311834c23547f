"""Numerical scenarios: Table I's ranges, geometry, reproducibility, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewise.errors import StagewiseError
from stagewise.world.generate import TASKS, SystemParameters, numeric, random_weights
from stagewise.world.scenario import Limits, Weights


def test_the_default_is_the_papers_setting():
    scenario = numeric()
    assert (len(scenario.clients), len(scenario.edges), scenario.labels) == (93, 4, 10)
    assert scenario.clients.ids[:2] == ("c0", "c1")
    assert scenario.edges.ids == ("es0", "es1", "es2", "es3")
    assert (scenario.local_steps, scenario.edge_rounds) == (5, 3)
    assert scenario.model_bits == 698_880
    assert scenario.weights == Weights(0.5, 0.5, 1.0)
    assert scenario.limits == Limits()
    # -174 dBm/Hz in W/Hz.
    assert scenario.noise_w_per_hz == pytest.approx(10 ** (-174 / 10) / 1000, rel=1e-4)


def test_values_fill_the_ranges_of_table_one():
    scenario = numeric(20_000, 400, seed=3)
    clients, edges = scenario.clients, scenario.edges
    for values, low, high in (
        (clients.online_probability, 0.5, 1.0),
        (clients.cpu_hz, 1e9, 10e9),
        (clients.cycles_per_sample, 30 * 6272, 100 * 6272),
        (clients.tx_power_w, 0.2, 0.8),
        (scenario.links.gain, 1e-9, 1e-8),
        (edges.uplink_delay_s, 0.16, 0.2),
    ):
        assert low <= values.min()
        assert values.max() < high
        width = high - low
        assert values.min() < low + 0.02 * width
        assert values.max() > high - 0.02 * width
        # Uniform: the mean and the spread, within about six standard errors.
        error = 6 * width / math.sqrt(12 * len(values))
        assert abs(values.mean() - (low + high) / 2) < error
        assert abs(values.std() - width / math.sqrt(12)) < error
    assert np.unique(edges.capacity).tolist() == [8, 9, 10, 11, 12]
    assert set(clients.batch_fraction) == {0.1}
    assert set(clients.capacitance) == {1e-28}
    assert set(edges.bandwidth_hz) == {1e6}
    assert set(edges.uplink_energy_j) == {0.1}


def test_quantities_are_independent_of_each_other():
    clients = numeric(20_000, 400, seed=5).clients
    columns = [clients.online_probability, clients.cpu_hz, clients.cycles_per_sample]
    columns += [clients.tx_power_w, clients.data, *clients.position_m.T]
    off_diagonal = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(off_diagonal).max() < 0.05


@pytest.mark.parametrize("edges", [1, 2, 3, 4, 5, 7, 12, 100])
def test_edges_spread_over_the_square_and_cover_it(edges):
    side = 250 * math.sqrt(edges)
    scenario = numeric(4000, edges, seed=edges)
    for position in (scenario.edges.position_m, scenario.clients.position_m):
        assert position.min() >= 0
        assert position.max() <= side
    assert len(np.unique(scenario.edges.position_m, axis=0)) == edges
    # Nobody is far from an edge, whatever the number of edges: the grid leaves no hole.
    gap = scenario.clients.position_m[:, None] - scenario.edges.position_m[None]
    nearest = np.sqrt((gap**2).sum(axis=2)).min(axis=1)
    assert nearest.max() < 400


def test_links_are_within_the_radius_or_to_the_nearest():
    scenario = numeric(500, 9, seed=2, radius_m=120)
    gap = scenario.clients.position_m[:, None] - scenario.edges.position_m[None]
    away = np.sqrt((gap**2).sum(axis=2))
    alone = 0
    for i in range(500):
        row = scenario.links.edge[scenario.links.start[i] : scenario.links.start[i + 1]].tolist()
        reached = np.flatnonzero(away[i] <= 120).tolist()
        alone += not reached
        assert row == (reached or [int(away[i].argmin())])
    assert alone > 0


@settings(max_examples=20)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 2**63))
def test_the_same_seed_gives_the_same_scenario(clients, edges, seed):
    first, second = numeric(clients, edges, seed), numeric(clients, edges, seed)
    assert first.sha256 == second.sha256
    assert first.sha256 != numeric(clients, edges, seed + 1).sha256


def test_one_changed_range_leaves_the_rest_alone():
    usual = numeric(seed=4)
    rarer = numeric(seed=4, parameters=SystemParameters(online_probability=(0.1, 0.2)))
    assert rarer.clients.online_probability.max() < 0.2
    back = replace(
        rarer,
        clients=replace(rarer.clients, online_probability=usual.clients.online_probability),
    )
    assert back.sha256 == usual.sha256


def test_more_clients_begin_with_the_same_ones():
    few, many = numeric(50, seed=6), numeric(80, seed=6)
    for name in ("label_counts", "cpu_hz", "cycles_per_sample", "position_m", "tx_power_w"):
        np.testing.assert_array_equal(getattr(many.clients, name)[:50], getattr(few.clients, name))


def test_the_task_sets_labels_cycles_and_model():
    scenario = numeric(40, 3, task="cifar100")
    assert scenario.labels == 100
    assert scenario.model_bits == 32 * 11_220_132
    assert scenario.clients.cycles_per_sample.min() >= 30 * 24_576
    assert (
        numeric(5, 1, task=replace(TASKS["mnist"], data_range=(7, 7))).clients.data.tolist()
        == [7] * 5
    )


def test_random_weights_sum_to_one():
    drawn = [random_weights(seed) for seed in range(200)]
    assert all(weights.delay + weights.energy == pytest.approx(1) for weights in drawn)
    assert all(0 < weights.delay < 1 for weights in drawn)
    assert np.std([weights.delay for weights in drawn]) > 0.2
    assert random_weights(1, continuity=0.3).continuity == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "clients = 0: must be at least 1"),
        ({"clients": -3}, "clients = -3"),
        ({"clients": 10**12}, "clients = 1000000000000: must be at least 1 and at most"),
        ({"clients": 1.5}, "clients = 1.5: must be a whole number"),
        ({"edges": 0}, "edges = 0"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
        ({"radius_m": 0}, "radius_m = 0"),
        ({"radius_m": float("nan")}, "radius_m = nan"),
        ({"gain_range": (1e-8, 1e-9)}, "the lower end must not be above the upper end"),
        ({"gain_range": (0, 1e-9)}, "gain_range = 0: must be a finite number above 0"),
        ({"task": "imagenet"}, "task = 'imagenet'"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(StagewiseError, match=message):
        numeric(**arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("online_probability", (0.9, 0.5)),
        ("online_probability", (0.5, 1.1)),
        ("online_probability", (float("nan"), 1)),
        ("cpu_hz", (0, 1e9)),
        ("capacity", (12, 8)),
        ("capacity", (-1, 8)),
        ("capacitance", -1e-28),
        ("batch_fraction", 0),
        ("batch_fraction", 1.5),
        ("bandwidth_hz", 0),
        ("uplink_delay_s", (0.2, float("inf"))),
        ("local_steps", 0),
        ("edge_rounds", 2.5),
    ],
)
def test_impossible_parameters_are_refused(field, value):
    with pytest.raises(StagewiseError, match=rf"^{field} = "):
        SystemParameters(**{field: value})
