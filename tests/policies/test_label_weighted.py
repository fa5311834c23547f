"""Clients weighted by their labels: the decision stays, and so does what it costs."""

from dataclasses import replace

import numpy as np
import pytest

import stagewise
from helpers import random_scenario
from stagewise.decisions import Answer
from stagewise.errors import StagewiseError
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy, policy_factory
from stagewise.policies.remedied import Remedied, edge_weights
from stagewise.problem.evaluation import evaluate
from stagewise.problem.label_weights import label_weights
from stagewise.testing import assert_conforms
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Limits

SCENARIO = stagewise.generate.numeric(clients=40, edges=3, seed=3)
ROUNDS = bernoulli(SCENARIO, 4, 1)


@pytest.mark.parametrize(
    "name", ["fedcs", "pool-strict", "random-k,k=9+nearest", "shapefl", "oort", "orig-prob-solver"]
)
def test_only_the_mean_changes(name):
    plain = stagewise.solve(SCENARIO, ROUNDS, name)
    weighted = stagewise.solve(SCENARIO, ROUNDS, f"{name}+label-weights")
    for before, after in zip(plain, weighted, strict=True):
        assert (before.assignment, before.objective) == (after.assignment, after.objective)
        assert before.answer.client_weights is None
        expected = label_weights(SCENARIO, before.edge_of)
        np.testing.assert_array_equal(after.answer.client_weights, expected)
        assert not np.allclose(expected, 1.0)


def test_the_pool_to_a_target_is_the_pool_with_weights():
    ours = stagewise.solve(SCENARIO, ROUNDS, "pool-to-target")
    pool = stagewise.solve(SCENARIO, ROUNDS, "pool-flexible+label-weights")
    assert {decision.method for decision in ours} == {"pool-to-target"}
    for one, other in zip(ours, pool, strict=True):
        assert one.assignment == other.assignment
        np.testing.assert_array_equal(one.answer.client_weights, other.answer.client_weights)


def test_names_with_weights_conform():
    assert_conforms(policy_factory("random-k+hashed+label-weights"), seeds=1)


def test_options_reach_the_policy_behind_the_name():
    found_by = make_policy("stagewise-paper:from-scratch+label-weights", SCENARIO, seed=5)
    other = make_policy("stagewise-paper:from-scratch", SCENARIO, seed=5)
    for round_ in ROUNDS[:2]:
        found, expected = found_by.decide(round_), other.decide(round_)
        np.testing.assert_array_equal(found.edge_of, expected.edge_of)


@pytest.mark.parametrize(
    "name", ["fedcs+label-weights+label-weights", "pool+label-weights+nearest"]
)
def test_weights_stand_last_and_once(name):
    with pytest.raises(StagewiseError, match="must stand last, and once"):
        make_policy(name, SCENARIO)


@pytest.mark.parametrize("name", ["oracle+label-weights", "+label-weights", "label-weights"])
def test_weights_alone_are_no_policy(name):
    with pytest.raises(StagewiseError, match="must be one of") as error:
        make_policy(name, SCENARIO)
    assert "\n" not in str(error.value)


class Given(Policy):
    """Everybody at the first of their edges, with weights of their own."""

    def decide(self, round_):
        links = round_.scenario.links
        edge_of = np.full(len(round_.online), -1)
        usable = np.flatnonzero(round_.usable)[::-1]
        edge_of[links.client[usable]] = links.edge[usable]
        rng = np.random.default_rng(round_.index)
        own = rng.uniform(0.5, 2.0, len(round_.scenario.edges)), rng.uniform(0.5, 2, len(edge_of))
        return Answer(edge_of, 0.5, *own)


def test_weights_of_clients_are_replaced_and_those_of_edges_counted_in():
    scenario = random_scenario(2, 12, 3, capacity=(12, 12))
    for round_ in bernoulli(scenario, 3, 2):
        before = Given().decide(round_)
        after = stagewise.LabelWeighted(Given()).decide(round_)
        np.testing.assert_array_equal(after.edge_weights, before.edge_weights)
        expected = label_weights(scenario, before.edge_of, edge_weights=before.edge_weights)
        np.testing.assert_array_equal(after.client_weights, expected)
        assert after.lower_bound == 0.5


HARD = Limits(kld_max=0.3, data_min=150, kld_risk=0.9, data_risk=0.9)


def test_who_serves_another_edge_than_before_is_weighed_again():
    """`lend` sends clients to other edges: weights that balanced their own would be wrong there."""
    lent = 0
    for seed in range(12):
        scenario = random_scenario(seed, 14, 3, limits=HARD, isolated=0, coverage=0.9)
        plan = stagewise.plan(scenario, method="local-search", seconds=0.05)
        inner = stagewise.LabelWeighted(stagewise.PlanPolicy(plan, "repair", "strict"))
        policy = Remedied(inner, "lend")
        for round_ in bernoulli(scenario, 4, seed):
            before, after = inner.decide(round_), policy.decide(round_)
            lent += (before.edge_of != after.edge_of).any()
            expected = label_weights(scenario, after.edge_of)
            np.testing.assert_array_equal(after.client_weights, expected)
    assert lent


@pytest.mark.parametrize("remedy", ["drop", "reweight"])
def test_a_remedy_around_weights_is_as_one_within(remedy):
    changed = 0
    for seed in range(6):
        scenario = random_scenario(seed, 14, 3, limits=HARD, isolated=0, coverage=0.9)
        around = Remedied(make_policy("fedcs+label-weights", scenario), remedy)
        within = stagewise.LabelWeighted(Remedied(make_policy("fedcs", scenario), remedy))
        for round_ in bernoulli(scenario, 4, seed):
            found, expected = around.decide(round_), within.decide(round_)
            for part in ("edge_of", "edge_weights", "client_weights"):
                np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
            plain = label_weights(scenario, make_policy("fedcs", scenario).decide(round_).edge_of)
            changed += not np.array_equal(found.client_weights, plain)
    assert changed


def test_exchanged_and_proven_clients_are_weighed_again():
    scenario = stagewise.generate.numeric(clients=60, edges=3, seed=1)
    balanced = stagewise.LabelBalanced(make_policy("pool+label-weights", scenario))
    pool = make_policy("pool", scenario)
    exchanged = 0
    for played in stagewise.run_rounds(balanced, bernoulli(scenario, 5, 1)):
        answer = played.decision.answer
        exchanged += (pool.decide(played.decision.round).edge_of != answer.edge_of).any()
        expected = label_weights(scenario, answer.edge_of)
        np.testing.assert_array_equal(answer.client_weights, expected)
    assert exchanged
    [round_] = bernoulli(scenario, 1, 1)
    found = stagewise.Proven(stagewise.LabelWeighted(Nobody())).decide(round_)
    assert (found.edge_of >= 0).any()
    expected = label_weights(scenario, found.edge_of)
    np.testing.assert_array_equal(found.client_weights, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_are_weighed_again_where_a_round_was_settled_after_all(weighted):
    """Not as before, when nobody served: then no edge would count."""
    scenario = stagewise.generate.numeric(clients=60, edges=3, seed=1)
    [round_] = bernoulli(scenario, 1, 1)
    reweighted = Remedied(Nobody(), "reweight")
    inner = stagewise.LabelWeighted(reweighted) if weighted else reweighted
    found = stagewise.Proven(inner).decide(round_)
    np.testing.assert_array_equal(found.edge_weights, 1.0)
    assert (found.client_weights is not None) is weighted


def test_edges_are_weighed_again_where_clients_are_lent():
    lent = 0
    for seed in range(12):
        scenario = random_scenario(seed, 14, 3, limits=HARD, isolated=0, coverage=0.9)
        plan = stagewise.plan(scenario, method="local-search", seconds=0.05)
        within = Remedied(stagewise.PlanPolicy(plan, "repair", "strict"), "reweight")
        policy = Remedied(within, "lend")
        for round_ in bernoulli(scenario, 4, seed):
            before, after = within.decide(round_), policy.decide(round_)
            lent += (before.edge_of != after.edge_of).any()
            expected = edge_weights(scenario.limits, evaluate(round_, after.edge_of))
            np.testing.assert_array_equal(after.edge_weights, expected)
    assert lent


class Nobody(Policy):
    def decide(self, round_):
        return Answer(np.full(len(round_.online), -1))


class Trusting(stagewise.Wrapper):
    """The edges count as somebody trusts them, and the clients at random."""

    def decide(self, round_):
        answer = super().decide(round_)
        trust = np.linspace(1.0, 0.5, len(round_.scenario.edges))
        return replace(answer, edge_weights=trust, client_weights=np.full(len(answer.edge_of), 2.0))


def test_exchanges_keep_what_edges_count_for():
    """What clients counted for was for those who served before."""
    scenario = stagewise.generate.numeric(clients=60, edges=3, seed=1)
    balanced = stagewise.LabelBalanced(Trusting(make_policy("pool", scenario)))
    answers = [p.decision.answer for p in stagewise.run_rounds(balanced, bernoulli(scenario, 5, 1))]
    for answer in answers:
        np.testing.assert_array_equal(answer.edge_weights, [1.0, 0.75, 0.5])
    assert {answer.client_weights is None for answer in answers} == {True, False}
