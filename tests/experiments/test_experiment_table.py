"""The Markdown table: every number beside the paper's, claims below."""

import re
from collections.abc import Sequence

import msgspec
from made_up_results import (
    bars,
    curves,
    decided,
    experiment,
    made_up,
    matrix,
    result,
    sweep,
    trained,
)

from stagewise.report.html import inline_svg
from stagewise_experiments.document import (
    Bullets,
    Heading,
    Image,
    Table,
    Text,
    to_html,
    to_markdown,
)
from stagewise_experiments.quantities import estimate_text
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series
from stagewise_experiments.table import judge, markdown_blocks, run_text, table_blocks


def markdown(of: Result) -> str:
    return to_markdown(markdown_blocks(judge(of)))


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables, rules aside."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in found if not all(re.fullmatch("-+:?", cell) for cell in row)]


def test_a_row_for_every_policy_at_every_point() -> None:
    made = bars()
    head, *lines = rows(markdown(made))
    assert head == [
        "weights", "policy", "delay to target (s)", "cost to target", "decision time (ms)",
        "feasible rounds (%)", "the paper's", "verdict",
    ]  # fmt: skip
    assert len(lines) == 3 * 8
    series = Series(made)
    for line, (weights, policy) in zip(
        lines, ((w, p) for w in ("delay", "energy", "random") for p in series.policies), strict=True
    ):
        assert line[0] == weights
        found = series.estimate("cost_to_target", policy, {"weights": weights})
        assert found is not None
        assert line[3] == estimate_text(found)


def test_the_paper_s_value_and_the_verdict_stand_in_its_row() -> None:
    lines = {tuple(line[:2]): line[-2:] for line in rows(markdown(bars()))}
    paper, verdict = lines["delay", "KLDMinimization"]
    assert paper == "delay to target: +47.6% over OrigProbSolver"
    number = r"\+[\d.]+%"
    assert re.fullmatch(rf"\*\*undecided\*\* \(ours {number} \({number} to {number}\)\)", verdict)
    assert lines["energy", "KLDMinimization"] == ["", ""]
    missed = "target missed in 2 of 5 runs against 0 of OrigProbSolver's"
    spent = f"in the others {number}; {number} or more by what was spent"
    assert re.fullmatch(
        rf"\*\*undecided\*\* \(ours {missed}; {spent}\)", lines["delay", "FedCS"][1]
    )


def test_an_experiment_without_axes_shows_the_paper_s_numbers() -> None:
    """Its only point is {}, which is not the same as no point."""
    value = {
        "quantity": "final_accuracy",
        "policy": "fedcs",
        "minus": "pool-flexible",
        "value": 0.01,
    }
    of = experiment(policies=["fedcs", "pool-flexible"], paper_values=[value])
    head, fedcs, pool = rows(markdown(result(of, trained)))
    assert head[-2:] == ["the paper's", "verdict"]
    assert fedcs[-2] == "+1 points against pool (ours)"
    assert fedcs[-1].startswith("**")
    assert pool[-2:] == ["", ""]


def test_missed_targets_and_failed_cells_are_told() -> None:
    text = markdown(bars())
    assert "not reached in 2 of 5 (" in text
    assert "not reached in any of 5" in text
    assert "**Failed:** 3 of 120 cells" in text
    assert "the worker died" in text
    assert (
        "The target is 90% test accuracy, in the mean of 3 successive evaluations, and counts as not "
        "reached after 40 rounds." in text
    )


def test_one_seed_has_no_intervals_and_says_so() -> None:
    text = markdown(sweep())
    assert "one seed (0), so no intervals" in text
    assert "±" not in text


def test_claims_stand_below_with_their_verdicts() -> None:
    text = markdown(bars())
    ours, theirs = (
        line for line in text.splitlines() if line.startswith("- ") and "(" in line[:90]
    )
    assert ours.startswith(
        "- **undecided** The pool is at or below every method in cost to 90% (our target). Holds in"
    )
    assert ours.endswith("Why: the interval does not decide it.")
    assert theirs.startswith("- **agrees** StagewiseHFL decides in less than 100 ms (the paper)")


def test_reasons_stand_once() -> None:
    values = [
        {"quantity": "final_accuracy", "policy": policy, "value": 2.0, "why": "it learns little"}
        for policy in ("fedcs", "pool-flexible")
    ]
    text = markdown(result(experiment(paper_values=values), trained))
    assert text.count("it learns little") == 1
    assert "- **differs** 2 numbers: it learns little" in text


def test_costs_stand_beside_the_share_of_feasible_rounds() -> None:
    """Whether the file asks for it or not; once where it does."""
    for names, columns in (
        (["objective"], 1),
        (["objective", "feasible_share"], 1),
        (["decision_ms"], 0),
    ):
        of = experiment(measure="decisions", quantities=names)
        head = rows(markdown(result(of, decided)))[0]
        assert head.count("feasible rounds (%)") == columns
    of = experiment(measure="planning", policies=["pool"], quantities=["objective"])
    assert "feasible plans (%)" in rows(markdown(made_up(of)))[0]


def test_a_matrix_is_printed_as_the_paper_prints_it() -> None:
    text = markdown(matrix())
    lines = rows(text)
    heads = [line for line in lines if line[0] == "data_min \\ kld_max"]
    assert heads == [["data_min \\ kld_max", "0.1", "0.2", "0.3", "0.4", "0.5"]] * 2
    stagewise = lines[7:12]
    assert [line[0] for line in stagewise] == ["2,000", "2,500", "3,000", "4,000", "5,000"]
    ours, paper = stagewise[1][2].split("<br>")
    assert re.fullmatch(r"[\d.]+ ± [\d.]+ / [\d.]+ ± [\d.]+ / 100% ± 0", ours)
    assert paper.startswith("9.11 / 19 **")
    assert "not reached in any of 2 / not reached in any of 2" in stagewise[2][5]
    assert (
        "Entries: cost to target / rounds to target / feasible rounds (%); below, the paper's cost"
        in text
    )


def test_a_stand_in_is_named_wherever_the_data_set_is() -> None:
    text = markdown(curves())
    assert text.startswith("# Test accuracy by round, CIFAR-10, in place of CIFAR-100 (Fig. 2(d))")
    assert "Test accuracy of seven methods on CIFAR-10." in text
    assert "CIFAR-100 is not at hand; CIFAR-10 ran in its place" in text
    assert "are not compared with ours. It has fewer classes." in text
    assert "**not comparable**" in text
    assert "**not run**" not in text


def test_a_smaller_data_set_of_the_profile_s_own_is_compared_and_told() -> None:
    told = "ours, compared with them, are those of MNIST-5k."
    value = {
        "quantity": "final_accuracy",
        "policy": "fedcs",
        "minus": "pool-flexible",
        "value": 0.5,
    }
    profile = {"seeds": 1, "note": "MNIST-5k.", "setting": {"dataset": "mnist5k"}}

    def text(dataset: str = "mnist", **size: bool) -> str:
        of = experiment(
            setting={"dataset": dataset}, policies=["fedcs", "pool-flexible"], paper_values=[value],
            profiles={"quick": {**profile, **size}},
        )  # fmt: skip
        return markdown(result(of, trained))

    assert (
        f"**Note on this size:** MNIST-5k. The paper's numbers are those of MNIST; {told}" in text()
    )
    assert told not in text("mnist5k")
    assert told not in text(comparable=False)


def timed(measure: str, *quantities: str, cpus: Sequence[str] = ("Writer",)) -> str:
    of = experiment(
        measure=measure, policies=["fedcs"], quantities=list(quantities),
        profiles={"quick": {"seeds": 1}},
    )  # fmt: skip
    made = result(of, lambda _: {"rounds": [], "plan_ms": 1.0})
    machines = [msgspec.structs.replace(made.machines[0], cpu=cpu) for cpu in cpus]
    return markdown(msgspec.structs.replace(made, machines=machines))


def test_a_table_by_itself_tells_the_code_and_the_machine() -> None:
    of = experiment(profiles={"quick": {"seeds": 1}})
    text = markdown(result(of, trained))
    assert "Code version 0123456789abcdef. Test CPU, 2 cores, 8 GB" in text


def test_times_name_the_machines_that_measured_them() -> None:
    assert "Times are those of one thread of Writer." in timed("decisions", "decision_ms")
    elsewhere = timed("decisions", "decision_ms", cpus=("A", "B", "A"))
    assert "Times are those of one thread of A and B." in elsewhere
    assert "Times" not in timed("decisions", "objective", cpus=("Writer", "A"))


def test_only_a_plan_that_is_measured_alone_has_one_thread() -> None:
    assert "one thread of Writer." in timed("planning", "plan_s")
    beside = timed("training", "decision_ms", "plan_s")
    assert "one thread of Writer, Plan A apart." in beside
    assert "Times are those of Writer." in timed("decisions", "plan_s")


def test_numbers_that_fit_no_row_have_a_table_of_their_own() -> None:
    of = experiment(
        axes=[{"name": "kld_max", "field": "scenario.kld_max", "label": "KLD", "values": [0.1, 0.2]}],
        paper_values=[
            {"quantity": "final_accuracy", "policy": "fedcs", "value": 0.5, "better": "higher"},
            {"quantity": "final_accuracy", "policy": "fedcs", "value": 0.9, "at": {"kld_max": 0.3}},
        ],
    )  # fmt: skip
    lines = rows(markdown(result(of, trained)))
    spread, absent = lines[-2:]
    assert spread[0] == "FedCS, final test accuracy"
    assert spread[2:] == ["50%", "**better**"]
    assert absent == ["FedCS, final test accuracy, kld_max = 0.3", "–", "90%", "**not run**"]


def test_seeds_that_are_not_in_a_row_are_listed() -> None:
    made = curves()
    cells = [cell for cell in made.cells if cell.seed != 1]
    gap = Result(
        experiment=made.experiment, profile="quick", cells=cells, machines=made.machines,
        code_version="", datasets=[],
    )  # fmt: skip
    assert run_text(gap).endswith("over 2 seeds (0, 2); the profile has 3")


def test_texts_cannot_break_the_page_or_the_table() -> None:
    blocks = [
        Heading("a < b", 2, "here"),
        Text("5 * 3 <script> [0.7, 1) and **bold** `x < y` [to](#here)"),
        Table(["a|b", "c"], [["1|2", "x\ny"]]),
        Bullets(["<b>"]),
        Image("a/p.png", 'say "no"'),
    ]
    svg = inline_svg(b'<svg id="p" fill=": #000000"/>', "q", 'say "no"')
    page = to_html("a & b", blocks, [], [], {"a/p.png": svg})
    assert page.count("<script>") == 1  # the page's own
    assert "3 &lt;script&gt;" in page
    assert "<title>a &amp; b</title>" in page
    assert '<h2 id="here">a &lt; b</h2>' in page
    assert (
        '[0.7, 1) and <b class="bold">bold</b> <code>x &lt; y</code> <a href="#here">to</a>' in page
    )
    assert "<td>x<br>y</td>" in page
    assert 'aria-label="say &quot;no&quot;" id="q-p" fill=": var(--ink)"' in page
    text = to_markdown(blocks)
    assert "| 1\\|2 | x<br>y |" in text
    assert "5 \\* 3 &lt;script>" in text
    assert '<a id="here"></a>' in text


def test_long_tables_are_folded() -> None:
    tables = [block for block in table_blocks(judge(sweep())) if isinstance(block, Table)]
    assert tables[0].folded == "Table, 40 rows"
    assert "<details><summary>Table, 40 rows</summary>" in markdown(sweep())
