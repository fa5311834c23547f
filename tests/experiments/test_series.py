"""Values by policy, point and seed; pairs recomputed by hand."""

import math
from typing import Any

import pytest
from made_up_results import bars, curves, experiment, groups, result, round_of, trained
from verdict_cases import AXIS, by_clients, outputs_of, series

from stagewise_experiments.cells import Cell
from stagewise_experiments.series import Comparison, Series
from stagewise_experiments.statistics import estimate

OURS, THEIRS = "fedcs", "exact"


def compared(
    table: dict[str, list[float]], quantity: str = "objective", differences: bool = False
) -> Comparison:
    return series(table, quantity).compare(quantity, [((OURS, {}), (THEIRS, {}))], differences)


def test_two_policies_are_compared_by_log_ratios_of_the_same_seed() -> None:
    found = compared({OURS: [1.0, 6.0, 3.0], THEIRS: [2.0, 3.0, 4.0]})
    by_hand = {0: math.log(1 / 2), 1: math.log(6 / 3), 2: math.log(3 / 4)}
    assert found.by_seed == pytest.approx(by_hand)
    assert found.estimate is not None
    assert found.estimate.mean == pytest.approx(math.log(0.75) / 3)  # not log(10 / 9)
    # t(2, 97.5%) = 4.30265; the standard deviation of -0.69315, 0.69315, -0.28768 is 0.71277
    assert found.estimate.half_width == pytest.approx(4.30265 * 0.71277 / math.sqrt(3), rel=1e-4)
    assert found.obstacle == ""


def test_scales_that_vary_by_seed_cancel() -> None:
    """Means of raw costs with random weights would leave this to the seed with the largest scale."""
    found = compared({OURS: [1.1, 110.0, 0.011], THEIRS: [1.0, 100.0, 0.01]})
    assert found.estimate is not None
    assert found.estimate.low == pytest.approx(math.log(1.1))
    assert found.estimate.high == pytest.approx(math.log(1.1))


def test_a_seed_s_ratio_is_the_mean_over_points() -> None:
    costs = {OURS: {80: [2.0, 1.0], 100: [8.0, 1.0]}, THEIRS: {80: [1.0, 1.0], 100: [1.0, 1.0]}}
    found = Series(by_clients(costs))
    pairs = [((OURS, {"clients": n}), (THEIRS, {"clients": n})) for n in (80, 100)]
    by_seed = found.compare("objective", pairs).by_seed
    assert by_seed == pytest.approx({0: math.log(4), 1: 0.0})


def test_ratios_in_pictures_are_geometric_means() -> None:
    found = series({OURS: [1.0, 4.0], THEIRS: [2.0, 2.0]})
    ratio = found.estimate("objective", OURS, {}, relative_to=THEIRS)
    assert ratio is not None
    assert ratio.mean == pytest.approx(1.0)  # of 1/2 and 2; the mean is 1.25
    assert ratio.low * ratio.high == pytest.approx(1.0)


def test_only_one_that_misses_the_target_is_infinitely_worse() -> None:
    never = math.inf
    found = compared({OURS: [never, 1.0, never], THEIRS: [1.0, never, never]}, "cost_to_target")
    assert found.by_seed == {0: never, 1: -never}  # both missed it in seed 2, which says nothing
    assert (found.runs, found.missed, found.both_missed) == (3, (2, 2), 1)
    assert found.obstacle == "targets missed on both sides"
    always = compared({OURS: [never] * 2, THEIRS: [1.0, 2.0]}, "cost_to_target")
    assert always.estimate is not None
    assert always.estimate.interval == (never, never)
    assert always.obstacle == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        ([1.0], [2.0], "one seed"),
        ([math.inf], [2.0], "one seed"),
        ([math.inf] * 2, [math.inf] * 2, "no run reached the target"),
        ([1.0, math.inf, math.inf], [2.0, math.inf, math.inf], "fewer than half of the runs"),
        ([1.0, math.inf, 2.0], [2.0, math.inf, 2.5], ""),
        ([1.0, math.inf], [2.0, 2.0], ""),
        ([1.0, math.inf], [math.inf, 2.0], "targets missed on both sides"),
    ],
)
def test_what_no_interval_can_be_made_of(ours: list[float], theirs: list[float], why: str) -> None:
    assert compared({OURS: ours, THEIRS: theirs}, "cost_to_target").obstacle.startswith(why)


def steps(policies: dict[str, tuple[float, int]]) -> Series:
    """Runs that take so many rounds of this cost to their target."""

    def outputs(cell: Cell) -> dict[str, Any]:
        cost, rounds = policies[cell.policy]
        accuracies = [None] * (rounds - 3) + [0.95] * 3
        records = [round_of(cost, accuracy=accuracy) for accuracy in accuracies]
        return {"rounds": records, "target_accuracy": 0.9, "plan_ms": []}

    of = experiment(policies=list(policies), quantities=["cost_to_target"])
    return Series(result(of, outputs))


@pytest.mark.parametrize(
    ("ours", "theirs", "width"),
    [
        ((1.0, 10), (1.05, 10), 0.0),
        ((1.0, 10), (1.0, 11), math.log(1.1)),
        ((1.0, 20), (1.0, 10), math.log(1.1)),
        ((2.0, 4), (1.0, 10), math.log(1.25)),
    ],
)
def test_the_interval_is_longer_by_a_round(
    ours: tuple[float, int], theirs: tuple[float, int], width: float
) -> None:
    """All seeds are alike here, so that the interval has no other width."""
    found = steps({OURS: ours, THEIRS: theirs})
    estimate = found.compare("cost_to_target", [((OURS, {}), (THEIRS, {}))]).estimate
    assert estimate is not None
    assert estimate.half_width == pytest.approx(width)
    assert estimate.mean == pytest.approx(math.log(math.prod(ours) / math.prod(theirs)))
    of_a_round = found.compare("objective", [((OURS, {}), (THEIRS, {}))]).estimate
    assert of_a_round is not None
    assert of_a_round.half_width == pytest.approx(0)  # has no steps


def test_a_difference_is_known_to_what_a_round_takes() -> None:
    found = steps({OURS: (2.0, 4), THEIRS: (1.0, 10)})
    places = [((OURS, {}), (THEIRS, {}))]
    estimate = found.compare("cost_to_target", places, differences=True).estimate
    assert estimate is not None
    assert estimate.interval == pytest.approx((-4.0, 0.0))


def runs(policies: dict[str, list[tuple[float, int | None]]]) -> Series:
    """By seed: what a round costs, and after how many of 20 the target is reached, if it is."""

    def outputs(cell: Cell) -> dict[str, Any]:
        cost, reached = policies[cell.policy][cell.seed]
        accuracies = [0.1] * 20 if reached is None else [0.1] * (reached - 3) + [0.95] * 3
        records = [round_of(cost, accuracy=accuracy) for accuracy in accuracies]
        return {"rounds": records, "target_accuracy": 0.9, "plan_ms": []}

    of = experiment(
        policies=list(policies), quantities=["cost_to_target"], setting={"rounds": 20},
        profiles={"quick": {"seeds": len(next(iter(policies.values())))}},
    )  # fmt: skip
    return Series(result(of, outputs))


def test_a_run_that_missed_is_at_least_what_it_had_spent() -> None:
    """Ours take 10 rounds; of theirs, of the same cost, two take 18 and 16, and one not even 20 does."""
    found = runs({OURS: [(1.0, 10)] * 3, THEIRS: [(1.0, 18), (1.0, None), (1.0, 16)]})
    ours = found.compare("cost_to_target", [((OURS, {}), (THEIRS, {}))])
    assert ours.estimate is not None
    bounds = estimate([math.log(10 / 18), math.log(10 / 20), math.log(10 / 16)])
    assert bounds is not None
    # A round of the two seeds in which both arrived, in the mean over three.
    assert ours.resolution == pytest.approx(2 / 3 * math.log(1.1))
    assert ours.estimate.high == pytest.approx(bounds.high + ours.resolution)
    assert ours.estimate.low == -math.inf
    assert ours.estimate.side_of(0.0) == -1  # whatever the one that missed would have taken
    theirs = found.compare("cost_to_target", [((THEIRS, {}), (OURS, {}))]).estimate
    assert theirs is not None
    assert theirs.interval == pytest.approx((-ours.estimate.high, math.inf))


def test_what_a_run_that_missed_had_spent_decides_nothing_for_it() -> None:
    """Theirs, at a tenth of the cost of a round, miss in one seed: no interval ends above."""
    found = runs({OURS: [(1.0, 10)] * 3, THEIRS: [(0.1, 10), (0.1, None), (0.1, 12)]})
    theirs = found.compare("cost_to_target", [((THEIRS, {}), (OURS, {}))]).estimate
    assert theirs is not None
    assert theirs.high == math.inf
    assert theirs.side_of(0.0) == 0


def test_a_run_that_diverged_at_once_has_no_bound() -> None:
    """It has spent nothing; whether the others are better is then not known to an interval."""
    of = experiment(
        policies=[OURS, THEIRS], quantities=["cost_to_target"], setting={"target_accuracy": 0.9}
    )

    def outputs(cell: Cell) -> dict[str, Any]:
        if cell.policy == THEIRS and cell.seed == 0:
            return {"rounds": [], "target_accuracy": 0.9, "plan_ms": [], "stopped": "diverged"}
        return trained(cell, cost_factor=1.0)

    made = Series(result(of, outputs))
    found = made.compare("cost_to_target", [((OURS, {}), (THEIRS, {}))])
    assert found.missed == (0, 1)
    assert found.estimate is not None
    assert found.estimate.interval is None


def test_means_over_rounds_are_compared_on_the_rounds_that_both_have() -> None:
    """Theirs stop after two rounds; ours go on, and break limits at a higher cost only then."""
    kept = [round_of(1.0), round_of(2.0)]
    records = {OURS: [*kept, round_of(9.0, feasible=False)], THEIRS: kept}
    of = experiment(policies=[OURS, THEIRS], quantities=["objective"])
    made = Series(result(of, lambda cell: {"rounds": records[cell.policy]}))
    for name in ("objective", "feasible_share", "clients"):
        found = made.compare(name, [((OURS, {}), (THEIRS, {}))], differences=name != "objective")
        assert found.by_seed == {0: 0.0, 1: 0.0, 2: 0.0}
    assert made.feasible_text("objective", [((OURS, {}), (THEIRS, {}))]) == ""
    assert made.feasible_share(OURS, [{}]) == pytest.approx(2 / 3)


def test_a_seed_that_wins_and_loses_by_infinity_says_nothing() -> None:
    never = {OURS: {80: math.inf, 100: 1.0}, THEIRS: {80: 1.0, 100: math.inf}}
    of = experiment(policies=[OURS, THEIRS], quantities=["cost_to_target"], axes=[AXIS])

    def outputs(cell: Cell) -> dict[str, Any] | None:
        return outputs_of("cost_to_target", never[cell.policy][cell.setting.scenario.clients])

    pairs = [((OURS, {"clients": n}), (THEIRS, {"clients": n})) for n in (80, 100)]
    found = Series(result(of, outputs)).compare("cost_to_target", pairs)
    assert (found.by_seed, found.runs, found.contradictory) == ({}, 6, True)
    assert found.obstacle == "targets missed on both sides"


def test_a_seed_that_wins_and_loses_by_infinity_is_not_left_out_silently() -> None:
    of = experiment(policies=[OURS, THEIRS], quantities=["cost_to_target"], axes=[AXIS])

    def outputs(cell: Cell) -> dict[str, Any] | None:
        missed = (OURS, 80), (THEIRS, 100)
        never = cell.seed == 0 and (cell.policy, cell.setting.scenario.clients) in missed
        return outputs_of("cost_to_target", math.inf if never else 1.0)

    pairs = [((OURS, {"clients": n}), (THEIRS, {"clients": n})) for n in (80, 100)]
    found = Series(result(of, outputs)).compare("cost_to_target", pairs)
    assert (found.by_seed, found.contradictory) == ({1: 0.0, 2: 0.0}, True)
    assert found.obstacle == "targets missed on both sides"


def test_there_is_no_ratio_to_nothing() -> None:
    found = compared({OURS: [1.0, 0.0], THEIRS: [0.0, 0.0]})
    assert (found.by_seed, found.runs) == ({1: 0.0}, 1)
    assert compared({OURS: [1.0], THEIRS: [0.0]}, differences=True).by_seed == {0: 1.0}


def test_failed_cells_are_as_if_never_run() -> None:
    found = Series(bars())
    point = {"weights": "delay"}
    assert sorted(found.values("cost_to_target", "client-sel-only", point)) == [0, 2, 3, 4]
    ratio = found.estimate("cost_to_target", "client-sel-only", point, "orig-prob-solver")
    assert ratio is not None
    assert ratio.count == 4


def test_a_run_that_was_ended_by_one_evaluation_has_not_missed_its_target() -> None:
    """Nobody knows when three in a row would have passed."""
    of = experiment(policies=[OURS], quantities=["cost_to_target"], setting={"rounds": 10})

    def values(rounds: int, **fields: Any) -> dict[int, float]:
        records = [round_of(accuracy=a) for a in [0.5] * (rounds - 1) + [0.95]]
        outputs = {"rounds": records, "target_accuracy": 0.9, **fields}
        return Series(result(of, lambda _: outputs)).values("cost_to_target", OURS, {})

    assert values(5) == {}
    assert values(10) == dict.fromkeys(range(3), math.inf)  # it went through all its rounds
    assert values(5, stopped="diverged") == dict.fromkeys(range(3), math.inf)


def feasible(shares: dict[str, float]) -> Series:
    """Ten rounds, of which this share keeps the limits."""
    of = experiment(policies=list(shares), measure="decisions", quantities=["objective"])

    def outputs(cell: Cell) -> dict[str, Any]:
        kept = round(10 * shares[cell.policy])
        return {"rounds": [round_of(feasible=n < kept) for n in range(10)], "plan_ms": None}

    return Series(result(of, outputs))


def test_costs_stand_beside_the_share_of_feasible_rounds() -> None:
    found = feasible({OURS: 1.0, THEIRS: 0.3})
    assert found.feasible_text("objective", [((OURS, {}), (THEIRS, {}))]) == (
        "feasible rounds: 100% against 30%"
    )
    assert found.feasible_text("decision_ms", [((OURS, {}), (THEIRS, {}))]) == ""
    assert (
        feasible({OURS: 1.0, THEIRS: 1.0}).feasible_text("objective", [((OURS, {}), (THEIRS, {}))])
        == ""
    )


def test_cells_of_the_same_inputs_have_the_same_settings() -> None:
    """Whatever axes the experiments call them by, and whichever code ran them."""
    other = {**AXIS, "name": "n", "values": [100, 120]}
    made = [
        Series(
            result(experiment(policies=[OURS], axes=[axis]), lambda _: outputs_of("objective", 1))
        )
        for axis in (AXIS, other)
    ]
    at_100 = [made[0].settings([(OURS, {"clients": 100})]), made[1].settings([(OURS, {"n": 100})])]
    assert len(at_100[0]) == 3
    assert at_100[0] == at_100[1]
    assert not made[0].settings([(OURS, {"clients": 80})]) & made[1].settings([(OURS, {"n": 120})])


def test_the_optimum_is_that_of_the_same_point_and_seed() -> None:
    made = groups()
    series = Series(made)
    point = {"p_min": 0.85}
    cells = {(c.policy, c.seed): c for c in made.cells if c.point == point}
    for seed, value in series.values("over_optimum", "fedcs", point).items():
        ours, best = (cells[policy, seed].outputs for policy in ("fedcs", "exact"))
        assert ours is not None
        assert best is not None
        pairs = zip(ours["rounds"], best["rounds"], strict=True)
        by_hand = [a["objective"] / b["objective"] for a, b in pairs]
        assert value == pytest.approx(sum(by_hand) / len(by_hand))
    assert series.estimate("over_optimum", "exact", point).mean == pytest.approx(1)  # type: ignore[union-attr]


def test_a_curve_is_the_mean_as_far_as_every_seed_goes() -> None:
    of = experiment(policies=["fedcs"], profiles={"quick": {"seeds": 2}})

    def outputs(cell: Cell) -> dict:  # type: ignore[type-arg]
        values = [0.1, 0.2, 0.3] if cell.seed == 0 else [0.3, 0.4, 0.5, 0.6, 0.7]
        return {"rounds": [round_of(accuracy=v) for v in values], "target_accuracy": None}

    curve = Series(result(of, outputs)).curve("fedcs", {})
    assert curve is not None
    assert curve.rounds == [1, 2, 3]
    assert curve.mean == pytest.approx([0.2, 0.3, 0.4])
    assert curve.half_width[0] == pytest.approx(12.7062047 * 0.1)
    assert curve.rests == [([3, 4, 5], [0.5, 0.6, 0.7])]


def test_a_curve_has_only_the_rounds_that_were_evaluated() -> None:
    of = experiment(policies=["fedcs"], profiles={"quick": {"seeds": 1}})
    values = [None, 0.2, None, 0.4]
    outputs = {"rounds": [round_of(accuracy=v) for v in values], "target_accuracy": None}
    curve = Series(result(of, lambda _: outputs)).curve("fedcs", {})
    assert curve is not None
    assert (curve.rounds, curve.mean, curve.half_width) == ([2, 4], [0.2, 0.4], [None, None])


def test_titles_name_the_data_set_that_ran() -> None:
    series = Series(curves())
    assert series.renamed("Accuracy on CIFAR-100's test set") == "Accuracy on CIFAR-10's test set"
    both = "CIFAR-100 is not at hand, CIFAR-10 runs"
    assert series.renamed(both) == both


def test_a_profile_with_another_data_set_is_named_too() -> None:
    of = experiment(
        setting={"dataset": "mnist"},
        profiles={"quick": {"seeds": 1, "setting": {"dataset": "mnist5k"}}},
    )
    series = Series(result(of, trained))
    assert series.renamed("On MNIST and Fashion-MNIST") == "On MNIST-5k and Fashion-MNIST"


def test_points_are_found_by_any_of_their_values() -> None:
    series = Series(bars())
    assert series.points_at({"weights": "energy"}) == [{"weights": "energy"}]
    assert len(series.points_at({})) == 3
    assert series.points_at({"weights": "none"}) == []
    assert [axis.name for axis in series.open_axes()] == ["weights"]
    assert series.open_axes({"weights": "energy"}) == []
