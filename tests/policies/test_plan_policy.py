"""A round decided from a plan: what must hold whichever method decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from plan_b_cases import METHODS, decide, everybody, nobody, plan_of, random_case, still_there
from references import edge_violations
from stagewise.checker import check
from stagewise.deciding import decide as decide_rounds
from stagewise.decisions import contract_violation
from stagewise.errors import StagewiseError
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.problem.statement import p0
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits

MODES = ("strict", "flexible")
SEEDS = st.integers(0, 10_000)


@given(SEEDS, st.sampled_from(METHODS), st.sampled_from(MODES))
def test_every_decision_is_true_and_possible(seed, method, mode):
    plan, round_ = random_case(seed)
    made = decide(plan, round_, index=0, method=method, mode=mode)
    assert contract_violation(round_, made.answer) is None
    assert check(plan.scenario, [made.record()], [round_]) == []
    assert made.decision_ms >= 0


@given(SEEDS, st.sampled_from(METHODS))
def test_strict_keeps_every_online_long_term_client_at_its_edge(seed, method):
    """(12d)."""
    plan, round_ = random_case(seed)
    made = decide(plan, round_, method=method)
    present = still_there(plan, round_)
    np.testing.assert_array_equal(made.edge_of[present >= 0], present[present >= 0])


@given(SEEDS, st.sampled_from(METHODS))
def test_strict_leaves_an_edge_alone_that_keeps_its_limits(seed, method):
    plan, round_ = random_case(seed)
    made = decide(plan, round_, method=method)
    present = still_there(plan, round_)
    for edge, missing in enumerate(edge_violations(p0(round_), present)):
        if missing == 0:
            assert set(np.flatnonzero(made.edge_of == edge)) == set(np.flatnonzero(present == edge))


@given(SEEDS, st.sampled_from(METHODS))
def test_strict_never_breaks_more_than_the_rest_of_the_plan_does(seed, method):
    plan, round_ = random_case(seed)
    made = decide(plan, round_, method=method)
    before = sum(edge_violations(p0(round_), still_there(plan, round_)))
    assert sum(edge_violations(p0(round_), made.edge_of)) <= before + 1e-9


@given(SEEDS, st.sampled_from(METHODS))
def test_flexible_is_never_worse_than_doing_nothing(seed, method):
    """Less violation first, then less cost: the rest of the plan is among what may be chosen."""
    plan, round_ = random_case(seed)
    made = decide(plan, round_, method=method, mode="flexible")
    present = still_there(plan, round_)
    before = sum(edge_violations(p0(round_), present))
    after = sum(edge_violations(p0(round_), made.edge_of))
    assert after <= before + 1e-9
    if after >= before - 1e-9:
        assert made.objective <= p0(round_).objective(present) + 1e-9


@given(SEEDS)
def test_flexible_ccu_costs_no_more_than_strict_ccu(seed):
    """It is the same answer with surplus clients left out; repair promises no such thing."""
    plan, round_ = random_case(seed)
    strict = decide(plan, round_, method="ccu")
    flexible = decide(plan, round_, method="ccu", mode="flexible")
    assert flexible.objective <= strict.objective + 1e-9
    violation = sum(edge_violations(p0(round_), strict.edge_of))
    assert sum(edge_violations(p0(round_), flexible.edge_of)) <= violation + 1e-9
    serving = flexible.edge_of >= 0
    np.testing.assert_array_equal(flexible.edge_of[serving], strict.edge_of[serving])


def satisfied() -> tuple:
    """A plan whose edges keep their limits with room to spare, and its scenario."""
    scenario = random_scenario(
        11, 12, 3, 2, limits=Limits(kld_max=5, data_min=20), isolated=0, coverage=1, capacity=(4, 4)
    )
    return plan_of(scenario, [0, 0, 1, 1, 2, 2, -1, -1, -1, -1, -1, -1]), scenario


@pytest.mark.parametrize("method", METHODS)
def test_a_round_that_misses_nobody_leaves_the_plan_as_it_is(method):
    plan, scenario = satisfied()
    assert decide(plan, everybody(scenario), method=method).edge_of.tolist() == (
        plan.edge_of.tolist()
    )
    only_the_plan = Round(scenario, plan.edge_of >= 0)
    made = decide(plan, only_the_plan, method=method)
    assert made.feasible
    assert made.edge_of.tolist() == plan.edge_of.tolist()
    # Without a client that is not needed the others stay as they are, and nobody stands in.
    online = np.ones(12, dtype=np.bool_)
    online[0] = False
    made = decide(plan, online, method=method)
    assert made.feasible
    assert made.edge_of.tolist() == [-1, *plan.edge_of[1:].tolist()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_nobody_online(method, mode):
    plan, scenario = satisfied()
    made = decide(plan, nobody(scenario), method=method, mode=mode)
    assert made.assignment == {}
    assert (made.objective, made.delay_s, made.energy_j) == (0, 0, 0)
    assert made.violations == ("es0: no clients", "es1: no clients", "es2: no clients")
    assert check(scenario, [made.record()], [nobody(scenario)]) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_everybody_online(method, mode):
    for seed in range(20):
        plan, _ = random_case(seed)
        round_ = everybody(plan.scenario)
        made = decide(plan, round_, method=method, mode=mode)
        assert check(plan.scenario, [made.record()], [round_]) == []
        if mode == "strict":
            planned = plan.edge_of >= 0
            assert (made.edge_of[planned] == plan.edge_of[planned]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_a_plan_of_nobody(method, mode):
    """Everyone who serves is a stand-in; with the whole system free a feasible round is found."""
    _, scenario = satisfied()
    plan = plan_of(scenario, [-1] * 12)
    made = decide(plan, everybody(scenario), method=method, mode=mode)
    assert made.feasible


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_a_decision_depends_on_its_arguments_alone(method, mode):
    for seed in range(8):
        plan, round_ = random_case(seed)
        first = decide(plan, round_, index=4, method=method, mode=mode)
        decide(plan, everybody(plan.scenario), index=5, method=method, mode=mode)
        again = decide(plan, round_, index=4, method=method, mode=mode)
        assert again.edge_of.tolist() == first.edge_of.tolist()
        plan, round_ = random_case(seed)
        again = decide(plan, round_, index=4, method=method, mode=mode)
        assert again.edge_of.tolist() == first.edge_of.tolist()


def test_who_is_online_in_three_forms():
    plan, scenario = satisfied()
    ids = ["c1", "c2", "c3", "c4", "c9"]
    mask = np.isin(scenario.clients.ids, ids)
    expected = decide(plan, Round(scenario, mask), index=2).record()
    for online in (ids, iter(ids), mask):
        made = decide_rounds(plan, [everybody(scenario).online, ids, online], mode="strict")
        made = made[2].record()
        made.decision_ms = expected.decision_ms
        assert made == expected


def test_rounds_are_numbered_by_their_place_and_must_ascend():
    plan, scenario = satisfied()
    online = everybody(scenario).online
    made = decide_rounds(plan, [online, online, Round(scenario, online, 7)])
    assert [decision.round.index for decision in made] == [0, 1, 7]
    for rounds, message in (
        ([Round(scenario, online, 3), Round(scenario, online, 3)], "rounds[1].index = 3: must be"),
        ([Round(scenario, online, 1), online], "rounds[1].index = 1: must be above 1"),
        ([Round(scenario, online, 5), Round(scenario, online, 2)], "rounds[1].index = 2: must be"),
    ):
        with pytest.raises(StagewiseError) as error:
            decide_rounds(plan, rounds)
        assert str(error.value).startswith(message)


def test_thirty_masks_are_thirty_rounds():
    """The five lines of the README: numbered in order, each with draws of its own, and all true."""
    plan, scenario = satisfied()
    rng = np.random.default_rng(3)
    masks = [rng.random(12) < 0.8 for _ in range(30)]
    made = decide_rounds(plan, masks)
    assert [decision.round.index for decision in made] == list(range(30))
    rounds = [Round(scenario, mask, index) for index, mask in enumerate(masks)]
    assert check(scenario, made, rounds) == []


def test_progress_is_told_of_every_decision():
    plan, scenario = satisfied()
    told: list = []
    made = decide_rounds(plan, [everybody(scenario).online] * 3, progress=told.append)
    assert told == made


def test_flexible_is_the_default():
    plan, scenario = satisfied()
    assert PlanPolicy(plan).mode == "flexible"
    (by_default,) = decide_rounds(plan, [everybody(scenario)])
    flexible = decide(plan, everybody(scenario), mode="flexible")
    assert by_default.edge_of.tolist() == flexible.edge_of.tolist()
    assert by_default.edge_of.tolist() != decide(plan, everybody(scenario)).edge_of.tolist()


def test_a_round_of_another_scenario_is_refused():
    plan, _ = satisfied()
    other = random_scenario(12, 12, 3, 2)
    with pytest.raises(StagewiseError, match="round 0: must be a round of this very scenario"):
        decide_rounds(plan, [everybody(other)])


def test_the_method_follows_the_plan():
    plan, scenario = satisfied()
    assert decide(plan, everybody(scenario)).method == "ccu"
    ours = plan_of(scenario, plan.edge_of, method="local-search")
    assert decide(ours, everybody(scenario)).method == "repair"
    other = plan_of(scenario, plan.edge_of, method="somebody else's")
    assert decide(other, everybody(scenario)).method == "repair"
    assert decide(other, everybody(scenario), method="ccu").method == "ccu"
    assert PlanPolicy(plan).plan is plan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "oracle"}, "method = 'oracle': must be one of ccu, "),
        ({"mode": "loose"}, "mode = 'loose': must be one of strict, flexible"),
        ({"remedy": "pray"}, "remedy = 'pray': must be one of drop, reweight, lend"),
        ({"method": ["pool"]}, r"method = \['pool'\]: must be one of ccu, "),
        ({"mode": None}, "mode = None: must be one of strict, flexible"),
        ({"seconds": 0}, "seconds = 0: must be a finite number above 0"),
        ({"seconds": -1.5}, "seconds = -1.5: must be a finite number above 0"),
        ({"seconds": float("nan")}, "seconds = nan: must be a finite number above 0"),
        ({"diversity": -1}, "diversity = -1: must be a finite number of at least 0"),
    ],
)
def test_options_that_cannot_be(options, message):
    plan, scenario = satisfied()
    with pytest.raises(StagewiseError, match=message):
        decide(plan, everybody(scenario), **options)


def test_rounds_that_cannot_be():
    plan, _ = satisfied()
    with pytest.raises(StagewiseError, match="'c99' must be the id of a client"):
        decide(plan, ["c1", "c99"])
    with pytest.raises(StagewiseError, match="'c1' must not occur twice"):
        decide(plan, ["c1", "c1"])
    with pytest.raises(
        StagewiseError, match=r"online has the shape \(3,\): .*each of the 12 clients"
    ):
        decide(plan, np.ones(3, dtype=np.bool_))
