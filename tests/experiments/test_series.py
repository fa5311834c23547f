"""Values by policy, point and seed; pairs recomputed by hand."""

import math

import pytest
from made_up_results import bars, curves, experiment, groups, result, round_of, trained

from stagewise_experiments.cells import Cell
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series, differences, increases, mean_by_seed, ratios


def costs(table: dict[str, list[float]]) -> Result:
    """A result with these costs of the single round, by policy and seed."""
    seeds = len(next(iter(table.values())))
    of = experiment(
        policies=list(table), measure="decisions", quantities=["objective"],
        profiles={"quick": {"seeds": seeds}},
    )  # fmt: skip
    return result(of, lambda c: {"rounds": [round_of(table[c.policy][c.seed])], "plan_ms": None})


def test_ratios_are_taken_seed_by_seed() -> None:
    table = {"pool-flexible": [1.0, 6.0, 3.0], "orig-prob-solver": [2.0, 3.0, 4.0]}
    series = Series(costs(table))
    found = series.estimate("objective", "pool-flexible", {}, relative_to="orig-prob-solver")
    assert found is not None
    assert found.mean == pytest.approx((0.5 + 2.0 + 0.75) / 3)  # not 10 / 9
    assert found.count == 3


def test_pairs_leave_out_seeds_that_say_nothing() -> None:
    ours = {0: 1.0, 1: math.inf, 2: 4.0, 3: 5.0, 5: 1.0}
    theirs = {0: 2.0, 1: 2.0, 2: math.inf, 4: 1.0, 5: 0.0}
    assert ratios(ours, theirs) == {0: 0.5, 1: math.inf}
    assert differences(ours, theirs) == {0: -1.0, 1: math.inf, 5: 1.0}


def test_increases_are_what_ratios_add() -> None:
    assert increases({0: 3.0, 1: math.inf}, {0: 2.0, 1: 1.0}) == {0: 0.5, 1: math.inf}


def test_a_seed_s_mean_is_over_what_has_it() -> None:
    assert mean_by_seed([{0: 1.0, 1: 2.0}, {0: 3.0}]) == {0: 2.0, 1: 2.0}
    assert mean_by_seed([]) == {}


def test_pairs_are_counted_with_those_that_say_nothing() -> None:
    """FedCS misses the target in two of five seeds, C2EAssocOnly always; one cell of another failed."""
    series, at = Series(bars()), {"weights": "delay"}
    name = "cost_to_target"
    missed = series.against(name, "fedcs", "orig-prob-solver", at, increases)
    assert (missed.all, missed.usable, missed.reached) == (5, 5, 3)
    assert sum(map(math.isinf, missed.by_seed.values())) == 2
    turned = series.against(name, "orig-prob-solver", "fedcs", at, increases)
    assert (turned.all, turned.usable, turned.reached) == (5, 3, 3)
    assert len(turned.by_seed) == 3
    never = series.against(name, "client-sel-only", "c2e-assoc-only", at, differences)
    assert (never.all, never.usable, never.reached, never.by_seed) == (4, 0, 0, {})
    everywhere = series.against(name, "fedcs", "orig-prob-solver", {}, increases)
    assert everywhere.all == 15


def test_failed_cells_are_as_if_never_run() -> None:
    series = Series(bars())
    point = {"weights": "delay"}
    assert sorted(series.values("cost_to_target", "client-sel-only", point)) == [0, 2, 3, 4]
    found = series.estimate("cost_to_target", "client-sel-only", point, "orig-prob-solver")
    assert found is not None
    assert found.count == 4


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
