"""The experiment files against the paper's text: every table typed a second time, cell by cell."""

import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from stagewise_experiments.catalogue import load, load_all
from stagewise_experiments.cells import cells_of, points_of
from stagewise_experiments.experiment import Claim, Experiment, PaperValue
from stagewise_experiments.quantities import quantity

EXPERIMENTS = {experiment.id: experiment for experiment in load_all()}

TAIL = ("decision_ms_median", "decision_ms_max")

# The ids of the table of experiments, in its order.
IDS = [
    *(f"fig-accuracy-{name}" for name in ("mnist", "fashion-mnist", "cifar10", "cifar100")),
    "fig-cost-eua",
    *(f"fig-cost-set{number}" for number in (1, 2, 3, 4)),
    *(f"fig-time-set{number}" for number in (1, 2, 3, 4)),
    "fig-growth-decisions",
    "table-kld-dmin",
    "table-t-l",
    "fig-high-p",
    "fig-plan-a-time",
    "fig-growth-plans",
    "fig-replan",
    "fig-approximation",
    "table-risk-kld",
    "table-risk-data",
    "table-risk-11g",
    "table-accuracy-kld-cifar100",
    "table-accuracy-kld-tiny-imagenet",
    "fig-ali",
    "fig-optimality",
    "fig-causes-cost",
    "fig-causes-time",
    "fig-causes-accuracy",
    "fig-causes-edges",
    "fig-traces",
    "fig-to-target",
    "fig-to-target-cifar10",
    "fig-label-weights",
]

# The paper's tables in reading order: a header, then a row's name and its cells.
TABLE_III = """
        0.1       0.2       0.3       0.4       0.5
2000  18.09/23  11.02/23   9.65/22  11.29/27  11.89/28
2500  17.31/22   9.11/19  10.91/26  13.15/29  13.18/29
3000  16.53/21  10.09/20  14.18/30  17.48/35  21.75/47
4000  17.37/22  14.08/24  11.80/22  18.79/36  20.00/36
5000  16.58/21  14.75/22  14.36/23  14.73/23  15.52/25
"""
TABLE_IV = """
         1         2         3         4         5
 5   10.32/52  11.06/28   9.11/19  12.58/16  15.69/16
10   12.03/41  13.45/23  14.21/16  18.90/16  16.23/11
20   13.86/28  15.83/16  16.30/11  21.70/11  27.11/11
30   31.16/23  15.25/11  22.83/11  30.41/11  37.99/11
50   17.46/16  23.95/11  35.88/11  inf/inf   inf/inf
"""
DELTA = """
       0.1   0.2   0.3   0.4   0.5
0.15  0.31  0.29  0.26  0.24  0.23
0.20  0.36  0.32  0.31  0.32  0.29
0.25  0.37  0.34  0.31  0.32  0.28
0.30  0.38  0.33  0.30  0.28  0.29
0.35  0.41  0.37  0.35  0.34  0.33
"""
EPSILON = """
      2000  2500  3000  4000  5000
0.15  0.27  0.26  0.22  0.23  0.21
0.20  0.32  0.30  0.26  0.24  0.23
0.25  0.33  0.31  0.28  0.26  0.25
0.30  0.35  0.32  0.27  0.28  0.26
0.35  0.38  0.34  0.33  0.29  0.27
"""
CIFAR_100 = """
                    0.3    0.4    0.5    0.7    1.0
orig-prob-solver  55.12  47.77  43.27  36.49  35.34
stagewise-paper   54.37  46.43  43.66  36.38  35.41
"""
TINY_IMAGENET = """
                    0.3    0.5    0.7    1.0    1.5
orig-prob-solver  45.21  41.42  36.26  32.49  31.34
stagewise-paper   43.64  39.94  35.79  32.38  31.41
"""

# Percentages and times of the running text, in reading order: (experiment, quantity, policy,
# against, place, number as printed). Growth is against the place where it begins.
STAGEWISE, ORIGINAL = "stagewise-paper", "orig-prob-solver"
FIVE = ("kld-minimization", "client-sel-only", "c2e-assoc-only", "c2e-greedy-assoc", "fedcs")
LESS = FIVE[1:]
TEXT = [
    # "higher test accuracy by 3.12%, 7.11%, 3.03%, and 5.03%"; "0.34% lower"; "1.31% lower"
    *(
        ("fig-accuracy-mnist", "final_accuracy", STAGEWISE, other, {}, number)
        for other, number in zip(LESS, (3.12, 7.11, 3.03, 5.03), strict=True)
    ),
    ("fig-accuracy-mnist", "final_accuracy", STAGEWISE, ORIGINAL, {}, -0.34),
    ("fig-accuracy-mnist", "final_accuracy", STAGEWISE, FIVE[0], {}, -1.31),
    # "by 6.12%, 5.52%, 6.25% and 7.47% ... only 0.71% lower ... and 2.33% lower"
    *(
        ("fig-accuracy-cifar10", "final_accuracy", STAGEWISE, other, {}, number)
        for other, number in zip(LESS, (6.12, 5.52, 6.25, 7.47), strict=True)
    ),
    ("fig-accuracy-cifar10", "final_accuracy", STAGEWISE, ORIGINAL, {}, -0.71),
    ("fig-accuracy-cifar10", "final_accuracy", STAGEWISE, FIVE[0], {}, -2.33),
    # "13.2%, 47.6%, 25.4%, 66.3%, 32.0% and 73.2% increase"
    *(
        ("fig-cost-eua", "delay_to_target", policy, ORIGINAL, {"weights": "delay"}, number)
        for policy, number in zip(
            (STAGEWISE, *FIVE), (13.2, 47.6, 25.4, 66.3, 32.0, 73.2), strict=True
        )
    ),
    ("fig-cost-eua", "energy_to_target", STAGEWISE, ORIGINAL, {"weights": "energy"}, 3.0),
    ("fig-cost-eua", "cost_to_target", STAGEWISE, ORIGINAL, {"weights": "random"}, 5.9),
    # "improvements of up to 21.6%, 11.3%, 26.9%, and 17.9%, and 36.9%": reductions
    *(
        ("fig-cost-eua", "cost_to_target", STAGEWISE, other, {"weights": "random"}, -number)
        for other, number in zip(FIVE, (21.6, 11.3, 26.9, 17.9, 36.9), strict=True)
    ),
    # "a reduction in system cost by 7.7%, 10.26%, 19.5%, 22.2% and 32.6%"
    *(
        ("fig-cost-set1", "cost_to_target", STAGEWISE, other, {"clients": 80}, -number)
        for other, number in zip(FIVE, (7.7, 10.26, 19.5, 22.2, 32.6), strict=True)
    ),
    ("fig-time-set1", "decision_ms", "client-sel-only", None, {"clients": 75}, 600),
    ("fig-time-set1", "decision_ms", "client-sel-only", None, {"clients": 120}, 9_800),
    ("fig-time-set1", "decision_ms", "client-sel-only", {"clients": 75}, {"clients": 120}, 16.3),
    ("fig-time-set2", "decision_ms", ORIGINAL, None, {"edges": 3}, 10_440),
    ("fig-time-set2", "decision_ms", ORIGINAL, None, {"edges": 7}, 346_000),
    ("fig-time-set2", "decision_ms", ORIGINAL, {"edges": 3}, {"edges": 7}, 33.1),
    ("fig-time-set3", "decision_ms", FIVE[0], None, {"data_min": 2000}, 22_000),
    ("fig-time-set3", "decision_ms", FIVE[0], None, {"data_min": 5000}, 80_000),
    ("fig-time-set3", "decision_ms", STAGEWISE, None, {"data_min": 2000}, 24),
    ("fig-time-set3", "decision_ms", STAGEWISE, None, {"data_min": 5000}, 260),
    ("fig-time-set3", "decision_ms", FIVE[0], {"data_min": 2000}, {"data_min": 5000}, 3.64),
    ("fig-time-set3", "decision_ms", STAGEWISE, {"data_min": 2000}, {"data_min": 5000}, 10.8),
    ("fig-time-set4", "decision_ms", STAGEWISE, None, {"p_min": 0.7}, 12),
    *(
        ("fig-growth-decisions", "decision_ms", policy, {"edges": 3}, {"edges": 7}, 33.1)
        for policy in (f"{ORIGINAL}:back-tracking", f"{ORIGINAL}:back-tracking,steps=2000")
    ),
    # "losses of 26.5%, 39.4%, 33.6%, 23.2%, 28.0%"
    *(
        ("fig-high-p", "cost_to_target", STAGEWISE, ORIGINAL, {"p_min": p_min}, number)
        for p_min, number in zip(
            (0.75, 0.8, 0.85, 0.9, 0.95), (26.5, 39.4, 33.6, 23.2, 28.0), strict=True
        )
    ),
    ("fig-plan-a-time", "plan_s", "paper", None, {"clients": 75}, 8.3),
    ("fig-plan-a-time", "plan_s", "paper", None, {"clients": 120}, 855.8),
    ("fig-plan-a-time", "plan_s", "paper", {"clients": 75}, {"clients": 120}, 103.1),
    ("fig-growth-plans", "plan_s", "paper:back-tracking", {"clients": 75}, {"clients": 120}, 103.1),
    # "13.2%, 3.0%, and 6.0% in training delay, energy consumption, and overall cost"; "51ms"
    ("fig-replan", "delay_to_target", STAGEWISE, ORIGINAL, {"weights": "delay"}, 13.2),
    ("fig-replan", "energy_to_target", STAGEWISE, ORIGINAL, {"weights": "energy"}, 3.0),
    ("fig-replan", "cost_to_target", STAGEWISE, ORIGINAL, {"weights": "random"}, 6.0),
    ("fig-replan", "decision_ms", STAGEWISE, None, {}, 51),
    # "11.6% higher in terms of time and 9.6% higher in terms of energy"
    *(
        ("fig-approximation", name, STAGEWISE, ORIGINAL, {"data_min": 5000, "kld_max": 0.1}, number)
        for name, number in (("delay_to_target", 11.6), ("energy_to_target", 9.6))
    ),
    # "by 2.68%, 2.26%, 1.48%, and 3.29% ... only 1.12% and 1.59% lower"
    *(
        ("fig-ali", "final_accuracy", STAGEWISE, other, {"weights": "random"}, number)
        for other, number in zip(
            (*LESS, ORIGINAL, FIVE[0]), (2.68, 2.26, 1.48, 3.29, -1.12, -1.59), strict=True
        )
    ),
    # "a 5.3% loss ... outperforms ... by 19.6%, 21.0%, 18.9%, 24.6%, and 31.5%"
    *(
        ("fig-ali", "cost_to_target", STAGEWISE, other, {"weights": "random"}, number)
        for other, number in zip(
            (ORIGINAL, *FIVE), (5.3, -19.6, -21.0, -18.9, -24.6, -31.5), strict=True
        )
    ),
]

TABLES = [
    ("table-kld-dmin", TABLE_III, "data_min", "kld_max", STAGEWISE, {}),
    ("table-t-l", TABLE_IV, "local_steps", "edge_rounds", STAGEWISE, {}),
    ("table-risk-kld", DELTA, "kld_risk", "kld_max", "local-search", {"risk": "exact"}),
    ("table-risk-11g", EPSILON, "data_risk", "data_min", "local-search", {}),
]
ACCURACIES = [
    ("table-accuracy-kld-cifar100", CIFAR_100),
    ("table-accuracy-kld-tiny-imagenet", TINY_IMAGENET),
]


def rows(table: str) -> Iterator[tuple[str, str, str]]:
    """Row, column and cell of a table as typed above, in reading order."""
    head, *lines = table.strip().splitlines()
    for line in lines:
        name, *cells = line.split()
        yield from ((name, column, cell) for column, cell in zip(head.split(), cells, strict=True))


@pytest.mark.parametrize(("name", "table", "row", "column", "policy", "rest"), TABLES)
def test_tables_are_transcribed_cell_by_cell(
    name: str, table: str, row: str, column: str, policy: str, rest: dict[str, str]
) -> None:
    experiment = EXPERIMENTS[name]
    quantities = experiment.quantities[:2] if "/" in table else experiment.quantities[:1]
    typed = [
        (quantity_, policy, {row: float(r), column: float(c), **rest}, float(value))
        for r, c, cell in rows(table)
        for quantity_, value in zip(quantities, cell.split("/"), strict=True)
    ]
    filed = [(v.quantity, v.policy, v.at, v.value) for v in experiment.paper_values]
    assert filed == typed
    assert all(v.relative_to is None and v.minus is None for v in experiment.paper_values)


@pytest.mark.parametrize(("name", "table"), ACCURACIES)
def test_accuracies_are_transcribed_cell_by_cell(name: str, table: str) -> None:
    filed = [(v.policy, v.at["kld_max"], v.value) for v in EXPERIMENTS[name].paper_values]
    assert filed == [
        (policy, float(kld_max), pytest.approx(float(percent) / 100))
        for policy, kld_max, percent in rows(table)
    ]
    assert {v.quantity for v in EXPERIMENTS[name].paper_values} == {"final_accuracy"}


def test_numbers_of_the_text_are_transcribed() -> None:
    """All of them, and no number that neither the text nor a table has."""
    tabled = {name for name, *_ in TABLES} | {name for name, _ in ACCURACIES}
    filed = [
        (name, v.quantity, v.policy, v.relative_to or v.minus or v.growth_from, v.at, _printed(v))
        for name in IDS
        if name not in tabled
        for v in EXPERIMENTS[name].paper_values
    ]
    assert filed == [
        (name, quantity_, policy, against, at, pytest.approx(number))
        for name, quantity_, policy, against, at, number in TEXT
    ]


def _printed(value: PaperValue) -> float:
    """As the paper prints it: comparisons in percent."""
    return value.value * (100 if value.relative_to or value.minus else 1)


def test_growth_is_that_of_all_the_times_whose_both_ends_are_printed() -> None:
    """A quotient of two numbers of the same file, to three digits; other readings have it again."""
    for name, experiment in EXPERIMENTS.items():
        if name.startswith("fig-growth-"):
            continue
        times = [v for v in experiment.paper_values if v.quantity in ("decision_ms", "plan_s")]
        ends: dict[tuple[str, str], list[float]] = {}
        for time in times:
            if time.growth_from is None:
                ends.setdefault((time.quantity, time.policy), []).append(time.value)
        quotients = {place: pair[1] / pair[0] for place, pair in ends.items() if len(pair) == 2}
        grown = {(v.quantity, v.policy): v.value for v in times if v.growth_from is not None}
        assert grown == pytest.approx(quotients, rel=0.005)


def test_what_happens_in_some_cases_is_claimed_of_some() -> None:
    """Sec. V-D1: "worse than the ClientSelOnly and KLDMinimization in some cases"."""
    (claim,) = [c for e in EXPERIMENTS.values() for c in e.claims if c.somewhere]
    assert claim in EXPERIMENTS["fig-high-p"].claims
    assert set(claim.at_least) == {"c2e-greedy-assoc", "client-sel-only", "kld-minimization"}


def test_targets_that_table_iv_never_reaches_are_claimed() -> None:
    infinite = [v.at for v in EXPERIMENTS["table-t-l"].paper_values if math.isinf(v.value)]
    claimed = [c.at for c in EXPERIMENTS["table-t-l"].claims if c.missed]
    assert claimed == [{"local_steps": 50, "edge_rounds": rounds} for rounds in (4, 5)]
    assert all(at in infinite for at in claimed)


def test_costs_with_random_weights_are_drawn_as_ratios() -> None:
    """Their mean is that of the seeds whose weights make costs large."""
    for experiment in EXPERIMENTS.values():
        for panel in experiment.panels:
            if panel.where.get("weights") == "random" and quantity(panel.quantity).cost:
                assert panel.relative_to == ORIGINAL, experiment.id


def test_every_experiment_has_its_file() -> None:
    assert [experiment.id for experiment in load_all()] == IDS


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_values_are_of_a_possible_size(experiment: Experiment) -> None:
    """A percentage that was typed as a fraction, or the other way round, is out of range."""
    for value in experiment.paper_values:
        if value.minus is not None:
            assert quantity(value.quantity).share and abs(value.value) < 0.1
        elif value.relative_to is not None:
            assert -0.5 < value.value < 1
        elif quantity(value.quantity).share:
            assert 0.1 < value.value < 0.7
        else:
            assert value.value > 1
        assert value.relative_to is None or value.minus is None
        wanted = "higher" if "accuracy" in value.quantity else "lower"
        assert quantity(value.quantity).better == wanted, value


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_what_the_documentation_calls_incomparable_is_not_compared(experiment: Experiment) -> None:
    """Absolute times are not judged; costs are by a fit; more than OrigProbSolver is never better."""
    for value in experiment.paper_values:
        alone = not (value.relative_to or value.minus or value.growth_from)
        finite = alone and math.isfinite(value.value)
        # No plan keeps (11f) as printed: ours keep the true probability.
        other = value.quantity in ("decision_ms", "plan_s", "kld_violation")
        assert value.comparable != (finite and other), value
        to_target = finite and value.quantity == "cost_to_target"
        off_law = experiment.id == "table-t-l" and value.value in (9.11, 31.16)
        assert value.fitted == (to_target and not off_law), value
        # A plan that keeps the true probability is held to another limit than the paper's.
        # How a baseline's time grows is neither good nor bad, nor are fewer rounds of the paper's method
        # by a training that the paper does not describe.
        neither = bool(
            value.relative_to == ORIGINAL
            or experiment.measure == "risk"
            or value.growth_from
            or experiment.id in ("table-kld-dmin", "table-t-l")
        )
        assert value.better == ("neither" if neither else None), value


def test_times_of_plan_a_are_shown_where_they_are_measured_alone() -> None:
    shown = [name for name, e in EXPERIMENTS.items() if "plan_s" in e.quantities]
    assert shown == ["fig-plan-a-time", "fig-growth-plans"]


@pytest.mark.parametrize("name", ["kld", "data"])
def test_thresholds_of_risk_are_asked_of_the_worst_edge(name: str) -> None:
    claims = [c for c in EXPERIMENTS[f"table-risk-{name}"].claims if c.at.get("risk") != "markov"]
    asked = {(c.at["risk"], c.at[f"{name}_risk"]): (c.quantity, c.below) for c in claims}
    assert asked == {
        (risk, threshold): (f"{name}_violation_kept", pytest.approx(threshold + 0.03))
        for risk in ("exact", "sampled")
        for threshold in (0.15, 0.2, 0.25, 0.3, 0.35)
    }
    for claim in claims:
        assert claim.below is not None
        assert f"below {claim.below:g}" in claim.text


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_the_full_profile_measures_all_that_is_compared(experiment: Experiment) -> None:
    points = list(points_of(experiment, experiment.profiles["full"]))
    statements: list[PaperValue | Claim] = [*experiment.paper_values, *experiment.claims]
    for statement in statements:
        assert any(statement.at.items() <= point.items() for point in points), statement
        assert statement.policy in experiment.policies
        assert _can_be_measured(experiment, statement.quantity), statement
    assert all(_can_be_measured(experiment, name) for name in experiment.quantities)
    assert all(_can_be_measured(experiment, panel.quantity) for panel in experiment.panels)


def _can_be_measured(experiment: Experiment, name: str) -> bool:
    """Whether cells of this measure have the quantity at all."""
    cells = cells_of(experiment, "full", seeds=1)
    if name.endswith("_to_target"):
        return all(cell.setting.target_accuracy is not None for cell in cells)
    if name.endswith("_to_hard_target"):
        return "kld-minimization" in experiment.policies and all(
            not cell.setting.stop_at_target for cell in cells
        )
    if name == "over_optimum":
        return "exact" in experiment.policies
    known = {
        "decisions": {"decision_ms", "objective", "delay_s", "energy_j", "feasible_share", "kld"}
        | {"clients", "plan_s", *TAIL},
        "training": {
            "accuracy",
            "accuracy_after_30",
            "final_accuracy",
            "decision_ms",
            "objective",
            "delay_s",
        }
        | {
            "energy_j",
            "feasible_share",
            "clients",
            "plan_s",
            "clients_trained",
            "worst_tenth",
            *TAIL,
        },
        "planning": {"plan_s", "objective", "planned_feasible", "clients"},
        "risk": {"kld_violation", "data_violation", "kld_violation_worst", "data_violation_worst"}
        | {"kld_violation_kept", "data_violation_kept", "planned_feasible", "plan_s", "clients"}
        | {"data_violation_feasible"},
    }
    return name in known[experiment.measure]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_quick_is_a_part_of_the_paper_s_sweep_and_says_what_differs(experiment: Experiment) -> None:
    quick, full = experiment.profiles["quick"], experiment.profiles["full"]
    for axis in experiment.axes:
        assert set(quick.values.get(axis.name, axis.values)) <= set(axis.values)
        assert axis.name not in full.values
    ran, meant = (cells_of(experiment, name)[0].setting for name in ("quick", "full"))
    assert bool(quick.note) == (ran != meant or bool(quick.values))
    assert not re.search(r"\bseeds?\b|\bscenarios\b", quick.note + full.note)  # told by the page
    assert ran.dataset == meant.dataset
    if ran.rounds < meant.rounds:
        assert ("One round" if ran.rounds == 1 else str(ran.rounds)) in quick.note
    least = 3 if meant.dataset == "cifar10" else 5 if experiment.measure == "training" else 10
    assert full.seeds >= least


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_claims_have_a_source_or_are_ours(experiment: Experiment) -> None:
    for claim in experiment.claims:
        assert claim.ours != bool(claim.source), claim
        assert claim.policy not in (*claim.at_most, *claim.at_least)
    for value in experiment.paper_values:
        assert value.source and math.copysign(1, value.value)


def test_sweeps_share_the_cells_of_the_base_point() -> None:
    """The sets of Table II meet at 100 clients, 4 edges, 2500 samples and p from 0.5."""
    for kind, profile in product(("cost", "time"), ("quick", "full")):
        sets = [
            {cell.setting for cell in cells_of(EXPERIMENTS[f"fig-{kind}-set{number}"], profile)}
            for number in (1, 2, 3, 4)
        ]
        shared = set.intersection(*sets)
        seeds = EXPERIMENTS[f"fig-{kind}-set1"].profiles[profile].seeds
        assert len(shared) == 8 * seeds
        assert {setting.scenario.data_min for setting in shared} == {2500}


def test_the_example_of_the_documentation_is_a_valid_experiment(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    path = tmp_path / "sessions.toml"
    path.write_text(found[1])
    assert len(cells_of(load(str(path)), "quick")) == 3 * 2 * 2
