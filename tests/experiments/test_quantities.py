"""What is read off a cell's outputs, and how numbers are written."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_results import round_of
from scipy import stats

from stagewise.errors import StagewiseError
from stagewise.policies.registry import policy_names
from stagewise.report.style import style_of
from stagewise_experiments.names import DATASET_NAMES, POLICY_NAMES, policy_name
from stagewise_experiments.quantities import (
    QUANTITIES,
    estimate_text,
    quantity,
    rounded,
)
from stagewise_experiments.statistics import estimate

# 0.9 is passed at the second round, but in the mean of three only at the fourth.
ACCURACIES = [0.5, 0.91, 0.88, 0.91, 0.95]
TRAINED = {
    "rounds": [
        round_of(cost, accuracy=accuracy, decision_ms=ms)
        for cost, accuracy, ms in zip((1, 2, 4, 8, 16), ACCURACIES, (1, 2, 3, 10, 4), strict=True)
    ],
    "plan_ms": [1000.0, 3000.0],
    "target_accuracy": 0.9,
    "samples": 100,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("final_accuracy", (0.88 + 0.91 + 0.95) / 3),
        ("rounds_to_target", 4),
        ("cost_to_target", 15.0),
        ("delay_to_target", 7.5),
        ("energy_to_target", 45.0),
        ("decision_ms", 4.0),
        ("decision_ms_median", 3.0),
        ("decision_ms_max", 10.0),
        ("objective", 6.2),
        ("feasible_share", 1.0),
        ("plan_s", 2.0),
    ],
)
def test_training_outputs(name: str, value: float) -> None:
    assert quantity(name).value(TRAINED) == pytest.approx(value)


def test_a_target_that_is_never_reached_costs_infinitely_much() -> None:
    never = {**TRAINED, "target_accuracy": 0.99}
    for name in ("rounds_to_target", "cost_to_target", "delay_to_target", "energy_to_target"):
        assert quantity(name).value(never) == math.inf
        assert quantity(name).value({**TRAINED, "target_accuracy": None}) is None


def test_rounds_that_are_not_evaluated_are_paid_for() -> None:
    """Three evaluations are three in a row of those that there are."""
    accuracies = [None, 0.91, None, 0.91, 0.88]
    records = [{**r, "accuracy": a} for r, a in zip(TRAINED["rounds"], accuracies, strict=True)]
    assert quantity("cost_to_target").value({**TRAINED, "rounds": records}) == 31.0
    assert quantity("rounds_to_target").value({**TRAINED, "rounds": records}) == 5


@pytest.mark.parametrize("name", ["rounds", "cost", "delay", "energy"])
def test_what_grows_by_rounds_knows_their_number(name: str) -> None:
    rounds = quantity(f"{name}_to_target").rounds
    assert rounds is not None
    assert rounds(TRAINED) == 4


@pytest.mark.parametrize(
    ("count", "median", "p99"),
    [(1, 1, None), (4, 2, None), (99, 50, None), (100, 50, 99), (200, 100, 198)],
)
def test_the_tail_of_decision_times(count: int, median: float, p99: float | None) -> None:
    """Of fewer than a hundred decisions the slowest would be the 99th percentile."""
    times = [float(number) for number in range(1, count + 1)]
    outputs = {"rounds": [round_of(decision_ms=time) for time in reversed(times)]}
    told = [quantity(f"decision_ms_{name}").value(outputs) for name in ("median", "p99", "max")]
    assert told == [median, p99, count]
    assert quantity("decision_ms_p99").value({"rounds": []}) is None


def test_costs_are_what_breaking_limits_makes_less() -> None:
    assert {name for name, known in QUANTITIES.items() if known.cost} == {
        *("objective", "delay_s", "energy_j"),
        *("cost_to_target", "delay_to_target", "energy_to_target"),
        *("cost_to_hard_target", "delay_to_hard_target", "energy_to_hard_target"),
    }


def test_over_optimum_counts_rounds_where_both_keep_the_limits() -> None:
    best = [
        round_of(2.0, lower_bound=1.6),
        round_of(2.0),
        round_of(2.0),
        round_of(1.0, feasible=False),
    ]
    ours = [round_of(2.0), round_of(3.0), round_of(0.1, feasible=False), round_of(5.0)]
    over = quantity("over_optimum")
    beside = {"beside": {"rounds": best}}
    assert over.value({"rounds": ours, **beside}) == pytest.approx((2 / 1.6 + 3 / 2) / 2)
    broken = [round_of(feasible=False)] * 4
    assert over.value({"rounds": broken, **beside}) is None


def test_the_hard_target_is_half_a_point_below_kld_minimization_after_two_thirds() -> None:
    """Of its six rounds the second to the fourth have 0.89, 0.9 and 0.91: the target is 0.895."""
    accuracies = [0.2, 0.89, 0.9, 0.91, 0.99, 0.99]
    other = {"rounds": [round_of(9.0, accuracy=accuracy) for accuracy in accuracies]}
    ours = {**TRAINED, "target_accuracy": None, "beside": other}
    spent = {"rounds": 4, "cost": 15.0, "delay": 7.5, "energy": 45.0}
    for what, value in spent.items():
        to = quantity(f"{what}_to_hard_target")
        assert to.value(ours) == pytest.approx(value)
        assert to.rounds is not None
        assert to.rounds(ours) == 4
        assert to.beside == "kld-minimization"
    other["rounds"][3]["accuracy"] = 0.97
    assert quantity("cost_to_hard_target").value(ours) == math.inf
    assert quantity("cost_to_hard_target").value({**ours, "beside": {}}) is None


def test_plans_and_risks() -> None:
    plan = {"plan_ms": 1500.0, "objective": 3.0, "feasible": False, "clients": 20}
    assert quantity("plan_s").value(plan) == 1.5
    assert quantity("objective").value(plan) == 3.0
    assert quantity("planned_feasible").value(plan) == 0.0
    assert quantity("kld_violation").value({"kld_violation": None}) is None
    assert quantity("plan_s").value({"rounds": [], "plan_ms": None}) is None


def test_what_depends_on_learning() -> None:
    learned = {name for name, known in QUANTITIES.items() if known.learned}
    assert learned == {"accuracy", "accuracy_after_30", "final_accuracy", "worst_tenth"} | {
        f"{spent}_to_{target}"
        for spent in ("rounds", "cost", "delay", "energy")
        for target in ("target", "hard_target")
    }


def test_an_unknown_quantity_is_refused() -> None:
    with pytest.raises(StagewiseError, match="quantity = 'speed': must be one of"):
        quantity("speed")


def test_every_quantity_reads_every_measure_without_failing() -> None:
    outputs = [TRAINED, {"rounds": [], "plan_ms": None}, {"plan_ms": 1.0}, {"kld_violation": 0.1}]
    for known in QUANTITIES.values():
        for one in outputs:
            assert known.value(one) is None or isinstance(known.value(one), float)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_interval_is_student_s(values: list[float]) -> None:
    found = estimate(values)
    assert found is not None
    assert found.half_width is not None
    spread = stats.sem(values)
    if spread > 1e-9 * max(map(abs, values)):
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=spread)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_two_seeds_by_hand() -> None:
    found = estimate([1.0, 3.0])
    assert found is not None
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(12.7062047)  # t(1, 97.5%) times 1


def test_one_seed_has_no_interval_and_none_has_no_mean() -> None:
    single = estimate([4.0])
    assert single is not None
    assert single.half_width is None
    assert estimate([]) is None


def test_infinite_values_are_counted() -> None:
    found = estimate([2.0, math.inf, 4.0, math.inf, 3.0])
    assert found is not None
    assert (found.mean, found.interval) == (math.inf, None)
    assert (found.missed, found.count, found.reached_mean) == (2, 5, 3.0)
    assert estimate_text(found) == "not reached in 2 of 5 (3.00 in the others)"
    everything = estimate([math.inf] * 3)
    assert everything is not None
    assert everything.interval == (math.inf, math.inf)
    single = estimate([math.inf])
    assert single is not None
    assert single.interval is None
    assert estimate_text(everything) == "not reached in any of 3"


@pytest.mark.parametrize(
    ("values", "line", "tolerance", "side"),
    [
        ([1.0, 3.0], 14.8, 0.0, -1),  # 2 ± 12.706
        ([1.0, 3.0], 14.7, 0.0, 0),
        ([1.0, 3.0], -10.8, 0.0, 1),
        ([1.0, 3.0], 14.8, 0.2, 0),
        ([1.0], 1e9, 0.0, 0),
        ([math.inf, math.inf], 1e9, 0.0, 1),
        ([-math.inf, -math.inf], 0.0, 0.0, -1),
        ([math.inf, 1.0], 0.0, 0.0, 0),
        ([math.inf, -math.inf], 0.0, 0.0, 0),
    ],
)
def test_an_interval_decides_which_side_of_a_line_it_is(
    values: list[float], line: float, tolerance: float, side: int
) -> None:
    found = estimate(values)
    assert found is not None
    assert found.side_of(line, tolerance) == side


@pytest.mark.parametrize(
    ("values", "share", "text"),
    [
        ([12.345], False, "12.3"),
        ([12.0, 12.1, 12.2], False, "12.10 ± 0.25"),
        ([2000.0, 2100.0], False, "2,050 ± 635"),
        ([0.9, 0.91, 0.92], True, "91.0% ± 2.5"),
        ([0.5, 0.5], True, "50.0% ± 0"),
        ([0.0], False, "0"),
        ([1.0, 1.0 + 1e-9], False, "1.0000 ± 0.0000"),
    ],
)
def test_how_numbers_are_written(values: list[float], share: bool, text: str) -> None:
    found = estimate(values)
    assert found is not None
    assert estimate_text(found, share) == text


@given(st.floats(-1e7, 1e7), st.floats(0, 1e7))
def test_a_written_number_is_near_the_number(value: float, spread: float) -> None:
    written = float(rounded(value, spread).replace(",", ""))
    assert abs(written - value) <= max(0.05 * spread, 0.006 * abs(value), 1e-6)


def test_every_policy_has_a_name_and_a_look_of_its_own() -> None:
    looks = {}
    for policy in policy_names():
        if policy in POLICY_NAMES:
            own = style_of(policy)
            looks[own.colour, own.marker, own.line] = policy
    assert len(looks) == len([p for p in policy_names() if p in POLICY_NAMES]) == 14
    assert style_of("a-policy-of-mine") == style_of("a-policy-of-mine")
    assert len(set(DATASET_NAMES.values())) == len(DATASET_NAMES)


def test_a_plan_that_breaks_its_limits_is_held_to_none() -> None:
    outputs = {"kld_violation_worst": 0.2, "data_violation_worst": 0.4, "feasible": True}
    for name, value in (("kld", 0.2), ("data", 0.4)):
        kept = quantity(f"{name}_violation_kept")
        assert kept.value(outputs) == value
        assert kept.value({**outputs, "feasible": False}) is None
        assert quantity(f"{name}_violation_worst").value({**outputs, "feasible": False}) == value


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("fedcs", "FedCS"),
        ("mine", "mine"),
        ("oort,k=3+pool", "oort,k=3+pool"),
        ("orig-prob-solver:back-tracking", "OrigProbSolver (back-tracking)"),
        ("paper:back-tracking,steps=20", "StagewiseHFL (back-tracking, steps=20)"),
        ("mine:other", "mine (other)"),
    ],
)
def test_how_policies_are_called(policy: str, name: str) -> None:
    assert policy_name(policy) == name


def test_an_interval_that_is_cut_off_has_two_ends() -> None:
    found = estimate([1.0, 1.0, 1.04])
    assert found is not None
    assert estimate_text(found) == "1.013 ± 0.057"
    assert estimate_text(found.bounded_below(1.0)) == "1.013 (1.000 to 1.071)"
    assert quantity("over_optimum").least == 1.0
