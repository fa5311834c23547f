"""Claims in words: what the interval decides, and what it does not."""

import math
from typing import Any

import pytest
from made_up_results import experiment, result, round_of
from verdict_cases import AXIS, by_clients, claim, outputs_of, series

from stagewise_experiments.cells import Cell
from stagewise_experiments.claims import Finding, findings, tally
from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import Verdict, judge_claim

NEVER = math.inf
# Two seeds that are nearly alike, so that intervals are narrow.
LOW, MIDDLE, HIGH = [1.0, 1.001], [2.0, 2.002], [2.5, 2.503]


def told(costs: dict[str, dict[int, list[float]]], **fields: Any) -> Verdict:
    return judge_claim(Series(by_clients(costs)), claim(**fields))


def between(ours: list[float], theirs: list[float], **fields: Any) -> Verdict:
    """Whether FedCS costs no more than the optimum."""
    asked = claim(**{"at_most": ["exact"], **fields})
    found = series({"fedcs": ours, "exact": theirs}, asked.quantity)
    return judge_claim(found, asked)


COSTS = {"fedcs": {80: LOW, 100: [3.0, 3.003]}, "exact": {80: MIDDLE, 100: HIGH}}


def test_a_claim_must_hold_at_every_point() -> None:
    verdict = told(COSTS, at_most=["exact"])
    assert verdict.kind == "differs"
    assert verdict.ours.startswith("holds in 1, fails in 1 of 2 comparisons; worst: +20.0% (")
    assert verdict.ours.endswith(" over certified optimum at clients = 100")
    assert told(COSTS, at_most=["exact"], at={"clients": 80}).kind == "agrees"
    assert told(COSTS, at_least=["exact"]).kind == "differs"


@pytest.mark.parametrize(
    ("others", "kind"),
    [
        ([[2.0, 2.002], [2.0, 0.5]], "undecided"),  # holds, undecided
        ([[0.5, 0.501], [2.0, 0.5]], "differs"),  # fails, undecided
        ([[0.5, 0.501], [2.0, 2.002]], "differs"),
        ([[2.0, 2.002], [2.0, 2.002]], "agrees"),
    ],
)
def test_one_failure_decides_and_one_doubt_leaves_open(
    others: list[list[float]], kind: str
) -> None:
    costs = {"fedcs": {80: LOW, 100: LOW}, "exact": dict(zip((80, 100), others, strict=True))}
    assert told(costs, at_most=["exact"]).kind == kind


def test_a_claim_of_some_cases_needs_one_point_for_each_policy() -> None:
    assert told(COSTS, at_most=["exact"], somewhere=True).kind == "agrees"
    third = {**COSTS, "client-sel-only": {80: [0.5, 0.501], 100: [0.5, 0.501]}}
    both = told(third, at_most=["exact", "client-sel-only"], somewhere=True)
    assert both.kind == "differs"  # nowhere below the third
    assert "2" in both.ours and "ClientSelOnly" in both.ours
    unclear = {**COSTS, "client-sel-only": {80: [0.5, 2.0], 100: [0.5, 0.501]}}
    asked = told(unclear, at_most=["exact", "client-sel-only"], somewhere=True)
    assert asked.kind == "undecided"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"at_most": ["exact"], "margin": 0.21}, "agrees"),
        ({"at_most": ["exact"], "margin": 0.19}, "differs"),
        ({"at_most": ["exact"], "margin": 0.51, "absolute": True}, "agrees"),
        ({"at_most": ["exact"], "margin": 0.49, "absolute": True}, "differs"),
        ({"at_most": ["exact"], "margin": -0.55}, "differs"),
        ({"at_most": ["exact"], "margin": -0.45, "at": {"clients": 80}}, "agrees"),
        ({"at_least": ["exact"], "margin": 0.51}, "agrees"),
        ({"at_least": ["exact"], "margin": 0.49}, "differs"),
        ({"below": 3.1}, "agrees"),
        ({"below": 2.9}, "differs"),
        ({"below": 3.0}, "undecided"),
        ({"above": 0.98}, "agrees"),
        ({"above": 1.0}, "undecided"),
        ({"rises_with": "clients"}, "agrees"),
        ({"falls_with": "clients"}, "differs"),
        ({"rises_with": "clients", "ends": [100, 80]}, "differs"),
        ({"same_along": "clients", "margin": 0.5}, "differs"),
        ({"same_along": "clients", "margin": 2.1, "absolute": True}, "agrees"),
        ({"same_along": "clients", "margin": 1.9, "absolute": True}, "differs"),
        ({"same_along": "clients", "ends": [100, 80], "margin": 0.7}, "agrees"),
        ({"same_along": "clients", "ends": [100, 80], "margin": 0.6}, "differs"),
        ({"falls_with": "clients", "ends": [100, 80]}, "agrees"),
    ],
)
def test_claims_at_their_borders(fields: dict[str, Any], kind: str) -> None:
    assert told(COSTS, **fields).kind == kind


def test_to_be_the_same_is_one_comparison_for_each_point() -> None:
    """Within 10%: -0.02 ± 0.04 is, 0.05 ± 0.38 may be, -0.7 ± 0.04 is not."""
    for mean, half, kind in (
        (-0.02, 0.003, "agrees"), (0.05, 0.03, "undecided"), (-0.7, 0.003, "differs")
    ):  # fmt: skip
        values = [math.exp(mean - half), math.exp(mean + half)]
        costs = {"fedcs": {80: [1.0, 1.0], 100: values}}
        verdict = told(costs, same_along="clients", margin=0.1)
        assert (verdict.kind, len(verdict.found)) == (kind, 1)


def test_only_an_interval_that_excludes_equality_decides() -> None:
    """Log-ratios of -0.3 and -0.1 have an interval of -0.2 ± 12.7 * 0.1, of four such ± 0.18."""
    two, four = [math.exp(-0.3), math.exp(-0.1)], [math.exp(-0.3), math.exp(-0.1)] * 2
    unclear = between(two, [1.0] * 2)
    assert (unclear.kind, unclear.why) == ("undecided", "the interval does not decide it")
    assert unclear.ours == "−18.1% (−77.0% to +192%) over certified optimum"
    assert between(two, [1.0] * 2, at_most=[], at_least=["exact"]).kind == "undecided"
    assert between(four, [1.0] * 4).kind == "agrees"
    assert between(four, [1.0] * 4, at_most=[], at_least=["exact"]).kind == "differs"


def test_noise_that_both_share_is_none() -> None:
    assert between([1.0, 2.0, 30.0], [1.1, 2.21, 33.0]).kind == "agrees"


@pytest.mark.parametrize(
    "fields", [{"at_most": ["exact"]}, {"at_most": [], "below": 9.0}, {"at_most": [], "above": 9.0}]
)
def test_one_seed_decides_nothing(fields: dict[str, Any]) -> None:
    verdict = between([1.0], [100.0], **fields)
    assert (verdict.kind, verdict.why) == ("undecided", "one seed")
    assert verdict.ours


def test_equal_in_every_seed_is_no_more_and_no_less() -> None:
    assert between([1.0, 2.0], [1.0, 2.0]).kind == "agrees"
    assert between([1.0, 2.0], [1.0, 2.0], strict=True).kind == "undecided"
    assert told({"fedcs": {80: LOW, 100: LOW}}, rises_with="clients").kind == "undecided"


def test_a_tie_within_a_round_is_undecided() -> None:
    """12 rounds against 13: nobody can tell whether the shorter is lucky. 12 against 12 are exact.

    Nor is anything a tie that a round would not turn, however few the rounds between.
    """

    def outputs(cell: Cell) -> dict[str, Any]:
        cost, rounds = {
            "fedcs": (1.0, 12),
            "exact": (1.0, 13),
            "orig-prob-solver": (3.0, 11),
            "client-sel-only": (1.05, 12),
        }[cell.policy]
        accuracies = [0.1] * (rounds - 3) + [0.95] * 3
        records = [round_of(cost, accuracy=accuracy) for accuracy in accuracies]
        return {"rounds": records, "target_accuracy": 0.9, "plan_ms": []}

    policies = ["fedcs", "exact", "client-sel-only", "orig-prob-solver"]
    of = experiment(policies=policies, quantities=["cost_to_target"])
    found = Series(result(of, outputs))
    asked = claim(quantity="cost_to_target", at_most=["exact"])
    verdict = judge_claim(found, asked)
    assert verdict.kind == "undecided"
    for other in ("client-sel-only", "orig-prob-solver"):
        clear = claim(quantity="cost_to_target", at_most=[other])
        assert judge_claim(found, clear).kind == "agrees"
    assert judge_claim(found, claim(at_most=["exact"])).kind == "agrees"  # a round has no steps


def along(first: list[float], last: list[float], **fields: Any) -> Verdict:
    """Whether the cost to the target rises from 80 clients to 100."""
    costs = {80: first, 100: last}
    of = experiment(
        policies=["fedcs"], measure="training", quantities=["cost_to_target"], axes=[AXIS],
        profiles={"quick": {"seeds": len(first)}},
    )  # fmt: skip
    outputs = lambda cell: outputs_of("cost_to_target", costs[cell.point["clients"]][cell.seed])  # noqa: E731
    asked = {"quantity": "cost_to_target", "rises_with": "clients", **fields}
    return judge_claim(Series(result(of, outputs)), claim(**asked))


def test_a_slope_is_a_comparison_of_its_ends() -> None:
    risen = along([1.0, 2.0], [1.5, 3.0])
    assert (risen.kind, risen.ours) == (
        "agrees",
        "+50.0% (+50.0% to +50.0%) from clients = 80 to 100",
    )
    assert along([1.5, 3.0], [1.0, 2.0]).kind == "differs"
    assert along([1.0, 2.0], [1.1, 4.0]).kind == "undecided"
    assert along([1.0], [2.0]).why == "one seed"
    assert along([1.0, 2.0], [NEVER, NEVER]).kind == "agrees"
    half = along([1.0, 2.0], [3.0, NEVER])
    assert (half.kind, half.why) == ("undecided", "the interval does not decide it")
    assert half.ours.startswith(
        "target missed in 1 of 2 runs against 0 at clients = 80; in the others +200% from clients = 80"
    )
    assert half.ours.endswith("or more by what was spent")


def test_a_slope_at_a_place_that_the_profile_leaves_out_is_not_run() -> None:
    verdict = along([1.0], [2.0], at={"clients": 120})
    assert (verdict.kind, verdict.why) == ("not run", "the quick profile leaves out clients = 120")


def test_an_end_that_the_profile_leaves_out_is_told() -> None:
    verdict = along([1.0], [2.0], ends=[80, 120])
    assert (verdict.kind, verdict.why) == ("not run", "the quick profile leaves out clients = 120")


def test_every_policy_that_a_claim_fails_against_is_named_with_its_worst_point() -> None:
    costs = {
        "fedcs": {80: [3.0] * 2, 100: [3.0] * 2},
        "exact": {80: [2.0] * 2, 100: [1.5] * 2},
        "c2e-greedy-assoc": {80: [2.5] * 2, 100: [4.0] * 2},
        "client-sel-only": {80: [4.0] * 2, 100: [4.0] * 2},
    }
    verdict = told(costs, at_most=["exact", "c2e-greedy-assoc", "client-sel-only"])
    assert verdict.ours == (
        "holds in 3, fails in 3 of 6 comparisons; "
        "worst: +100% (+100% to +100%) over certified optimum at clients = 100, "
        "+20.0% (+20.0% to +20.0%) over C2EGreedyAssoc at clients = 80"
    )


def noisy(far: float) -> list[float]:
    """Five costs around 1 whose interval excludes 1 by far or hardly."""
    return [math.exp(far + 0.1 * deviation) for deviation in (-1.0, -0.5, 0.0, 0.5, 1.0)]


def test_one_failure_among_many_comparisons_must_be_one_of_more_than_chance() -> None:
    """Alone it fails with a chance of 3%: among twelve such comparisons that says nothing."""
    others = [f"other-{number}" for number in range(11)]
    ours, theirs = noisy(0.12), [1.0] * 5
    alone = between(ours, theirs)
    assert alone.kind == "differs"
    assert 0.02 < alone.found[0].chance < 0.04
    costs = {"fedcs": ours, "exact": theirs, **{name: [9.0] * 5 for name in others}}
    among = judge_claim(series(costs), claim(at_most=["exact", *others]))
    assert (among.kind, among.why) == (
        "undecided",
        "among so many comparisons some are decided by chance",
    )
    assert among.ours.startswith("holds in 11, fails in 1 of 12 comparisons")
    costs["fedcs"] = noisy(0.5)
    assert judge_claim(series(costs), claim(at_most=["exact", *others])).kind == "differs"


def test_where_one_point_is_enough_it_must_hold_by_more_than_chance() -> None:
    """One of two points holds with a chance of 3%: not enough, when both are looked at."""
    costs = {
        "fedcs": {80: noisy(-0.12), 100: noisy(0.0)},
        "exact": {80: [1.0] * 5, 100: [1.0] * 5},
    }
    once = told(costs, at_most=["exact"], strict=True, somewhere=True)
    assert [finding.holds for finding in once.found] == [True, None]
    assert (once.kind, once.why.split(";")[0]) == (
        "undecided",
        "among so many comparisons some are decided by chance",
    )
    costs["fedcs"][80] = noisy(-0.5)
    assert told(costs, at_most=["exact"], strict=True, somewhere=True).kind == "agrees"


def test_chance_is_no_reason_where_a_failure_is_certain() -> None:
    costs = {
        "fedcs": {80: noisy(0.5), 100: noisy(0.0)},
        "exact": {80: [1.0] * 5, 100: [1.0] * 5},
    }
    open_ = told(costs, at_most=["exact"], strict=True, somewhere=True)
    assert (open_.kind, open_.why) == ("undecided", "the interval does not decide it")


def test_costs_along_an_axis_stand_beside_the_share_of_feasible_rounds() -> None:
    of = experiment(
        policies=["fedcs"], measure="decisions", quantities=["objective"], axes=[AXIS],
    )  # fmt: skip

    def outputs(cell: Any) -> dict[str, Any]:
        kept = [True, cell.point["clients"] == 80]
        return {"rounds": [round_of(1.0, feasible=each) for each in kept]}

    verdict = judge_claim(Series(result(of, outputs)), claim(rises_with="clients"))
    assert verdict.ours.endswith("(feasible rounds: 50% against 100%)")


def test_points_can_be_judged_together() -> None:
    """More expensive at one point, cheaper at the other: together, the geometric mean."""
    costs = {
        "fedcs": {80: [1.2, 1.2], 100: [1.0, 1.0]},
        "exact": {80: [1.0, 1.0], 100: [2.0, 2.0]},
    }
    assert told(costs, at_most=["exact"]).kind == "differs"
    mean = told(costs, at_most=["exact"], together=True)
    assert (mean.kind, mean.ours) == (
        "agrees",
        "−22.5% (−22.5% to −22.5%) over certified optimum over 2 points",
    )


def to_target(ours: list[float], theirs: list[float], **fields: Any) -> Verdict:
    return between(ours, theirs, quantity="cost_to_target", **fields)


def test_to_miss_the_target_always_is_worse_than_any_cost() -> None:
    missed = to_target([NEVER, NEVER], [5.0, 6.0])
    assert missed.kind == "differs"
    assert missed.ours == "target missed in 2 of 2 runs against 0 of certified optimum's"
    assert to_target([5.0, 6.0], [NEVER, NEVER]).kind == "agrees"
    sometimes = to_target([1.0, NEVER, 2.0], [5.0, 6.0, 7.0])
    assert (sometimes.kind, sometimes.why) == ("undecided", "the interval does not decide it")
    neither = to_target([NEVER] * 2, [NEVER] * 2)
    assert (neither.kind, neither.why) == ("undecided", "no run reached the target")


@pytest.mark.parametrize(
    ("costs", "kind"),
    [
        ([NEVER, NEVER], "agrees"),
        ([NEVER, 3.0], "undecided"),
        ([3.0, 3.0], "differs"),
        ([NEVER], "undecided"),
    ],
)
def test_a_target_that_is_never_reached_can_be_claimed(costs: list[float], kind: str) -> None:
    found = series({"fedcs": costs}, "rounds_to_target")
    verdict = judge_claim(found, claim(quantity="rounds_to_target", missed=True))
    assert verdict.kind == kind


def test_points_without_a_value_are_told() -> None:
    nothing = [math.nan, math.nan]
    costs = {"fedcs": {80: LOW, 100: nothing}, "exact": {80: MIDDLE, 100: HIGH}}
    verdict = told(costs, at_most=["exact"])
    assert verdict.kind == "agrees"
    assert verdict.ours.endswith("1 left out: no value")


def test_seeds_that_one_side_lacks_are_left_out_of_both() -> None:
    assert between([1.0, 100.0, 1.0], [2.0, math.nan, 2.0]).kind == "agrees"


def test_accuracies_are_compared_by_points() -> None:
    fields = {"quantity": "final_accuracy", "at_most": [], "at_least": ["exact"], "margin": 0.01}
    verdict = between([0.80, 0.81], [0.805, 0.815], **fields)
    assert verdict.kind == "agrees"
    assert verdict.ours == (
        "−0.500 points (−0.500 points to −0.500 points) against certified optimum"
    )
    assert between([0.80, 0.81], [0.815, 0.825], **fields).kind == "differs"


def test_costs_are_never_told_without_the_share_of_feasible_rounds() -> None:
    def outputs(cell: Cell) -> dict[str, Any]:
        return {"rounds": [round_of(feasible=cell.policy == "exact")], "plan_ms": None}

    of = experiment(policies=["fedcs", "exact"], measure="decisions", quantities=["objective"])
    found = Series(result(of, outputs))
    ours = judge_claim(found, claim(at_most=["exact"])).ours
    assert ours.endswith("over certified optimum (feasible rounds: 0% against 100%)")
    assert "feasible" not in judge_claim(found, claim(quantity="kld", at_most=["exact"])).ours


def test_a_comparison_that_two_experiments_share_is_counted_once() -> None:
    shared, own = frozenset({"a", "b"}), frozenset({"a", "c"})
    several = [Finding("", True, cells=shared), Finding("", True, cells=shared)]
    assert tally([*several, Finding("", None, cells=own)]) == (
        "holds in 1, undecided in 1 of 2 comparisons"
    )


def test_different_questions_to_the_same_cells_are_counted_each() -> None:
    found = series({"fedcs": LOW, "exact": HIGH})
    asked = [
        claim(at_most=["exact"]),
        claim(quantity="delay_s", at_most=["exact"]),
        claim(at_most=["exact"], margin=0.1),
        claim(below=1e3),
        claim(below=1e4),
    ]
    several = [finding for one in asked for finding in findings(found, one)]
    assert tally(several) == "holds in 5 of 5 comparisons"
    assert tally([*several, *several]) == "holds in 5 of 5 comparisons"
