"""Who answered becomes a round; what is left of the world is decided as a world of its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_cases import covering, plan_of, planned, two_edges

from helpers import random_scenario
from stagewise.deploy.availability import ObservedRound, estimates_after, observed_round
from stagewise.deploy.remaining import (
    LivePolicy,
    deploy_remedy,
    nobody,
    remaining,
    without_missing_links,
)
from stagewise.deploy.transport import Presence
from stagewise.errors import StagewiseError
from stagewise.policy import contract_violation, policy_factory
from stagewise.problem.evaluation import evaluate
from stagewise.world.costs import UNASSIGNED


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
    expected = {
        client
        for client, edges in covering(scenario).items()
        if set(edges) & set(presence.edges) & set(presence.edges_of.get(client, ()))
    }
    assert set(round_.online_ids) == expected


def test_an_edge_that_is_gone_takes_its_links_with_it():
    scenario = two_edges(3)
    round_ = observed_round(scenario, presence_of(covering(scenario), ["es1"]))
    assert round_.online.all()
    assert round_.reachable.tolist() == [False, True] * 3
    assert not round_.whole
    assert observed_round(scenario, presence_of(covering(scenario), ["es0", "es1"])).whole


def test_a_client_that_is_offline_does_not_make_the_round_a_partial_one():
    scenario = two_edges(3)
    heard = covering(scenario)
    del heard["c1"]
    round_ = observed_round(scenario, presence_of(heard, scenario.edges.ids))
    assert round_.online_ids == ["c0", "c2"]
    assert round_.whole


def test_polls_count_twice_as_much_as_what_the_scenario_said():
    scenario = two_edges(2)
    polls = [np.array([True, False]), np.array([True, True]), np.array([True, False])]
    found = estimates_after(scenario, polls).clients.online_probability
    np.testing.assert_allclose(found, [0.9 / 3 + 2 / 3, 0.9 / 3 + 2 / 9])
    assert estimates_after(scenario, []) is scenario


@given(st.integers(0, 40), st.data())
def test_what_is_left_costs_the_same_and_offers_only_links_that_are_there(seed, data):
    scenario = random_scenario(seed, clients=6)
    round_ = observed_round(scenario, data.draw(presences(scenario)))
    left = remaining(round_)
    if left is None:
        assert not round_.online.any()
        return
    inner_links = left.round.scenario.links
    choices = [
        [UNASSIGNED, *inner_links.edge[inner_links.start[i] : inner_links.start[i + 1]].tolist()]
        if round_.online[i]
        else [UNASSIGNED]
        for i in range(len(scenario.clients))
    ]
    inner = np.array([data.draw(st.sampled_from(options)) for options in choices])
    whole = left.outwards(inner)
    assert (left.inwards(whole) == inner).all()
    assert (without_missing_links(whole, round_) == whole).all()
    small = evaluate(left.round.scenario, left.round.costs, inner)
    large = evaluate(scenario, round_.costs, whole)
    assert small.delay_s == pytest.approx(large.delay_s)
    assert small.energy_j == pytest.approx(large.energy_j)
    assert small.data.tolist() == large.data[left.edges].tolist()


def test_a_plan_keeps_what_is_left_of_it():
    scenario = two_edges(4)
    heard = covering(scenario) | {"c2": ("es1",)}
    left = remaining(observed_round(scenario, presence_of(heard, ["es0", "es1"])))
    plan = left.plan(plan_of(scenario, [0, 1, 0, UNASSIGNED]))
    assert plan.edge_of.tolist() == [0, 1, UNASSIGNED, UNASSIGNED]
    only = remaining(observed_round(scenario, presence_of(covering(scenario), ["es1"])))
    assert only.plan(plan_of(scenario, [0, 1, 0, 1])).edge_of.tolist() == [-1, 0, -1, 0]


@pytest.mark.parametrize("mode", ["strict", "flexible"])
def test_clients_of_an_edge_that_is_gone_are_lent_where_they_are_needed(mode):
    """es1 needs three clients; c1 alone is its own, so two of es0's must come."""
    scenario = two_edges(4, data_min=90)
    policy = planned(scenario, "lend", mode)
    heard = covering(scenario)
    del heard["c3"]
    round_ = observed_round(scenario, presence_of(heard, ["es1"]))
    answer = policy.decide(round_, 0)
    assert answer.tolist() == [1, 1, 1, UNASSIGNED]


def test_an_edge_that_is_gone_is_left_out_by_drop():
    scenario = two_edges(4)
    round_ = observed_round(scenario, presence_of(covering(scenario), ["es1"]))
    assert planned(scenario, "drop").decide(round_, 0).tolist() == [-1, 1, -1, 1]


def test_where_nothing_is_missing_the_plan_is_followed_as_ever():
    scenario = two_edges(4)
    everyone = observed_round(scenario, presence_of(covering(scenario), scenario.edges.ids))
    assert planned(scenario).decide(everyone, 0).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("remedy", ["lend", "drop"])
@pytest.mark.parametrize("kind", ["fedcs", "c2e-greedy-assoc", "plan-strict", "plan-flexible"])
def test_no_policy_uses_a_link_that_is_not_there(kind, remedy):
    for seed in range(12):
        scenario = random_scenario(seed, clients=8, edges=3, isolated=0)
        if kind.startswith("plan"):
            links = scenario.links
            first = links.edge[links.start[:-1]]
            counts = np.cumsum(np.eye(3, dtype=int)[first], axis=0)[np.arange(8), first]
            long_term = np.where(counts <= scenario.edges.capacity[first], first, UNASSIGNED)
            plan = plan_of(scenario, long_term)
            policy = type(planned(two_edges(2)))(plan, "repair", kind[5:], remedy=remedy)
        else:

            def make(world, name=kind):
                return policy_factory(name)(world, seed=0, seconds=None)

            policy = LivePolicy(make(scenario), make, remedy)
        rng = np.random.default_rng(seed)
        for index in range(4):
            heard = {
                client: tuple(edge for edge in edges if rng.random() < 0.7)
                for client, edges in covering(scenario).items()
            }
            edges = [edge for edge in scenario.edges.ids if rng.random() < 0.7]
            round_ = observed_round(scenario, presence_of(heard, edges))
            answer = policy.decide(round_, index)
            assert contract_violation(round_, answer) is None
            assert (without_missing_links(answer, round_) == answer).all()


def test_nobody_serves_where_no_link_is_left():
    scenario = two_edges(3)
    round_ = observed_round(scenario, presence_of({}, ["es0"]))
    assert remaining(round_) is None
    for remedy in ("lend", "drop"):
        assert (planned(scenario, remedy).decide(round_, 0) == nobody(round_)).all()


def test_a_plain_round_is_no_partial_one():
    scenario = two_edges(4)
    round_ = ObservedRound(scenario, np.ones(4, dtype=bool))
    assert round_.whole
    assert planned(scenario).decide(round_, 0).tolist() == [0, 1, 0, 1]


def test_nothing_can_be_reweighted_at_edges_that_average_by_data():
    assert deploy_remedy("drop") == "drop"
    with pytest.raises(StagewiseError, match="remedy = 'reweight': must be lend or drop"):
        deploy_remedy("reweight")
