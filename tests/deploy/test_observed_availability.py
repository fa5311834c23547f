"""Who answered becomes a round: its links are up or down, and every policy keeps to that."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_cases import plan_of, planned, two_edges

from helpers import random_scenario
from stagewise.deciding import wrapped
from stagewise.decisions import contract_violation
from stagewise.deploy.availability import estimates_after, observed_round
from stagewise.deploy.exchange import Presence
from stagewise.deploy.in_process import covering_edges
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.registry import make_policy, policy_names
from stagewise.problem.evaluation import evaluate, round_violations
from stagewise.world.costs import UNASSIGNED
from stagewise.world.rounds import Round
from stagewise.world.scenario import Links


def presence_of(edges_of, edges):
    return Presence(edges_of, dict.fromkeys(edges_of, 1.0), tuple(edges))


@st.composite
def presences(draw, scenario):
    edges = draw(st.sets(st.sampled_from([*scenario.edges.ids, "stranger"])))
    names = [*scenario.clients.ids, "nobody's"]
    edges_of = draw(
        st.dictionaries(
            st.sampled_from(names), st.sets(st.sampled_from(scenario.edges.ids)).map(tuple)
        )
    )
    return presence_of(edges_of, edges)


@given(st.integers(0, 30), st.data())
def test_a_client_is_online_if_an_edge_that_covers_it_and_answered_heard_it(seed, data):
    scenario = random_scenario(seed)
    presence = data.draw(presences(scenario))
    round_ = observed_round(scenario, presence)
    heard = {
        client: set(edges) & set(presence.edges) & set(presence.edges_of.get(client, ()))
        for client, edges in covering_edges(scenario).items()
    }
    assert set(round_.online_ids) == {client for client, edges in heard.items() if edges}
    # Somebody may serve over exactly the links over which somebody answered.
    clients, edges, links = scenario.clients.ids, scenario.edges.ids, scenario.links
    for link, usable in enumerate(round_.usable):
        assert usable == (edges[links.edge[link]] in heard[clients[links.client[link]]])


def test_an_edge_that_is_gone_takes_its_links_with_it():
    scenario = two_edges(3)
    round_ = observed_round(scenario, presence_of(covering_edges(scenario), ["es1"]))
    assert round_.online.all()
    assert round_.up.tolist() == [False, True] * 3
    assert round_.edges_up.tolist() == [False, True]
    whole = observed_round(scenario, presence_of(covering_edges(scenario), ["es0", "es1"]))
    assert whole.up is None


def test_a_client_that_is_offline_has_no_link_that_is_down():
    scenario = two_edges(3)
    heard = covering_edges(scenario)
    del heard["c1"]
    round_ = observed_round(scenario, presence_of(heard, scenario.edges.ids))
    assert round_.online_ids == ["c0", "c2"]
    assert round_.up is None


def test_polls_count_twice_as_much_as_what_the_scenario_said():
    scenario = two_edges(2)
    polls = [np.array([True, False]), np.array([True, True]), np.array([True, False])]
    found = estimates_after(scenario, polls).clients.online_probability
    np.testing.assert_allclose(found, [0.9 / 3 + 2 / 3, 0.9 / 3 + 2 / 9])
    assert estimates_after(scenario, []) is scenario


def without_what_is_down(round_):
    """The round in a smaller system, that of the edges and links that are up; the edges' numbers."""
    scenario, links = round_.scenario, round_.scenario.links
    kept = np.ones(len(links), dtype=bool) if round_.up is None else round_.up
    edges = np.flatnonzero(round_.edges_up)
    start = np.zeros(len(links.start), dtype=np.int64)
    np.cumsum(np.bincount(links.client[kept], minlength=len(start) - 1), out=start[1:])
    whole = scenario.edges
    smaller = replace(
        scenario,
        edges=replace(
            whole,
            ids=tuple(whole.ids[edge] for edge in edges),
            capacity=whole.capacity[edges],
            bandwidth_hz=whole.bandwidth_hz[edges],
            uplink_delay_s=whole.uplink_delay_s[edges],
            uplink_energy_j=whole.uplink_energy_j[edges],
            position_m=None if whole.position_m is None else whole.position_m[edges],
        ),
        links=Links(start, np.searchsorted(edges, links.edge[kept]), links.gain[kept]),
        file_sha256=None,
    )
    return Round(smaller, round_.online, round_.index), edges


@given(st.integers(0, 40), st.data())
def test_a_round_is_that_of_the_edges_and_links_that_are_up(seed, data):
    """Any assignment has the figures and violations that it has where nothing else exists."""
    scenario = random_scenario(seed, clients=6)
    round_ = observed_round(scenario, data.draw(presences(scenario)))
    if not round_.edges_up.any():
        assert not round_.online.any()
        return
    smaller, edges = without_what_is_down(round_)
    links = scenario.links
    edge_of = np.array(
        [
            data.draw(st.sampled_from([UNASSIGNED, *links.edge[own & round_.usable].tolist()]))
            for own in (links.client == client for client in range(len(scenario.clients)))
        ]
    )
    inner = np.where(edge_of == UNASSIGNED, UNASSIGNED, np.searchsorted(edges, edge_of))
    found, expected = evaluate(round_, edge_of), evaluate(smaller, inner)
    assert found.delay_s == pytest.approx(expected.delay_s)
    assert found.energy_j == pytest.approx(expected.energy_j)
    assert found.data[edges].tolist() == expected.data.tolist()
    assert found.failing[edges].tolist() == expected.failing.tolist()
    assert found.failing.sum() == expected.failing.sum()
    assert round_violations(scenario, found) == round_violations(smaller.scenario, expected)


def test_a_plan_is_followed_as_far_as_its_links_are_up():
    scenario = two_edges(4, data_min=30)
    policy = PlanPolicy(plan_of(scenario, [0, 1, 0, UNASSIGNED]), "repair", "strict")
    heard = covering_edges(scenario) | {"c2": ("es1",)}
    round_ = observed_round(scenario, presence_of(heard, ["es0", "es1"]))
    assert policy.decide(round_).edge_of.tolist() == [0, 1, UNASSIGNED, UNASSIGNED]
    alone = observed_round(scenario, presence_of(covering_edges(scenario), ["es1"]))
    assert policy.decide(alone).edge_of.tolist() == [UNASSIGNED, 1, UNASSIGNED, UNASSIGNED]


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_clients_of_an_edge_that_is_gone_serve_where_they_are_needed(mode):
    """es1 needs three clients; c1 alone is its own, so two of es0's must come."""
    scenario = two_edges(4, data_min=90)
    heard = covering_edges(scenario)
    del heard["c3"]
    round_ = observed_round(scenario, presence_of(heard, ["es1"]))
    policy = wrapped(planned(scenario, mode), remedy="lend")
    assert policy.decide(round_).edge_of.tolist() == [1, 1, 1, UNASSIGNED]


def test_an_edge_that_is_gone_is_left_out_by_drop():
    scenario = two_edges(4)
    round_ = observed_round(scenario, presence_of(covering_edges(scenario), ["es1"]))
    policy = wrapped(planned(scenario), remedy="drop")
    assert policy.decide(round_).edge_of.tolist() == [-1, 1, -1, 1]


def test_where_nothing_is_missing_the_plan_is_followed_as_ever():
    scenario = two_edges(4)
    heard = covering_edges(scenario)
    for round_ in (
        observed_round(scenario, presence_of(heard, scenario.edges.ids)),
        Round(scenario, np.ones(4, dtype=bool)),
    ):
        policy = wrapped(planned(scenario), remedy="lend")
        assert policy.decide(round_).edge_of.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_uses_a_link_that_is_down(name):
    for seed in range(3):
        scenario = random_scenario(seed, clients=8, edges=3, isolated=0)
        own = quick_policy(name, scenario)
        for remedy in ("drop", "reweight", *(["lend"] if own.plan is not None else [])):
            policy, rng = wrapped(own, remedy=remedy), np.random.default_rng(seed)
            for index in range(4):
                heard = {
                    client: tuple(edge for edge in edges if rng.random() < 0.7)
                    for client, edges in covering_edges(scenario).items()
                }
                edges = [edge for edge in scenario.edges.ids if rng.random() < 0.7]
                round_ = observed_round(scenario, presence_of(heard, edges), index)
                assert contract_violation(round_, policy.decide(round_)) is None


def quick_policy(name, scenario):
    """The policy of that name; where a plan would take seconds, around one of the test's own."""
    if not name.startswith("stagewise-"):
        return make_policy(name, scenario, seconds=0.1)
    method, mode = {
        "stagewise-paper": ("ccu", "strict"),
        "stagewise-paper-flexible": ("ccu", "flexible"),
        "stagewise-strict": ("repair", "strict"),
        "stagewise-flexible": ("repair", "flexible"),
    }[name]
    return PlanPolicy(plan_of(scenario, first_edges(scenario)), method, mode)


def first_edges(scenario):
    """Every client at the first of its edges, as long as there is room."""
    links, edges = scenario.links, len(scenario.edges)
    first = links.edge[links.start[:-1]]
    before = np.cumsum(np.eye(edges, dtype=int)[first], axis=0)[np.arange(len(first)), first]
    return np.where(before <= scenario.edges.capacity[first], first, UNASSIGNED)


@pytest.mark.parametrize("name", policy_names())
def test_nobody_serves_where_no_link_is_up(name):
    scenario = two_edges(3)
    round_ = observed_round(scenario, presence_of({}, ["es0"]))
    policy = wrapped(quick_policy(name, scenario), remedy="drop")
    assert (policy.decide(round_).edge_of == UNASSIGNED).all()
