"""Claims in words, at every point and at their borders."""

import math
from typing import Any

import pytest
from made_up_results import experiment, result
from verdict_cases import AXIS, by_clients, claim, outputs_of, series

from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import Verdict, judge_claim


def told(costs: dict[str, dict[int, list[float]]], **fields: Any) -> Verdict:
    return judge_claim(Series(by_clients(costs)), claim(**fields))


def test_a_claim_must_hold_at_every_point() -> None:
    costs = {"fedcs": {80: [1.0], 100: [3.0]}, "exact": {80: [2.0], 100: [2.5]}}
    verdict = told(costs, at_most=["exact"])
    assert verdict.kind == "differs"
    assert verdict.ours == (
        "holds in 1 of 2 comparisons; worst: 20.0% above certified optimum at clients = 100"
    )
    assert told(costs, at_most=["exact"], at={"clients": 80}).kind == "agrees"
    assert told(costs, at_least=["exact"]).kind == "differs"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"at_most": ["exact"], "margin": 0.2}, "agrees"),
        ({"at_most": ["exact"], "margin": 0.19}, "differs"),
        ({"at_most": ["exact"], "margin": 0.5, "absolute": True}, "agrees"),
        ({"at_most": ["exact"], "margin": 0.49, "absolute": True}, "differs"),
        ({"at_most": ["exact"], "margin": -0.5}, "differs"),
        ({"at_least": ["exact"], "margin": 0.5}, "agrees"),
        ({"at_least": ["exact"], "margin": 0.49}, "differs"),
        ({"below": 3.01}, "agrees"),
        ({"below": 3.0}, "differs"),
        ({"above": 0.99}, "agrees"),
        ({"above": 1.0}, "differs"),
        ({"rises_with": "clients"}, "agrees"),
        ({"falls_with": "clients"}, "differs"),
        ({"rises_with": "clients", "ends": [100, 80]}, "differs"),
        ({"falls_with": "clients", "ends": [100, 80]}, "agrees"),
        ({"at_most": ["fedcs"]}, "agrees"),
        ({"at_most": ["fedcs"], "strict": True}, "differs"),
        ({"at_least": ["fedcs"], "strict": True}, "differs"),
        ({"at_most": ["exact"], "at": {"clients": 80}, "strict": True}, "agrees"),
    ],
)
def test_claims_at_their_borders(fields: dict[str, Any], kind: str) -> None:
    costs = {"fedcs": {80: [1.0], 100: [3.0]}, "exact": {80: [2.0], 100: [2.5]}}
    assert told(costs, **fields).kind == kind


def test_an_order_within_the_noise_says_so() -> None:
    costs = {"fedcs": {80: [1.0, 2.0, 3.0]}, "exact": {80: [1.2, 1.7, 2.9]}}
    found = series({name: by[80] for name, by in costs.items()})
    verdict = judge_claim(found, claim(at_most=["exact"]))
    assert verdict.kind == "differs"
    assert verdict.ours.endswith("(within noise)")
    clear = series({"fedcs": [1.0, 2.0, 3.0], "exact": [0.5, 1.49, 2.5]})  # noisy, but not in pairs
    assert "noise" not in judge_claim(clear, claim(at_most=["exact"])).ours


def test_a_slope_within_the_noise_says_so() -> None:
    costs = {"fedcs": {80: [1.0, 2.0], 100: [1.1, 2.2]}}
    verdict = told(costs, rises_with="clients")
    assert verdict.kind == "agrees"
    assert verdict.ours.endswith("(within noise)")
    assert told({"fedcs": {80: [1.0], 100: [1.0]}}, rises_with="clients").kind == "differs"


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


def test_a_slope_minds_who_missed_the_target() -> None:
    assert along([1.0, 2.0], [3.0, math.inf]).kind == "agrees"
    assert along([1.0, math.inf], [3.0, 4.0]).kind == "differs"
    # As many missed at both ends: the seeds that arrived at both decide.
    assert along([1.0, 2.0, math.inf], [3.0, 4.0, math.inf]).kind == "agrees"
    assert along([3.0, 4.0, math.inf], [1.0, 2.0, math.inf]).kind == "differs"
    never = along([math.inf], [math.inf])
    assert (never.kind, never.why) == ("not run", "no seed reached the target")
    few = along([1.0, 2.0, math.inf], [math.inf, 4.0, 5.0])
    assert (few.kind, few.why) == ("not run", "fewer than half of the seeds reached the target")
    # The text is about the seeds that decide, not about those that one end has.
    half = along([1.0, 2.0, math.inf, 3.0], [1.5, math.inf, 0.5, 3.5])
    assert (half.kind, half.ours) == ("agrees", "from 2 ± 13 to 2 ± 13 over 2 of 4 seeds")


def test_a_slope_at_a_place_that_the_profile_leaves_out_is_not_run() -> None:
    verdict = along([1.0], [2.0], at={"clients": 120})
    assert (verdict.kind, verdict.why) == ("not run", "the quick profile leaves out clients = 120")


def test_an_end_that_the_profile_leaves_out_is_told() -> None:
    verdict = along([1.0], [2.0], ends=[80, 120])
    assert (verdict.kind, verdict.why) == ("not run", "the quick profile leaves out clients = 120")


def test_every_policy_that_a_claim_fails_against_is_named_with_its_worst_point() -> None:
    costs = {
        "fedcs": {80: [3.0], 100: [3.0]},
        "exact": {80: [2.0], 100: [1.5]},
        "c2e-greedy-assoc": {80: [2.5], 100: [4.0]},
        "client-sel-only": {80: [4.0], 100: [4.0]},
    }
    verdict = told(costs, at_most=["exact", "c2e-greedy-assoc", "client-sel-only"])
    assert verdict.ours == (
        "holds in 3 of 6 comparisons; worst: 100% above certified optimum at clients = 100, "
        "20.0% above C2EGreedyAssoc at clients = 80"
    )


def test_who_misses_the_target_more_often_is_worse() -> None:
    table = {"fedcs": [1.0, math.inf, 2.0], "exact": [5.0, 6.0, 7.0]}
    asked = claim(quantity="cost_to_target", at_most=["exact"])
    verdict = judge_claim(series(table, "cost_to_target"), asked)
    assert verdict.kind == "differs"
    assert "target missed in 1 of 3 against 0 of certified optimum" in verdict.ours
    swapped = {"fedcs": table["exact"], "exact": table["fedcs"]}
    assert judge_claim(series(swapped, "cost_to_target"), asked).kind == "agrees"
    neither = {"fedcs": [math.inf], "exact": [math.inf]}
    verdict = judge_claim(series(neither, "cost_to_target"), asked)
    assert (verdict.kind, verdict.why) == ("not run", "no seed reached the target")


def test_points_without_a_value_are_told() -> None:
    costs = {"fedcs": {80: [1.0], 100: [math.nan]}, "exact": {80: [2.0], 100: [2.5]}}
    verdict = told(costs, at_most=["exact"])
    assert verdict.kind == "agrees"
    assert verdict.ours.endswith("1 left out: no value")


def test_seeds_that_one_side_lacks_are_left_out_of_both() -> None:
    table = {"fedcs": [1.0, 100.0], "exact": [2.0, math.nan]}
    assert judge_claim(series(table), claim(at_most=["exact"])).kind == "agrees"


def test_a_claim_says_over_how_many_seeds_it_is() -> None:
    asked = claim(quantity="cost_to_target", at_most=["exact"])
    table = {"fedcs": [1.0, 1.0, math.inf], "exact": [2.0, 2.0, math.inf]}
    verdict = judge_claim(series(table, "cost_to_target"), asked)
    assert verdict.kind == "agrees"
    assert verdict.ours == "50.0% below certified optimum over 2 of 3 seeds"
    table = {"fedcs": [1.0, math.inf, math.inf], "exact": [2.0, math.inf, math.inf]}
    verdict = judge_claim(series(table, "cost_to_target"), asked)
    assert verdict.kind == "not run"
    assert verdict.why == "fewer than half of the seeds reached the target"
