"""Eqs. 4 and 5 with plain arithmetic written out, and over random assignments."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.world.costs import UNASSIGNED, edge_costs, link_costs, transmission_delay_s
from stagewise.world.scenario import Clients, Edges, Limits, Links, Scenario, Weights


def two_clients() -> Scenario:
    """Client a holds 300 samples and reaches both edges; client b holds 500 and reaches edge y."""
    return Scenario(
        clients=Clients(
            ids=("a", "b"),
            label_counts=np.array([[100, 200], [500, 0]]),
            cpu_hz=np.array([2e9, 5e9]),
            cycles_per_sample=np.array([4e5, 3e5]),
            capacitance=np.array([1e-28, 2e-28]),
            batch_fraction=np.array([0.1, 0.2]),
            tx_power_w=np.array([0.5, 0.3]),
            online_probability=np.array([0.9, 0.8]),
        ),
        edges=Edges(
            ids=("x", "y", "z"),
            capacity=np.array([5, 5, 5]),
            bandwidth_hz=np.array([1e6, 2e6, 1e6]),
            uplink_delay_s=np.array([0.17, 0.19, 0.5]),
            uplink_energy_j=np.array([0.1, 0.2, 0.5]),
        ),
        links=Links(
            start=np.array([0, 2, 3]), edge=np.array([0, 1, 1]), gain=np.array([4e-9, 2e-9, 6e-9])
        ),
        local_steps=5,
        edge_rounds=3,
        model_bits=698_880,
        noise_w_per_hz=3.981e-21,
        weights=Weights(),
        limits=Limits(),
    )


# By hand. Client a: 4e5 * 0.1 * 300 = 1.2e7 cycles a step, 0.006 s at 2 GHz, and
# 1e-28 * (2e9)^2 * 1.2e7 = 0.0048 J. Client b: 3e5 * 0.2 * 500 = 3e7 cycles, 0.006 s at 5 GHz,
# 2e-28 * (5e9)^2 * 3e7 = 0.15 J.
SEND_AX = 698_880 / (1e6 * math.log2(1 + 0.5 * 4e-9 / (3.981e-21 * 1e6)))
SEND_AY = 698_880 / (2e6 * math.log2(1 + 0.5 * 2e-9 / (3.981e-21 * 2e6)))
SEND_BY = 698_880 / (2e6 * math.log2(1 + 0.3 * 6e-9 / (3.981e-21 * 2e6)))


def test_sending_a_model():
    np.testing.assert_allclose(transmission_delay_s(two_clients()), [SEND_AX, SEND_AY, SEND_BY])
    assert pytest.approx(0.0369, abs=1e-4) == SEND_AX


def test_links_by_hand():
    costs = link_costs(two_clients())
    delay = [5 * 0.006 + SEND_AX, 5 * 0.006 + SEND_AY, 5 * 0.006 + SEND_BY]
    energy = [
        5 * 0.0048 + 0.5 * SEND_AX,
        5 * 0.0048 + 0.5 * SEND_AY,
        5 * 0.15 + 0.3 * SEND_BY,
    ]
    np.testing.assert_allclose(costs.delay_s, delay)
    np.testing.assert_allclose(costs.energy_j, energy)


def test_a_round_by_hand():
    scenario = two_clients()
    spent = edge_costs(scenario, link_costs(scenario), np.array([1, 1]))
    delay = 3 * (0.03 + max(SEND_AY, SEND_BY)) + 0.19
    energy = 3 * (0.024 + 0.5 * SEND_AY + 0.75 + 0.3 * SEND_BY) + 0.2
    np.testing.assert_allclose(spent.delay_s, [0, delay, 0])
    np.testing.assert_allclose(spent.energy_j, [0, energy, 0])
    assert spent.round_delay_s == pytest.approx(delay)
    assert spent.round_energy_j == pytest.approx(energy)


def test_an_edge_without_clients_adds_nothing():
    scenario = two_clients()
    spent = edge_costs(scenario, link_costs(scenario), np.array([0, UNASSIGNED]))
    assert spent.delay_s.tolist()[1:] == [0, 0]
    assert spent.energy_j.tolist()[1:] == [0, 0]
    assert spent.round_delay_s == pytest.approx(3 * (0.03 + SEND_AX) + 0.17)
    nobody = edge_costs(scenario, link_costs(scenario), np.array([UNASSIGNED, UNASSIGNED]))
    assert (nobody.round_delay_s, nobody.round_energy_j) == (0, 0)


def test_a_rounds_own_cpu_and_gain():
    scenario = two_clients()
    costs = link_costs(scenario, cpu_hz=np.array([4e9, 5e9]), gain=np.array([8e-9, 2e-9, 6e-9]))
    send = 698_880 / (1e6 * math.log2(1 + 0.5 * 8e-9 / (3.981e-21 * 1e6)))
    assert costs.delay_s[0] == pytest.approx(5 * 0.003 + send)
    assert costs.energy_j[0] == pytest.approx(5 * 1e-28 * 16e18 * 1.2e7 + 0.5 * send)
    assert costs.delay_s[2] == pytest.approx(0.03 + SEND_BY)


def test_a_client_sent_where_it_has_no_link_is_an_error():
    scenario = two_clients()
    with pytest.raises(ValueError, match="client 'b' has no link to edge 'x'"):
        edge_costs(scenario, link_costs(scenario), np.array([UNASSIGNED, 0]))


def test_a_very_weak_link_is_slow_but_finite():
    scenario = two_clients()
    weak = link_costs(scenario, gain=np.full(3, 1e-40))
    assert np.isfinite(weak.delay_s).all()
    assert (weak.delay_s > 1e9).all()


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4))
def test_any_assignment_against_a_loop(seed, clients, edges):
    scenario = random_scenario(seed, clients, edges)
    costs, links = link_costs(scenario), scenario.links
    rng = np.random.default_rng(seed)
    assignment = np.full(clients, UNASSIGNED)
    slowest, spent = [0.0] * edges, [0.0] * edges
    for i in range(clients):
        row = range(links.start[i], links.start[i + 1])
        if len(row) and rng.random() < 0.8:
            link = int(rng.choice(row))
            edge = int(links.edge[link])
            assignment[i] = edge
            slowest[edge] = max(slowest[edge], costs.delay_s[link])
            spent[edge] += costs.energy_j[link]
    found = edge_costs(scenario, costs, assignment)
    for j in range(edges):
        used = bool((assignment == j).any())
        delay = 3 * slowest[j] + scenario.edges.uplink_delay_s[j] if used else 0
        energy = 3 * spent[j] + scenario.edges.uplink_energy_j[j] if used else 0
        assert found.delay_s[j] == pytest.approx(delay)
        assert found.energy_j[j] == pytest.approx(energy)


def test_more_local_steps_scale_computing_alone():
    scenario = two_clients()
    five, ten = link_costs(scenario), link_costs(replace(scenario, local_steps=10))
    np.testing.assert_allclose(ten.delay_s - five.delay_s, [0.03, 0.03, 0.03])
    np.testing.assert_allclose(ten.energy_j - five.energy_j, [0.024, 0.024, 0.75])
