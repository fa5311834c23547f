"""The rules by which a number agrees, at their borders."""

import math
from typing import Any

import msgspec
import pytest
from made_up_results import experiment, result
from verdict_cases import AXIS, by_clients, claim, outputs_of, printed, series

from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import Verdict, judge_claim, judge_value, printed_text


@pytest.mark.parametrize(
    ("paper", "better", "kind"),
    [
        (10.99, "lower", "agrees"),
        (11.0, "lower", "agrees"),  # 10% of our mean, exactly
        (11.01, "lower", "better"),
        (11.01, "higher", "differs"),
        (9.0, "lower", "agrees"),
        (8.99, "lower", "differs"),
        (8.99, "higher", "better"),
    ],
)
def test_one_seed_agrees_within_a_tenth(paper: float, better: str, kind: str) -> None:
    verdict = judge_value(series({"fedcs": [10.0]}), printed(paper, better=better))
    assert verdict.kind == kind


def test_an_interval_wider_than_the_tolerance_agrees_and_says_so() -> None:
    found = series({"fedcs": [8.0, 12.0]})  # 10 ± 25.4
    verdict = judge_value(found, printed(35.0))
    assert (verdict.kind, verdict.wide) == ("agrees", True)
    assert "wider than the tolerance" in verdict.why
    assert judge_value(found, printed(36.0)).kind == "better"
    assert not judge_value(found, printed(10.5)).wide


@pytest.mark.parametrize(
    ("paper", "kind"), [(0.25, "agrees"), (0.15, "agrees"), (0.26, "better"), (0.14, "differs")]
)
def test_increases_agree_within_five_points(paper: float, kind: str) -> None:
    table = {"fedcs": [2.4, 6.0], "orig-prob-solver": [2.0, 5.0]}  # 20% more, both seeds
    verdict = judge_value(series(table), printed(paper, relative_to="orig-prob-solver"))
    assert verdict.kind == kind
    assert verdict.ours.startswith("+20.0%")


@pytest.mark.parametrize(
    ("paper", "kind"), [(0.04, "agrees"), (0.02, "agrees"), (0.041, "differs"), (0.019, "better")]
)
def test_accuracies_agree_within_a_point(paper: float, kind: str) -> None:
    table = {"fedcs": [0.83], "orig-prob-solver": [0.8]}
    value = printed(paper, quantity="final_accuracy", minus="orig-prob-solver", better="higher")
    verdict = judge_value(series(table, "final_accuracy"), value)
    assert verdict.kind == kind
    assert verdict.ours == "+3.00 points"


@pytest.mark.parametrize(
    ("ours", "paper", "kind"),
    [
        ([math.inf, math.inf], math.inf, "agrees"),
        ([math.inf, 3.0], math.inf, "agrees"),  # half of them
        ([math.inf, 3.0, 3.0], math.inf, "better"),
        ([3.0, 3.0], math.inf, "better"),
        ([math.inf, 3.0], 3.0, "differs"),
    ],
)
def test_targets_that_are_not_reached(ours: list[float], paper: float, kind: str) -> None:
    found = series({"fedcs": ours}, "cost_to_target")
    assert judge_value(found, printed(paper, quantity="cost_to_target")).kind == kind


def test_what_a_profile_leaves_out_is_not_run() -> None:
    found = series({"fedcs": [1.0]}, axes=[AXIS])
    verdict = judge_value(found, printed(1.0, at={"clients": 120}))
    assert (verdict.kind, verdict.ours) == ("not run", "")
    assert verdict.why == "the quick profile leaves out clients = 120"
    assert judge_claim(found, claim(below=9.0, at={"clients": 120})).kind == "not run"


def test_failed_cells_are_not_run_and_say_why() -> None:
    verdict = judge_value(series({"fedcs": [math.nan, math.nan]}), printed(1.0))
    assert verdict.kind == "not run"
    assert verdict.why == "2 cells failed: the worker died"


def test_other_data_are_not_compared() -> None:
    of = experiment(
        policies=["fedcs"], setting={"dataset": "cifar100"}, stand_ins={"cifar100": "cifar10"}
    )
    found = Series(
        result(of, lambda _: outputs_of("final_accuracy", 0.55), {"cifar100": "cifar10"})
    )
    verdict = judge_value(found, printed(0.55, quantity="final_accuracy"))
    assert (verdict.kind, verdict.why) == ("not comparable", "ran on CIFAR-10, not on CIFAR-100")
    assert verdict.ours == "55.0% ± 0"
    kept = judge_claim(found, claim(quantity="final_accuracy", above=0.5))
    assert kept.kind == "agrees"


def test_a_profile_that_is_too_small_is_not_compared() -> None:
    of = experiment(
        policies=["fedcs"],
        profiles={"quick": {"seeds": 1, "note": "two rounds", "comparable": False}},
    )
    found = Series(result(of, lambda _: outputs_of("final_accuracy", 0.5)))
    verdict = judge_value(found, printed(0.5, quantity="final_accuracy"))
    assert (verdict.kind, verdict.ours, verdict.why) == ("not comparable", "50.0%", "two rounds")


@pytest.mark.parametrize(
    ("quantity", "kind"),
    [
        ("accuracy", "not comparable"),
        ("final_accuracy", "not comparable"),
        ("rounds_to_target", "not comparable"),
        ("cost_to_target", "not comparable"),
        ("delay_to_target", "not comparable"),
        ("energy_to_target", "not comparable"),
        ("objective", "agrees"),
        ("feasible_share", "agrees"),
        ("decision_ms", "agrees"),
    ],
)
def test_few_rounds_say_nothing_of_what_was_learned(quantity: str, kind: str) -> None:
    found = too_small(5.0)
    verdict = judge_claim(found, claim(quantity=quantity, below=1e6))
    assert verdict.kind == kind
    assert verdict.ours
    assert verdict.why == ("two rounds" if kind == "not comparable" else "")


def test_a_claim_that_few_rounds_could_not_decide_is_not_comparable() -> None:
    asked = claim(quantity="cost_to_target", at_most=["exact"])
    verdict = judge_claim(too_small(math.inf), asked)
    assert (verdict.kind, verdict.ours) == ("not comparable", "no seed reached the target")
    assert verdict.why == "two rounds"
    value = printed(0.1, quantity="cost_to_target", relative_to="exact")
    verdict = judge_value(too_small(math.inf), value)
    assert (verdict.kind, verdict.why) == ("not comparable", "two rounds")
    assert verdict.ours == "certified optimum reached the target in 0 of 1 runs, FedCS in 0"


def too_small(cost: float) -> Series:
    """Two policies that cost as much to the target, in a profile that cannot be compared."""
    of = experiment(
        policies=["fedcs", "exact"],
        profiles={"quick": {"seeds": 1, "note": "two rounds", "comparable": False}},
    )
    return Series(result(of, lambda _: outputs_of("cost_to_target", cost)))


def test_a_number_that_cannot_be_compared_shows_ours_and_the_reason() -> None:
    value = printed(10.0, comparable=False, why="another machine")
    verdict = judge_value(series({"fedcs": [10.0]}), value)
    assert (verdict.kind, verdict.ours, verdict.why) == (
        "not comparable",
        "10.0",
        "another machine",
    )
    failed = judge_value(series({"fedcs": [math.nan]}), value)
    assert (failed.kind, failed.ours) == ("not run", "")
    with pytest.raises(msgspec.ValidationError, match="comparable = false: must have why"):
        printed(10.0, comparable=False)


@pytest.mark.parametrize("paper", [5.0, 20.0, math.inf])
def test_neither_side_may_be_the_better_one(paper: float) -> None:
    assert (
        judge_value(series({"fedcs": [10.0]}), printed(paper, better="neither")).kind == "differs"
    )
    assert judge_value(series({"fedcs": [10.0]}), printed(10.5, better="neither")).kind == "agrees"


def test_the_better_side_is_the_quantity_s_own_by_default() -> None:
    assert judge_value(series({"fedcs": [10.0]}), printed(20.0)).kind == "better"
    assert judge_value(series({"fedcs": [10.0]}), printed(5.0)).kind == "differs"
    found = series({"fedcs": [0.8]}, "final_accuracy")
    assert judge_value(found, printed(0.5, quantity="final_accuracy")).kind == "better"
    clients = printed(10.0, quantity="clients")  # ours are 20
    assert judge_value(series({"fedcs": [10.0]}), clients).kind == "differs"


def over_original(ours: list[float], original: list[float]) -> Verdict:
    """13.2% more than OrigProbSolver, says the paper."""
    found = series({"fedcs": ours, "orig-prob-solver": original}, "cost_to_target")
    value = printed(0.132, quantity="cost_to_target", relative_to="orig-prob-solver")
    return judge_value(found, value)


def test_a_ratio_says_over_how_many_seeds_it_is() -> None:
    verdict = over_original([2.2, 3.48, 4.0, 9.0], [2.0, 3.0, math.inf, math.inf])  # 10% and 16%
    assert (verdict.kind, verdict.ours) == ("agrees", "+13% ± 38 over 2 of 4 runs")
    whole = over_original([2.2, 3.3], [2.0, 3.0])
    assert "over" not in whole.ours


def test_to_arrive_where_the_other_does_not_is_better_than_any_ratio() -> None:
    few = over_original([2.2, 3.3, 4.0], [2.0, math.inf, math.inf])
    assert few.kind == "better"
    assert few.ours == "OrigProbSolver reached the target in 1 of 3 runs, FedCS in 3"
    assert few.why == "OrigProbSolver is the weaker one here"
    both = over_original([2.2, math.inf, math.inf], [2.0, math.inf, math.inf])
    assert (both.kind, both.why) == ("not comparable", "too few runs reached the target")
    table = {"fedcs": [2.2, 3.3, 4.0], "orig-prob-solver": [math.inf] * 3}
    fields = {"quantity": "cost_to_target", "relative_to": "orig-prob-solver", "why": "it is weak"}
    value = printed(0.132, better="neither", **fields)
    verdict = judge_value(series(table, "cost_to_target"), value)
    assert (verdict.kind, verdict.why) == ("differs", "it is weak")


def test_a_reason_for_being_worse_is_not_given_for_being_better() -> None:
    worse = judge_value(series({"fedcs": [10.0]}), printed(5.0, better="lower", why="a reason"))
    assert (worse.kind, worse.why) == ("differs", "a reason")
    better = judge_value(series({"fedcs": [10.0]}), printed(15.0, better="lower", why="a reason"))
    assert (better.kind, better.why) == ("better", "")
    margin = over_original([1.0], [2.0])
    assert margin.kind == "better"
    assert margin.why.startswith("against OrigProbSolver it does better than in the paper")


def test_what_was_learned_from_a_part_of_the_data_is_not_the_paper_s_number() -> None:
    size = {"seeds": 1, "setting": {"dataset": "mnist5k"}}
    fields = {"setting": {"dataset": "mnist"}, "profiles": {"quick": size}, "measure": "training"}
    of = experiment(policies=["fedcs", "exact"], quantities=["final_accuracy"], **fields)
    found = Series(result(of, lambda _: outputs_of("final_accuracy", 0.8)))
    alone = judge_value(found, printed(0.8, quantity="final_accuracy"))
    assert (alone.kind, alone.why) == ("not comparable", "ran on MNIST-5k, a part of MNIST")
    against = judge_value(found, printed(0.0, quantity="final_accuracy", minus="exact"))
    assert against.kind == "agrees"


def test_a_policy_that_misses_where_the_other_arrives_differs() -> None:
    verdict = over_original([math.inf, 2.2, math.inf], [2.0, 2.0, math.inf])
    assert verdict.kind == "differs"
    assert verdict.ours == "not reached in 1 of 2; +10.0% over 1 of 3 runs"
    assert over_original([math.inf], [2.0]).ours == "not reached in 1 of 1"


def test_only_failed_cells_of_the_points_in_question_are_told() -> None:
    costs = {"fedcs": {80: [math.nan], 100: [math.nan]}, "exact": {80: [math.nan], 100: [1.0]}}
    found = Series(by_clients(costs))
    verdict = judge_value(found, printed(1.0, at={"clients": 80}))
    assert (verdict.kind, verdict.why) == ("not run", "1 cells failed: the worker died")
    verdict = judge_claim(found, claim(at_most=["exact"], at={"clients": 80}))
    assert (verdict.kind, verdict.why) == ("not run", "2 cells failed: the worker died")
    silent = claim(policy="exact", quantity="plan_s", below=1.0, at={"clients": 100})
    assert judge_claim(found, silent).why == "there is no value"  # not that others failed


def test_why_it_differs_is_the_file_s_reason_and_the_size() -> None:
    found = series({"fedcs": [10.0]}, note="few rounds")
    value = printed(5.0, why="ours is slower.")
    assert judge_value(found, value).why == "ours is slower. See also the note on this size"
    assert judge_value(found, printed(5.0)).why == "not known. See also the note on this size"
    assert judge_value(found, printed(10.0, why="ours is slower")).why == ""
    assert judge_claim(series({"fedcs": [10.0]}), claim(below=1.0)).why == "not known"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"value": 0.132, "relative_to": "orig-prob-solver"}, "+13.2% over OrigProbSolver"),
        (
            {"value": -0.0034, "minus": "fedcs", "quantity": "final_accuracy"},
            "−0.34 points against FedCS",
        ),
        ({"value": 0.5512, "quantity": "final_accuracy"}, "55.12%"),
        ({"value": math.inf}, "not reached"),
        ({"value": 9.11}, "9.11"),
    ],
)
def test_the_paper_s_numbers_are_written_as_printed(fields: dict[str, Any], text: str) -> None:
    assert printed_text(printed(**fields)) == text


def test_a_ratio_to_nothing_is_not_a_target_missed() -> None:
    found = series({"fedcs": [2.0], "orig-prob-solver": [0.0]})
    verdict = judge_value(found, printed(0.1, relative_to="orig-prob-solver"))
    assert (verdict.kind, verdict.why) == ("not run", "there is no value")
