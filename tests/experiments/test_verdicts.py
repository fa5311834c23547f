"""The rules by which a number agrees, at their borders: intervals by hand."""

import math
from typing import Any

import msgspec
import pytest
from made_up_results import Outputs, experiment, result, round_of
from verdict_cases import AXIS, by_clients, claim, outputs_of, printed, series

from stagewise_experiments.cells import Cell
from stagewise_experiments.series import Series
from stagewise_experiments.verdicts import Verdict, judge_claim, judge_value, printed_text

# Two seeds whose mean is 10, and whose 95% interval is 12.7062 times half their difference.
NARROW, WIDE = [9.98, 10.02], [9.9, 10.1]  # 10 ± 0.254, 10 ± 1.271


@pytest.mark.parametrize(
    ("paper", "better", "kind"),
    [
        (10.74, "lower", "agrees"),  # the interval begins at 9.746, the tolerance is 1
        (10.75, "lower", "undecided"),
        (11.25, "lower", "undecided"),  # the interval ends at 10.254
        (11.26, "lower", "better"),
        (11.26, "higher", "differs"),
        (9.26, "lower", "agrees"),
        (9.25, "lower", "undecided"),
        (8.75, "lower", "undecided"),
        (8.74, "lower", "differs"),
        (8.74, "higher", "better"),
    ],
)
def test_a_number_agrees_where_all_of_the_interval_is_within_a_tenth(
    paper: float, better: str, kind: str
) -> None:
    assert judge_value(series({"fedcs": NARROW}), printed(paper, better=better)).kind == kind


@pytest.mark.parametrize(
    ("paper", "kind"), [(10.0, "undecided"), (12.27, "undecided"), (12.28, "better")]
)
def test_an_interval_wider_than_the_tolerance_cannot_agree(paper: float, kind: str) -> None:
    verdict = judge_value(series({"fedcs": WIDE}), printed(paper))
    assert verdict.kind == kind
    across = "our interval is neither within the tolerance nor outside of it"
    assert verdict.why == (across if kind == "undecided" else "")


@pytest.mark.parametrize("paper", [1.0, 10.0, 100.0, math.inf])
def test_one_seed_decides_no_number(paper: float) -> None:
    verdict = judge_value(series({"fedcs": [10.0]}), printed(paper))
    assert (verdict.kind, verdict.ours, verdict.why) == ("undecided", "10.0", "one seed")


@pytest.mark.parametrize(
    ("paper", "kind"), [(0.249, "agrees"), (0.151, "agrees"), (0.251, "better"), (0.149, "differs")]
)
def test_increases_agree_within_five_points(paper: float, kind: str) -> None:
    table = {"fedcs": [2.4, 6.0], "orig-prob-solver": [2.0, 5.0]}  # 20% more, both seeds
    verdict = judge_value(series(table), printed(paper, relative_to="orig-prob-solver"))
    assert verdict.kind == kind
    assert verdict.ours.startswith("+20.0%")


def test_an_increase_has_the_interval_of_its_logarithms() -> None:
    """Log-ratios 0.19 and 0.21: 0.2 ± 12.7062 * 0.01, so from +7.57% to +38.7%."""
    table = {"fedcs": [math.exp(0.19), math.exp(0.21)], "orig-prob-solver": [1.0, 1.0]}
    judged = {
        paper: judge_value(series(table), printed(paper, relative_to="orig-prob-solver"))
        for paper in (0.02, 0.03, 0.43, 0.44)
    }
    assert judged[0.03].ours == "+22.1% (+7.57% to +38.7%)"
    assert [v.kind for v in judged.values()] == ["differs", "undecided", "undecided", "better"]


@pytest.mark.parametrize(
    ("paper", "kind"),
    [(0.0399, "agrees"), (0.0201, "agrees"), (0.041, "differs"), (0.019, "better")],
)
def test_accuracies_agree_within_a_point(paper: float, kind: str) -> None:
    table = {"fedcs": [0.83, 0.73], "orig-prob-solver": [0.8, 0.7]}
    value = printed(paper, quantity="final_accuracy", minus="orig-prob-solver", better="higher")
    verdict = judge_value(series(table, "final_accuracy"), value)
    assert verdict.kind == kind
    assert verdict.ours == "+3.00 points (+3.00 points to +3.00 points)"


@pytest.mark.parametrize(
    ("ours", "paper", "kind"),
    [
        ([math.inf, math.inf], math.inf, "agrees"),
        ([math.inf], math.inf, "undecided"),
        ([math.inf, 3.0], math.inf, "undecided"),
        ([3.0, 3.0], math.inf, "better"),
        ([math.inf, math.inf], 3.0, "differs"),
        ([math.inf, 3.0], 3.0, "undecided"),
    ],
)
def test_targets_that_are_not_reached(ours: list[float], paper: float, kind: str) -> None:
    found = series({"fedcs": ours}, "cost_to_target")
    assert judge_value(found, printed(paper, quantity="cost_to_target")).kind == kind


@pytest.mark.parametrize(
    ("paper", "kind"), [(2.0, "agrees"), (2.19, "agrees"), (2.21, "differs"), (1.79, "differs")]
)
def test_growth_is_compared_whatever_the_unit(paper: float, kind: str) -> None:
    """Twice as much at 100 clients as at 80, in both seeds, on machines of different speed."""
    found = Series(by_clients({"fedcs": {80: [1.0, 7.0], 100: [2.0, 14.0]}}))
    fields = {"at": {"clients": 100}, "growth_from": {"clients": 80}, "better": "neither"}
    verdict = judge_value(found, printed(paper, **fields))
    assert (verdict.kind, verdict.ours) == (kind, "2.00 (2.00 to 2.00) times")
    assert verdict.paper == f"{paper:g} times that at clients = 80"


def test_growth_that_the_seeds_do_not_agree_on_is_undecided() -> None:
    found = Series(by_clients({"fedcs": {80: [1.0, 1.0], 100: [2.0, 3.0]}}))
    fields = {"at": {"clients": 100}, "growth_from": {"clients": 80}}
    assert judge_value(found, printed(2.5, **fields)).kind == "undecided"


def test_growth_to_where_the_target_is_missed_is_told() -> None:
    costs = {80: 1.0, 100: math.inf}
    of = experiment(policies=["fedcs"], quantities=["cost_to_target"], axes=[AXIS])
    found = Series(
        result(of, lambda c: outputs_of("cost_to_target", costs[c.setting.scenario.clients]))
    )
    fields = {"quantity": "cost_to_target", "at": {"clients": 100}}
    verdict = judge_value(found, printed(2.0, growth_from={"clients": 80}, **fields))
    assert verdict.kind == "differs"
    assert verdict.ours == "target missed in 3 of 3 runs against 0 at clients = 80"


def test_a_number_is_compared_in_one_way() -> None:
    with pytest.raises(msgspec.ValidationError, match="only one of relative_to, minus and growth"):
        printed(1.0, relative_to="exact", minus="exact")


def test_what_a_profile_leaves_out_is_not_run() -> None:
    found = series({"fedcs": [1.0]}, axes=[AXIS])
    verdict = judge_value(found, printed(1.0, at={"clients": 120}))
    assert (verdict.kind, verdict.ours) == ("not run", "")
    assert verdict.why == "the quick profile leaves out clients = 120"
    assert judge_claim(found, claim(below=9.0, at={"clients": 120})).kind == "not run"


def test_a_policy_without_cells_is_not_run() -> None:
    found = series({"fedcs": [1.0, 1.0]})
    verdict = judge_claim(found, claim(policy="exact", at_most=["fedcs"]))
    assert (verdict.kind, verdict.why) == ("not run", "not run: certified optimum")


def test_failed_cells_are_not_run_and_say_why() -> None:
    verdict = judge_value(series({"fedcs": [math.nan, math.nan]}), printed(1.0))
    assert verdict.kind == "not run"
    assert verdict.why == "2 cells failed: the worker died"


def test_other_data_are_not_compared() -> None:
    of = experiment(
        policies=["fedcs"],
        setting={"dataset": "cifar100"},
        stand_ins={"cifar100": {"dataset": "cifar10"}},
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
    missed = "target missed in 2 of 2 runs against 2 of certified optimum's"
    assert (verdict.kind, verdict.ours, verdict.why) == ("not comparable", missed, "two rounds")
    value = printed(0.1, quantity="cost_to_target", relative_to="exact")
    verdict = judge_value(too_small(math.inf), value)
    assert (verdict.kind, verdict.ours, verdict.why) == ("not comparable", missed, "two rounds")


def too_small(cost: float) -> Series:
    """Two policies that cost as much to the target, in a profile that cannot be compared."""
    of = experiment(
        policies=["fedcs", "exact"],
        profiles={"quick": {"seeds": 2, "note": "two rounds", "comparable": False}},
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
    found = series({"fedcs": NARROW})
    assert judge_value(found, printed(paper, better="neither")).kind == "differs"
    assert judge_value(found, printed(10.5, better="neither")).kind == "agrees"


def test_the_better_side_is_the_quantity_s_own_by_default() -> None:
    assert judge_value(series({"fedcs": NARROW}), printed(20.0)).kind == "better"
    assert judge_value(series({"fedcs": NARROW}), printed(5.0)).kind == "differs"
    found = series({"fedcs": [0.8, 0.8]}, "final_accuracy")
    assert judge_value(found, printed(0.5, quantity="final_accuracy")).kind == "better"
    clients = printed(10.0, quantity="clients")  # ours are 20
    assert judge_value(series({"fedcs": NARROW}), clients).kind == "differs"


def over_original(ours: list[float], original: list[float]) -> Verdict:
    """13.2% more than OrigProbSolver, says the paper."""
    found = series({"fedcs": ours, "orig-prob-solver": original}, "cost_to_target")
    value = printed(0.132, quantity="cost_to_target", relative_to="orig-prob-solver")
    return judge_value(found, value)


def test_a_ratio_says_how_many_runs_missed_the_target() -> None:
    """Seeds in which both did say nothing; where only one did, one end of the interval is open."""
    both = over_original([2.264, 3.396, math.inf], [2.0, 3.0, math.inf])  # 13.2% in two of three
    assert both.kind == "agrees"
    assert both.ours == (
        "target missed in 1 of 3 runs against 1 of OrigProbSolver's; +13.2% (+13.2% to +13.2%)"
    )
    one = over_original([2.264, 3.396, 4.0], [2.0, 3.0, math.inf])
    assert one.kind == "undecided"
    missed = "target missed in 0 of 3 runs against 1 of OrigProbSolver's; in the others +13.2%; "
    assert one.ours.startswith(missed)
    assert one.ours.endswith("or less by what was spent")
    assert "missed" not in over_original([2.2, 3.3], [2.0, 3.0]).ours


def test_a_round_more_or_less_is_within_the_interval_of_a_number() -> None:
    """12 rounds against 11 of the same cost: 9.1% more, from 0% to 19%, and never no difference."""

    def outputs(cell: Cell) -> Outputs:
        accuracies = [0.1] * (9 if cell.policy == "fedcs" else 8) + [0.95] * 3
        records = [round_of(1.0, accuracy=accuracy) for accuracy in accuracies]
        return {"rounds": records, "target_accuracy": 0.9, "plan_ms": []}

    policies = ["fedcs", "orig-prob-solver"]
    found = Series(result(experiment(policies=policies, quantities=["cost_to_target"]), outputs))
    fields = {"quantity": "cost_to_target", "relative_to": "orig-prob-solver"}
    verdict = judge_value(found, printed(0.09, **fields))
    assert (verdict.kind, verdict.ours) == ("undecided", "+9.09% (0% to +19.0%)")
    assert judge_value(found, printed(0.30, **fields)).kind == "better"


def test_to_arrive_where_the_other_never_does_is_better_than_any_ratio() -> None:
    better = over_original([2.2, 3.3], [math.inf, math.inf])
    assert better.kind == "better"
    assert better.ours == "target missed in 0 of 2 runs against 2 of OrigProbSolver's"
    assert over_original([math.inf, math.inf], [2.0, 2.0]).kind == "differs"
    assert over_original([2.2], [math.inf]).why == "one seed"
    neither = over_original([math.inf] * 2, [math.inf] * 2)
    assert (neither.kind, neither.why) == ("undecided", "no run reached the target")
    few = over_original([2.2, math.inf, math.inf], [2.0, math.inf, math.inf])
    assert few.why == "fewer than half of the runs reached the target"


def test_a_reason_for_being_worse_is_not_given_for_being_better() -> None:
    found = series({"fedcs": NARROW})
    worse = judge_value(found, printed(5.0, better="lower", why="a reason"))
    assert (worse.kind, worse.why) == ("differs", "a reason")
    better = judge_value(found, printed(15.0, better="lower", why="a reason"))
    assert (better.kind, better.why) == ("better", "")
    margin = over_original([1.0, 1.0], [2.0, 2.0])
    assert margin.kind == "better"
    assert margin.why.startswith("against OrigProbSolver it does better than in the paper")


def test_a_percentage_of_cost_stands_beside_the_share_of_feasible_rounds() -> None:
    of = experiment(policies=["fedcs", "exact"], measure="decisions", quantities=["objective"])

    def outputs(cell: Cell) -> Outputs:
        return {"rounds": [round_of(feasible=cell.policy == "exact")], "plan_ms": None}

    verdict = judge_value(Series(result(of, outputs)), printed(0.0, relative_to="exact"))
    assert verdict.ours == "0% (0% to 0%); feasible rounds: 0% against 100%"


def test_what_was_learned_from_a_part_of_the_data_is_not_the_paper_s_number() -> None:
    size = {"seeds": 2, "setting": {"dataset": "mnist5k"}}
    fields = {"setting": {"dataset": "mnist"}, "profiles": {"quick": size}, "measure": "training"}
    of = experiment(policies=["fedcs", "exact"], quantities=["final_accuracy"], **fields)
    found = Series(result(of, lambda _: outputs_of("final_accuracy", 0.8)))
    alone = judge_value(found, printed(0.8, quantity="final_accuracy"))
    assert (alone.kind, alone.why) == ("not comparable", "ran on MNIST-5k, a part of MNIST")
    against = judge_value(found, printed(0.0, quantity="final_accuracy", minus="exact"))
    assert against.kind == "agrees"


@pytest.mark.parametrize(
    ("regime", "kind"), [("calibrated", "agrees"), ("literal", "not comparable")]
)
@pytest.mark.parametrize("fitted", [True, False])
def test_costs_as_such_are_compared_in_the_calibrated_regime_alone(
    regime: str, kind: str, fitted: bool
) -> None:
    of = experiment(policies=["fedcs", "exact"], setting={"scenario": {"regime": regime}})
    found = Series(result(of, lambda _: outputs_of("objective", 10.0)))
    assert judge_value(found, printed(10.0, fitted=fitted)).kind == kind
    assert judge_value(found, printed(0.0, minus="exact")).kind == kind
    assert judge_value(found, printed(0.0, relative_to="exact")).kind == "agrees"
    trained = Series(result(of, lambda _: outputs_of("final_accuracy", 0.8)))
    assert judge_value(trained, printed(0.8, quantity="final_accuracy")).kind == "agrees"


def test_only_failed_cells_of_the_points_in_question_are_told() -> None:
    costs = {"fedcs": {80: [math.nan], 100: [math.nan]}, "exact": {80: [math.nan], 100: [1.0]}}
    found = Series(by_clients(costs))
    verdict = judge_value(found, printed(1.0, at={"clients": 80}))
    assert (verdict.kind, verdict.why) == ("not run", "1 cells failed: the worker died")
    verdict = judge_claim(found, claim(at_most=["exact"], at={"clients": 80}))
    assert (verdict.kind, verdict.why) == ("not run", "2 cells failed: the worker died")
    silent = claim(policy="exact", quantity="plan_s", below=1.0, at={"clients": 100})
    assert judge_claim(found, silent).ours == "no value"  # not that others failed


def test_why_it_differs_is_the_file_s_reason_and_the_size() -> None:
    found = series({"fedcs": NARROW}, note="few rounds")
    value = printed(5.0, why="ours is slower.")
    assert judge_value(found, value).why == "ours is slower. See also the note on this size"
    assert judge_value(found, printed(5.0)).why == "not known. See also the note on this size"
    assert judge_value(found, printed(10.0, why="ours is slower")).why == ""
    assert judge_claim(series({"fedcs": NARROW}), claim(below=1.0)).why == "not known"


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
    assert (verdict.kind, verdict.ours) == ("not comparable", "no value")
    assert verdict.why == "there is no value of ours"
