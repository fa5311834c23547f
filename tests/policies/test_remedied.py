"""What is done with edges that stay infeasible: drop, reweight, lend."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_b_cases import METHODS, decide, everybody, plan_of, random_case, still_there
from references import decision_of, plain_scenario
from stagewise.checker import check
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.remedied import Remedied, edge_weights
from stagewise.problem.evaluation import evaluate
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

SEEDS = st.integers(0, 10_000)


def failing(round_: Round, edge_of: np.ndarray) -> list[int]:
    """The edges in violation, as the decision's own texts have it."""
    made = decision_of(round_, edge_of)
    return sorted({int(text.split(":")[0].removeprefix("es")) for text in made.violations})


@given(SEEDS, st.sampled_from(METHODS))
def test_failing_edges_are_those_with_violations(seed, method):
    plan, round_ = random_case(seed)
    edge_of = decide(plan, round_, method=method).edge_of
    found = evaluate(round_, edge_of).failing
    assert np.flatnonzero(found).tolist() == failing(round_, edge_of)


@given(SEEDS, st.sampled_from(METHODS))
def test_drop_empties_exactly_the_failing_edges(seed, method):
    plan, round_ = random_case(seed)
    plain = decide(plan, round_, method=method)
    dropped = decide(plan, round_, method=method, remedy="drop")
    broken = failing(round_, plain.edge_of)
    expected = [-1 if edge in broken else edge for edge in plain.edge_of.tolist()]
    assert dropped.edge_of.tolist() == expected
    assert failing(round_, dropped.edge_of) == broken
    assert all(text.endswith(": no clients") for text in dropped.violations)
    assert check(plan.scenario, [dropped.record()], [round_]) == []


@given(SEEDS, st.sampled_from(METHODS))
def test_reweight_changes_nobodys_assignment(seed, method):
    plan, round_ = random_case(seed)
    plain = decide(plan, round_, method=method)
    assert decide(plan, round_, method=method, remedy="reweight").edge_of.tolist() == (
        plain.edge_of.tolist()
    )
    weights = edge_weights(plan.scenario.limits, plain.evaluation)
    assert plain.answer.edge_weights is None
    answer = decide(plan, round_, method=method, remedy="reweight").answer
    assert answer.edge_weights.tolist() == weights.tolist()
    whole = set(range(len(weights))) - set(failing(round_, plain.edge_of))
    for edge, weight in enumerate(weights.tolist()):
        assert (weight == 1) if edge in whole else (0 <= weight < 1)
        assert (weight == 0) == (plain.evaluation.clients[edge] == 0)


@given(SEEDS, st.sampled_from(METHODS))
def test_lend_relaxes_nothing_but_the_edge(seed, method):
    """Every online long-term client still serves somewhere, and fewer edges fail, or none is lent."""
    plan, round_ = random_case(seed)
    plain = decide(plan, round_, method=method)
    lent = decide(plan, round_, method=method, remedy="lend")
    before, after = failing(round_, plain.edge_of), failing(round_, lent.edge_of)
    if lent.edge_of.tolist() != plain.edge_of.tolist():
        assert len(after) < len(before)
    present = still_there(plan, round_)
    assert (lent.edge_of[present >= 0] >= 0).all()
    assert (lent.edge_of[~round_.online] == -1).all()
    assert check(plan.scenario, [lent.record()], [round_]) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_client_is_lent_where_that_helps(method):
    """c0 and c1 each suffice for an edge. Both are planned at es0, and nobody else reaches es1."""
    scenario = plain_scenario([[60, 60], [70, 70]], [[0, 1], [0, 1]])
    plan = plan_of(scenario, [0, 0])
    round_ = everybody(scenario)
    assert decide(plan, round_, method=method).violations == ("es1: no clients",)
    lent = decide(plan, round_, method=method, remedy="lend")
    assert lent.feasible
    assert sorted(lent.assignment) == ["c0", "c1"]


@pytest.mark.parametrize("remedy", ["drop", "reweight", "lend"])
def test_a_feasible_round_needs_no_remedy(remedy):
    scenario = plain_scenario([[60, 60], [70, 70]], [[0, 1], [0, 1]])
    plan, round_ = plan_of(scenario, [0, 1]), everybody(scenario)
    assert decide(plan, round_, remedy=remedy).assignment == {"c0": "es0", "c1": "es1"}


def test_flexible_has_nothing_to_lend():
    for seed in range(30):
        plan, round_ = random_case(seed)
        policy = PlanPolicy(plan, mode="flexible")
        lending = Remedied(PlanPolicy(plan, mode="flexible"), "lend")
        expected = policy.decide(round_).edge_of
        assert lending.decide(round_).edge_of.tolist() == expected.tolist()


def weighed(scenario: Scenario, edge_of: list[int]) -> list[float]:
    return edge_weights(scenario.limits, evaluate(everybody(scenario), np.array(edge_of))).tolist()


def test_weights_by_hand():
    """es0 is good, es1 has half its data, es2 a divergence of log 2, es3 both, es4 nobody."""
    counts = [[60, 60], [25, 25], [120, 0], [0, 50]]
    scenario = plain_scenario(
        counts,
        [[0], [1], [2], [3]],
        capacity=[9] * 5,
        limits=Limits(kld_max=0.1, data_min=100),
    )
    assert weighed(scenario, [0, 1, 2, 3]) == pytest.approx(
        [1, 0.5, 0.1 / math.log(2), 0.5 * 0.1 / math.log(2), 0]
    )


def test_weights_at_the_limits():
    none = Limits(kld_max=0.1, data_min=0)
    scenario = plain_scenario([[1, 1]], [[0]], capacity=[9, 9], limits=none)
    assert weighed(scenario, [0]) == [1, 0]
    zero = Limits(kld_max=0, data_min=100)
    scenario = plain_scenario([[50, 50], [60, 50]], [[0], [1]], capacity=[9, 9], limits=zero)
    assert weighed(scenario, [0, 1]) == [1, 0]


def test_an_edge_exactly_at_its_limits_does_not_fail():
    scenario = plain_scenario(
        [[50, 50], [50, 49]], [[0], [1]], limits=Limits(kld_max=1e-4, data_min=100)
    )
    evaluation = evaluate(everybody(scenario), np.array([0, 1]))
    assert evaluation.failing.tolist() == [False, True]
