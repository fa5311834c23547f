"""What the pictures show: labels and the data of lines, bars and cells, not pixels."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_results import (
    POLICIES,
    Outputs,
    bars,
    curves,
    experiment,
    groups,
    made_up,
    matrix,
    result,
    round_of,
    sweep,
    trained,
)
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from msgspec import structs

import stagewise
from stagewise.errors import StagewiseError
from stagewise.report.style import METHODS, style_of
from stagewise_experiments.catalogue import load_all
from stagewise_experiments.cells import Cell
from stagewise_experiments.experiment import Experiment, Panel
from stagewise_experiments.names import POLICY_NAMES, policy_name
from stagewise_experiments.pictures.axes import at_chance, whisker
from stagewise_experiments.pictures.figure import draw, picture_files
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series
from stagewise_experiments.statistics import Estimate


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The x and y of labelled lines, those with intervals among them."""
    handles, names = axes.get_legend_handles_labels()
    found = {}
    for handle, name in zip(handles, names, strict=True):
        line = handle if hasattr(handle, "get_ydata") else handle[0]
        found[name] = (list(line.get_xdata()), list(line.get_ydata()))
    return found


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_curves_are_the_means_over_seeds() -> None:
    made = curves()
    (axes,) = draw(made).axes
    found = lines(axes)
    assert set(found) == {policy_name(policy) for policy in POLICIES}
    for policy in POLICIES:
        curve = Series(made).curve(policy, {})
        assert curve is not None
        assert found[policy_name(policy)] == (curve.rounds, curve.mean)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "test accuracy")
    assert axes.get_title(loc="left") == "CIFAR-10"


def test_a_curve_ends_where_runs_end_and_shows_the_target() -> None:
    of = experiment(policies=["fedcs"], setting={"target_accuracy": 0.9})
    made = result(of, lambda cell: trained(cell, level=0.96 + 0.01 * cell.seed))
    (axes,) = draw(made).axes
    curve = Series(made).curve("fedcs", {})
    assert curve is not None
    assert lines(axes)["FedCS"][0][-1] == curve.rounds[-1] < 30
    thin = [line for line in axes.lines if line.get_linewidth() == 0.8]
    assert len(thin) == len(curve.rests) > 0
    assert texts(axes) == ["target 90%"]


def test_bars_have_their_means_and_the_reference_line() -> None:
    made = bars()
    delay, _, _, decision = draw(made).axes
    series = Series(made)
    names = [label.get_text() for label in delay.get_yticklabels()]
    assert names == [policy_name(policy) for policy in POLICIES]
    means = {
        policy: series.estimate("delay_to_target", policy, {"weights": "delay"})
        for policy in POLICIES
    }
    widths = {round(patch.get_y() + 0.33): patch.get_width() for patch in delay.patches}
    for row, policy in enumerate(POLICIES):
        found = means[policy]
        assert found is not None
        if not found.missed:
            assert widths[row] == pytest.approx(found.mean)
    (reference,) = [line for line in delay.lines if line.get_linestyle() == "--"]
    assert reference.get_xdata()[0] == means["orig-prob-solver"].mean  # type: ignore[union-attr]
    assert "not reached" in texts(delay)
    assert "not reached in 2 of 5" in texts(delay)
    assert decision.get_xscale() == "log"
    assert delay.get_xlabel() == "delay to target (s)"


def test_sweeps_are_the_means_at_every_value() -> None:
    made = sweep()
    (axes,) = draw(made).axes
    series = Series(made)
    for policy in POLICIES:
        places, means = lines(axes)[policy_name(policy)]
        assert places == [75, 80, 90, 100, 120]
        assert means == [
            series.estimate("decision_ms", policy, {"clients": c}).mean  # type: ignore[union-attr]
            for c in places
        ]
    assert axes.get_yscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("clients", "decision time (ms)")


def test_a_target_not_reached_is_a_mark_at_the_top() -> None:
    made = sweep("cost_to_target", False, "training")
    (axes,) = draw(made).axes
    _, fedcs = lines(axes)["FedCS"]
    assert [math.isnan(y) for y in fedcs] == [False, False, False, True, True]
    marks = [line for line in axes.lines if line.get_markerfacecolor() == "#ffffff"]
    assert sorted({line.get_xdata()[0] for line in marks}) == [100, 120]
    assert len(marks) == 4
    line = max(line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 2)
    named = dict(
        zip(axes.get_yticks(), (t.get_text() for t in axes.get_yticklabels()), strict=True)
    )
    assert [text for tick, text in named.items() if tick > line] == ["not always\nreached"]
    numbers = [text for tick, text in named.items() if tick <= line]
    assert len(numbers) > 2 and all(float(text.replace(",", "")) >= 0 for text in numbers)


def test_sweeps_relative_to_a_policy_pair_the_seeds() -> None:
    made = groups()
    _, relative, optimum = draw(made).axes
    assert lines(relative)["OrigProbSolver"][1] == [1, 1, 1]
    found = Series(made).estimate("objective", "fedcs", {"p_min": 0.75}, "orig-prob-solver")
    assert found is not None
    assert lines(relative)["FedCS"][1][0] == found.mean
    assert relative.get_ylabel() == "cost of a round, parts of OrigProbSolver's"
    assert min(lines(optimum)["certified optimum"][1]) == 1


def test_intervals_of_ratios_are_those_of_their_logarithms() -> None:
    """Not as far below the mean as above it."""
    made = groups()
    axes = draw(made).axes[1]
    low, high = (
        Series(made)
        .estimate("objective", "fedcs", {"p_min": 0.75}, relative_to="orig-prob-solver")
        .interval
    )  # type: ignore[union-attr, misc]
    drawn = next(c for c in axes.containers if c.get_label() == "FedCS")
    bottom, top = drawn[2][0].get_segments()[0][:, 1]
    assert (bottom, top) == pytest.approx((low, high))


def test_methods_that_break_limits_are_labelled_where_costs_are_drawn() -> None:
    def outputs(cell: Cell) -> Outputs:
        kept = cell.policy != "fedcs"
        return {"rounds": [round_of(feasible=kept), round_of(feasible=True)], "plan_ms": None}

    def labels(quantity: str) -> list[str]:
        panel = {"form": "sweep", "title": "", "quantity": quantity, "x": "p_min"}
        axis = {"name": "p_min", "field": "scenario.p_min", "label": "p", "values": [0.5, 0.6]}
        of = experiment(
            policies=["pool-flexible", "fedcs"], measure="decisions", axes=[axis], panels=[panel]
        )
        return [text.get_text() for text in draw(result(of, outputs)).legends[0].texts]

    assert labels("objective") == ["pool (ours)", "FedCS (50% feasible)"]
    assert labels("decision_ms") == ["pool (ours)", "FedCS"]


def test_groups_of_bars_stand_along_their_axis() -> None:
    made = groups()
    axes = draw(made).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.75", "0.85", "0.95"]
    assert len(axes.patches) == 3 * 9
    assert axes.get_ylim()[0] == 0


def test_a_matrix_shows_ours_and_the_paper_s() -> None:
    made = matrix()
    cost, rounds = draw(made).axes
    values = cost.images[0].get_array()
    found = Series(made).estimate(
        "cost_to_target", "stagewise-paper", {"data_min": 2500, "kld_max": 0.2}
    )
    assert found is not None
    assert values[1, 1] == found.mean
    assert f"{found.mean:.1f}\n(9.11)" in texts(cost)
    assert math.isnan(float(values.data[2, 4]))
    assert "not reached" in texts(cost)
    assert "not reached\n1 of 2" in texts(rounds)
    assert [t.get_text() for t in cost.get_yticklabels()] == [
        "2,000",
        "2,500",
        "3,000",
        "4,000",
        "5,000",
    ]


def test_a_matrix_without_a_policy_has_a_row_for_each() -> None:
    of = experiment(
        policies=["pool-flexible", "fedcs"],
        axes=[{"name": "edges", "field": "scenario.edges", "label": "", "values": [3, 4, 5]}],
        panels=[
            {"form": "matrix", "title": "", "quantity": "objective", "x": "edges",
             "relative_to": "pool-flexible"},
        ],
    )  # fmt: skip
    made = result(of, lambda c: {"rounds": [round_of(3.0 if c.policy == "fedcs" else 2.0)]})
    (axes,) = draw(made).axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["pool (ours)", "FedCS"]
    shown = axes.images[0].get_array()
    assert shown is not None
    assert shown.tolist() == [[pytest.approx(1)] * 3, [pytest.approx(1.5)] * 3]
    assert texts(axes) == ["1.00"] * 3 + ["1.50"] * 3


def test_panels_of_one_quantity_share_their_colours() -> None:
    panel = {
        "form": "matrix",
        "title": "",
        "quantity": "final_accuracy",
        "x": "kld_max",
        "y": "edges",
    }
    of = experiment(
        policies=["pool-flexible", "fedcs"],
        axes=[
            {"name": "kld_max", "field": "scenario.kld_max", "label": "", "values": [0.1, 0.2]},
            {"name": "edges", "field": "scenario.edges", "label": "", "values": [3, 4]},
        ],
        panels=[{**panel, "policy": "pool-flexible"}, {**panel, "policy": "fedcs"}],
    )
    first, second = draw(
        result(of, lambda c: trained(c, 5, 0.5 if c.policy == "fedcs" else 0.9))
    ).axes
    assert first.images[0].get_clim() == second.images[0].get_clim()


def test_a_policy_looks_the_same_everywhere() -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for made in (curves(), sweep(), groups()):
        for axes in draw(made).axes:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                line = handle if hasattr(handle, "get_ydata") else handle[0]
                if hasattr(line, "get_marker"):
                    seen.setdefault(name, set()).add((to_hex(line.get_color()), line.get_marker()))
    assert all(len(looks) == 1 for looks in seen.values())
    assert seen["pool (ours)"] == {(style_of("pool-flexible").colour, "*")}
    assert len({next(iter(looks)) for looks in seen.values()}) == len(seen)


def test_the_note_says_what_ran() -> None:
    notes = [text.get_text() for text in draw(curves()).texts]
    assert notes[0] == "Test accuracy by round, CIFAR-10"
    assert notes[1] == "quick profile, CIFAR-10; mean and 95% interval over 3 seeds (0-2)"
    assert (
        draw(matrix())
        .texts[1]
        .get_text()
        .endswith("mean over 2 seeds (0-1); in brackets, the paper's")
    )


def test_wide_intervals_do_not_press_the_means_together() -> None:
    of = experiment(
        policies=["fedcs", "exact"], measure="decisions", profiles={"quick": {"seeds": 2}},
        axes=[{"name": "edges", "field": "scenario.edges", "label": "edges", "values": [3, 4]}],
        panels=[{"form": "sweep", "title": "", "quantity": "decision_ms", "x": "edges", "log": log}
                for log in (False, True)],
    )  # fmt: skip
    times = {"fedcs": (1.0, 3.0), "exact": (5.0, 5.0)}
    made = result(
        of, lambda c: {"rounds": [{"decision_ms": times[c.policy][c.seed]}], "plan_ms": None}
    )
    plain, logarithmic = draw(made).axes
    assert plain.get_ylim()[1] < 10 < 2 + 12.7
    assert 0.5 < logarithmic.get_ylim()[0] < 2


def test_a_panel_that_leaves_an_axis_open_is_refused() -> None:
    of = experiment(
        axes=[{"name": "edges", "field": "scenario.edges", "label": "edges", "values": [3, 4]}],
        panels=[{"form": "bars", "title": "Cost", "quantity": "objective"}],
    )
    with pytest.raises(
        StagewiseError, match=r"made-up: panel 'Cost': where = \{\}: must leave one point"
    ):
        draw(result(of, trained))


@pytest.mark.parametrize("make", [curves, matrix])
def test_the_same_result_gives_the_same_files(make: Callable[[], Result]) -> None:
    made = make()
    files = picture_files(made)
    assert files == picture_files(made)
    assert b"<dc:date>" not in files["picture.svg"]
    png = files["picture.png"]
    assert png[:4] == b"\x89PNG"
    width = int.from_bytes(png[16:20])
    assert width >= 7 * 150


@pytest.mark.parametrize("make", [curves, bars, sweep, matrix, groups])
def test_nothing_measured_is_still_a_picture(make: Callable[[], Result]) -> None:
    made = result(make().experiment, lambda _: None)
    figure = draw(made)
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert not axes.axison or axes.images


def intervals(series: Series, panel: Panel) -> list[Estimate]:
    """All that the panel has to show."""
    policies = [panel.policy] if panel.policy else series.policies
    found = [
        series.estimate(panel.quantity, policy, point, panel.relative_to)
        for policy in policies
        for point in series.points_at(panel.where)
        if not at_chance(series, panel, policy, point)
    ]
    return [e for e in found if e is not None and not e.missed]


@pytest.mark.parametrize("of", load_all(), ids=lambda of: of.id)
def test_axes_hold_every_interval_and_no_whisker_has_a_cap(of: Experiment) -> None:
    few = {name: structs.replace(size, seeds=2) for name, size in of.profiles.items()}
    made = made_up(structs.replace(of, profiles=few))
    series = Series(made)
    panels = [panel for panel in of.panels if series.points_at(panel.where)]
    for axes, panel in zip(draw(made).axes, panels, strict=False):
        if panel.form in ("bars", "sweep"):
            rows = panel.form == "bars" and panel.x is None
            low, high = axes.get_xlim() if rows else axes.get_ylim()
            for found in intervals(series, panel):
                ends = whisker(found, panel.log) or (found.mean,)
                assert low <= min(ends) and max(ends) <= high
        for container in axes.containers:
            if hasattr(container, "has_yerr"):
                assert container[1] == ()


def test_on_a_log_axis_there_are_dots_and_no_bars() -> None:
    for made in (bars(), sweep()):
        for axes in draw(made).axes:
            logarithmic = "log" in (axes.get_xscale(), axes.get_yscale())
            assert bool(axes.patches) != logarithmic


def test_the_paper_s_number_is_drawn_where_it_is_printed() -> None:
    made = bars()
    axes = draw(made).axes[0]
    other = Series(made).estimate("delay_to_target", "orig-prob-solver", {"weights": "delay"})
    assert other is not None
    drawn = {
        round(line.get_ydata()[0]): line.get_xdata()[0]
        for line in axes.lines
        if line.get_marker() == "|"
    }
    assert drawn[1] == pytest.approx(1.132 * other.mean)
    assert drawn[3] == pytest.approx(1.476 * other.mean)
    (legend,) = draw(made).legends
    assert [t.get_text() for t in legend.texts] == ["the paper's increase, over our OrigProbSolver"]


def test_what_is_at_chance_level_is_not_drawn() -> None:
    def learned(levels: dict[str, float]) -> Axes:
        of = experiment(policies=["pool-flexible", "fedcs"], setting={"dataset": "cifar10"})
        return draw(result(of, lambda c: trained(c, level=levels[c.policy]))).axes[0]

    axes = learned({"pool-flexible": 0.9, "fedcs": 0.11})
    assert list(lines(axes)) == ["pool (ours)"]
    assert texts(axes) == ["Not drawn, at chance level (10%): FedCS"]
    axes = learned({"pool-flexible": 0.1, "fedcs": 0.11})
    assert lines(axes) == {}
    assert texts(axes) == ["No method is above chance level (10%) yet"]


def test_small_differences_have_an_inset() -> None:
    costs = dict(zip(POLICIES, (1.0, 1.01, 1.03, 1.06, 4.0, 5.0, 6.0, 7.0), strict=True))
    panel = {"form": "bars", "title": "", "quantity": "objective"}
    of = experiment(measure="decisions", quantities=["objective"], panels=[panel])
    axes = draw(result(of, lambda c: {"rounds": [round_of(costs[c.policy])]})).axes[0]
    (inset,) = axes.child_axes
    low, high = inset.get_xlim()
    assert low < 1.0 and 1.06 < high < 1.1
    assert draw(curves()).axes[0].child_axes


def test_methods_have_their_colours_in_one_place() -> None:
    """No other file of the packages, nor of the README's pictures, has a colour of a method."""
    root = Path(stagewise.__file__).parents[2]
    known = {style.colour for style in METHODS.values()}
    files = [*root.glob("src/**/*.py"), *root.glob("docs/*.py")]
    for path in files:
        if path.name in ("style.py", "html.py"):
            continue
        assert not known & set(re.findall(r"#[0-9a-f]{6}", path.read_text(encoding="utf-8")))
    assert len({style.colour for style in METHODS.values()}) == len(POLICY_NAMES) - 2
