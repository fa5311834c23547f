"""The files of an experiment and the page over a folder of results."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from made_up_results import (
    ALL,
    bars,
    curves,
    decided,
    experiment,
    made_up,
    matrix,
    result,
    round_of,
    sweep,
    trained,
)

from stagewise.errors import StagewiseError
from stagewise_experiments.catalogue import load_all
from stagewise_experiments.document import Fold, Table, to_markdown
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.headline import cost_outcomes, gap, sentences
from stagewise_experiments.names import OURS
from stagewise_experiments.page import load_results, page_blocks, write_outputs, write_report
from stagewise_experiments.pictures import figure, headline
from stagewise_experiments.profile_page import profile_blocks
from stagewise_experiments.results import (
    FILE,
    UNFINISHED,
    CellResult,
    Result,
    load_result,
    save_result,
)
from stagewise_experiments.series import Series
from stagewise_experiments.table import judge, markdown_blocks
from stagewise_experiments.verdicts import KINDS

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """What a page is made of; every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.add(tag)
        self.ids += [named["id"] or ""] if "id" in named else []
        self.links += [named["href"] or ""] if "href" in named else []
        self.sources += [named["src"] or ""] if "src" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for make in (curves, bars, sweep, matrix):
        made = make()
        (folder / made.experiment.id).mkdir()
        save_result(made, folder / made.experiment.id / "result.json")
    return folder


@pytest.fixture(scope="module")
def report(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, outside of the results."""
    return write_report([results], tmp_path_factory.mktemp("docs") / "index.html")


def test_outputs_are_a_picture_twice_and_a_table(tmp_path: Path) -> None:
    paths = write_outputs(sweep(), tmp_path / "new")
    assert [path.name for path in paths] == ["picture.png", "picture.svg", "table.md"]
    assert all(path.stat().st_size for path in paths)
    assert sorted(tmp_path.joinpath("new").iterdir()) == sorted(paths)


def test_outputs_are_written_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise StagewiseError("no ink")

    monkeypatch.setattr(figure, "rendered", fail)
    with pytest.raises(StagewiseError, match="no ink"):
        write_outputs(sweep(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    page = Page(text)
    assert not {"link", "iframe", "img", "object"} & page.tags
    assert page.sources == []
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")
    assert len(page.ids) == len(set(page.ids))
    assert {link[:1] for link in page.links} == {"#"}
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(page.ids)
    assert text.count("<svg") == 4 + 1  # every experiment, and the costs that the page begins with
    assert list(report.parent.iterdir()) == [report]
    assert "width=device-width" in text
    assert "prefers-color-scheme: dark" in text


def test_every_experiment_is_linked_both_ways(results: Path, report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    table = text[text.index('class="lights"') : text.index("</table>")]
    assert 'id="quick-table"' in text
    for made in load_results([results]):
        anchor = f"quick-{made.experiment.id}"
        assert f'href="#{anchor}"' in table
        details = text[text.index(f'<div id="{anchor}"') :]
        assert 'href="#quick-table"' in details[: details.index("<svg")]


def test_the_table_has_every_figure_and_table(results: Path) -> None:
    judged = [judge(result) for result in load_results([results])]
    table = next(block for block in profile_blocks(judged) if isinstance(block, Table))
    known = {of.id for of in load_all()} | {one.result.experiment.id for one in judged}
    assert len(table.rows) == len(known)
    for light, _, what, theirs, ours, seeds in table.rows:
        assert re.fullmatch(r"\*\*[✓▲✗?≠–] (" + "|".join(KINDS) + r")\*\*", light)
        assert bool(theirs or ours) == bool(seeds) == what.startswith("[")
    for one in judged:
        row = next(r for r in table.rows if f"(#quick-{one.result.experiment.id})" in r[2])
        of_the_paper = [verdict.kind for _, verdict in one.values]
        of_the_paper += [verdict.kind for claim, verdict in one.claims if not claim.ours]
        ours = [verdict.kind for claim, verdict in one.claims if claim.ours]
        for column, kinds in ((3, of_the_paper), (4, ours)):
            told = re.findall(r"(\d+) ([a-z ]+)\*\*", row[column])
            assert {kind: int(number) for number, kind in told} == Counter(kinds)
        if "differs" in (of_the_paper or ours):
            assert row[0] == "**✗ differs**"


def test_the_sentences_count_what_was_judged(results: Path) -> None:
    judged = [judge(result) for result in load_results([results])]
    first, second, third = sentences(judged)
    kinds = [v.kind for one in judged for _, v in one.values]
    kinds += [v.kind for one in judged for c, v in one.claims if not c.ours]
    numbers = [int(number) for number in re.findall(r"\d+", first)]
    assert numbers[:2] == [len(kinds), len(judged)]
    assert numbers[3:] == [kinds.count(kind) for kind in KINDS if kind in kinds]
    assert second == "No method was compared with the certified optimum."
    outcomes = cost_outcomes(judged)
    assert [int(number) for number in re.findall(r"\d+", third)] == [
        outcomes.total(), *(outcomes[holds] for holds in (True, False, None) if outcomes[holds]),
    ]  # fmt: skip
    text = to_markdown(page_blocks(judged))
    assert first in text and third in text


def test_every_comparison_of_the_pool_s_cost_with_the_paper_s_methods_counts() -> None:
    """Whatever the page begins with; not what another policy costs, or by how much, or over whom."""
    asked = {"text": "", "quantity": "cost_to_target", "policy": OURS, "ours": True,
             "at_most": ["fedcs"]}  # fmt: skip
    others = [
        asked | {"policy": "fedcs", "at_most": ["orig-prob-solver"]},
        asked | {"at_most": ["oort"]},
        asked | {"margin": 0.5},
        asked | {"quantity": "rounds_to_target"},
        asked | {"at_most": ["orig-prob-solver"], "ours": False},
    ]
    of = experiment(
        policies=[OURS, "fedcs", "orig-prob-solver", "oort"], claims=[asked, *others],
        profiles={"quick": {"seeds": 5}}, setting={"target_accuracy": 0.5},
    )  # fmt: skip
    judged = judge(result(of, lambda cell: trained(cell, 40, 0.97, 1.0)))
    assert cost_outcomes([judged]).total() == 1
    one = msgspec.structs.replace(of, claims=of.claims[:1])
    alone = judge(msgspec.structs.replace(judged.result, experiment=one))
    assert cost_outcomes([judged]) == cost_outcomes([alone])


def test_the_gap_to_the_optimum_is_told_with_its_interval() -> None:
    of = next(of for of in load_all() if of.id == "fig-optimality")
    one = judge(made_up(of))
    found = gap(one.series, OURS)
    assert found is not None and found.interval is not None
    whole = one.series.estimate("over_optimum", OURS, {})
    assert whole is not None
    assert found.mean == pytest.approx(whole.mean - 1)
    told = sentences([one])[1]
    assert f"{100 * found.mean:.2f}%" in told and f"{100 * found.high:.1f}%" in told
    assert "in 3 scenarios" in told and "the closest method of the paper, OrigProbSolver" in told
    axes = headline.draw(one.series, headline.gaps).axes[0]
    low, high = axes.get_xlim()
    every = [gap(one.series, policy) for policy in one.series.policies]
    assert low < 0 and high > max(100 * e.high for e in every if e is not None)


def test_profiles_are_joined_with_a_switch(results: Path, tmp_path: Path) -> None:
    made = curves()
    quick = made.experiment.profiles["quick"]
    of = msgspec.structs.replace(made.experiment, profiles={"quick": quick, "full": quick})
    full = msgspec.structs.replace(made, experiment=of, profile="full")
    (tmp_path / "full" / of.id).mkdir(parents=True)
    save_result(full, tmp_path / "full" / of.id / "result.json")
    folders = [results, tmp_path / "full"]
    text = write_report(folders, tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert {"quick", "full", "show-quick", "show-full", f"quick-{of.id}", f"full-{of.id}"} <= set(
        page.ids
    )
    assert text.count('type="radio"') == 2 and text.count(" checked>") == 1
    assert "#show-full:checked ~ .profile:not(#full) { display: none; }" in text
    with pytest.raises(StagewiseError, match="of the same experiment and profile"):
        write_report([results, results], tmp_path / "page.html")


def test_the_markdown_twin_says_the_same(results: Path, tmp_path: Path) -> None:
    page = write_report([results], tmp_path / "README.md")
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures == ["quick/headline-cost.png"] + [
        f"quick/{name}/picture.png"
        for name in ("fig-accuracy-cifar100", "fig-cost-eua", "fig-sweep-decisions", "table-kld-dmin")
    ]  # fmt: skip
    assert all((tmp_path / path).is_file() for path in pictures)
    assert '<a id="quick-fig-cost-eua"></a>' in text
    assert "| our main targets | 0 | 0 | 0 | 1 | 0 | 0 | 1 |" in text
    assert "| other targets of ours | 0 | 0 | 0 | 1 | 0 | 0 | 1 |" in text
    again = write_report([tmp_path / "quick"], tmp_path / "again" / "README.md")
    assert again.read_text(encoding="utf-8") == text  # from the results beside the page


def test_what_is_not_finished_is_kept_beside_the_markdown_and_not_judged(tmp_path: Path) -> None:
    done = bars()
    begun = msgspec.structs.replace(done, cells=done.cells[:2])
    for name, some in ((FILE, done), (UNFINISHED, begun)):
        folder = tmp_path / "results" / name.partition(".")[0]
        folder.mkdir(parents=True)
        save_result(some, folder / name)
    page = write_report([tmp_path / "results"], tmp_path / "docs" / "README.md")
    place = page.parent / done.profile / done.experiment.id
    assert len(load_result(place / FILE).cells) == len(done.cells)
    kept = tmp_path / "results" / "unfinished" / UNFINISHED
    assert (place / UNFINISHED).read_bytes() == kept.read_bytes()


def test_the_summary_counts_every_verdict(results: Path) -> None:
    judged = [judge(result) for result in load_results([results])]
    printed, verdict = judged[0].values[0]
    judged[0].values[0] = (msgspec.structs.replace(printed, fitted=True), verdict)
    fold = next(b for b in profile_blocks(judged) if isinstance(b, Fold) and "counted" in b.title)
    (table,) = fold.blocks
    assert isinstance(table, Table)
    main, others, words, numbers, fitted = (list(map(int, row[1:])) for row in table.rows)
    assert main[-1] == others[-1] == 1
    assert words[-1] == 3
    assert numbers[-1] + 1 == sum(len(one.values) for one in judged) == 12
    assert fitted[-1] == fitted[list(KINDS).index(verdict.kind)] == 1
    for counts in (main, others, words, numbers, fitted):
        assert sum(counts[:-1]) == counts[-1]
    kinds = [verdict.kind for one in judged for _, verdict in one.values]
    assert list(table.head[1:-1]) == list(KINDS)
    both = zip(numbers[:-1], fitted[:-1], strict=True)
    assert [a + b for a, b in both] == [kinds.count(kind) for kind in KINDS]
    assert kinds.count("not comparable") == 1  # the stand-in's


def test_comparisons_of_a_target_are_counted_over_experiments() -> None:
    """One seed decides nothing, and what cannot be judged is no comparison at all."""
    made = []
    for seeds, comparable in ((1, True), (2, True), (3, False)):
        size = {"seeds": seeds, "note": "Few rounds.", "comparable": comparable}
        target = {"text": "It learns", "quantity": "final_accuracy", "policy": "fedcs",
                  "above": 0.5, "ours": True, "headline": True}  # fmt: skip
        of = experiment(
            id=f"made-up-{seeds}", profiles={"quick": size}, claims=[target],
            setting={"scenario": {"clients": 50 + seeds}},
        )  # fmt: skip
        made.append(judge(result(of, trained)))
    text = to_markdown(page_blocks(made))
    assert "It learns. (holds in 1, undecided in 1 of 2 comparisons)" in text
    line = next(part for part in text.split("<br>") if "**" in part[:2] and "made-up-3" in part)
    assert line.startswith("**not comparable** [made-up-3](#quick-made-up-3): ")
    assert re.search(r": [\d.]+% ± [\d.]+. Few rounds\.", line)


def test_a_point_that_several_sets_share_is_counted_once() -> None:
    """As the base point of the paper's four sets: two sweeps of three points have five."""
    target = {"text": "It is fast", "quantity": "decision_ms", "policy": "pool-flexible",
              "at_most": ["fedcs"], "ours": True, "headline": True}  # fmt: skip
    axes = {
        "clients": {"field": "scenario.clients", "values": [80, 100, 120]},
        "edges": {"field": "scenario.edges", "values": [3, 4, 5]},
    }
    made = [
        result(
            experiment(
                id=name, measure="decisions", quantities=["decision_ms"], claims=[target],
                policies=["pool-flexible", "fedcs"], axes=[{"name": name, "label": name, **axis}],
                panels=[{"form": "sweep", "title": "", "quantity": "decision_ms", "x": name}],
            ),
            decided,
        )
        for name, axis in axes.items()
    ]  # fmt: skip
    judged = [judge(one) for one in made]
    text = to_markdown(page_blocks(judged))
    assert "It is fast. (holds in 5 of 5 comparisons)" in text
    assert text.count("holds in 3 of 3 comparisons") >= 2
    assert "30 cells in 2 experiments" in text  # 5 points, 2 policies, 3 seeds


def test_of_our_other_targets_those_that_were_missed_are_listed() -> None:
    targets = [
        {
            "text": text,
            "quantity": "final_accuracy",
            "policy": "fedcs",
            "above": level,
            "ours": True,
        }
        for text, level in (("It learns", 0.5), ("It learns all", 1.0))
    ]
    text = to_markdown(page_blocks([judge(result(experiment(claims=targets), trained))]))
    summary = text[: text.index("### Details")]
    assert "Other targets of ours that were missed" in summary
    assert "- It learns all." in summary
    assert "- It learns." not in summary


def test_the_command_is_the_one_that_makes_the_result() -> None:
    made = result(experiment(id="mine", profiles={"quick": {"seeds": 2}}), trained)
    fewer = msgspec.structs.replace(made, cells=[c for c in made.cells if c.seed == 0])
    assert "`stagewise experiment run mine.toml --profile quick`" in to_markdown(
        page_blocks([judge(made)])
    )
    assert "`stagewise experiment run mine.toml --profile quick --seeds 1`" in to_markdown(
        page_blocks([judge(fewer)])
    )


def test_the_rules_name_every_verdict(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    for kind in KINDS:
        assert f">{kind.capitalize()}</b>: " in text


def in_regime(made: Result, regime: str) -> Result:
    def changed(cell: CellResult) -> CellResult:
        scenario = msgspec.structs.replace(cell.setting.scenario, regime=regime)
        setting = msgspec.structs.replace(cell.setting, scenario=scenario)
        return msgspec.structs.replace(cell, setting=setting)

    return msgspec.structs.replace(made, cells=[changed(cell) for cell in made.cells])


def test_the_page_says_which_regime_costs_are_in() -> None:
    told = to_markdown(profile_blocks([judge(bars()), judge(curves())]))
    fitted = "the calibrated regime, fitted to the paper's Tables III and IV and to one curve"
    assert f"Costs are in {fitted} (`--regime`): see" in told
    both = [judge(in_regime(bars(), "literal")), judge(curves())]
    assert (
        f"Costs are in {fitted} "
        "(fig-accuracy-cifar100) and in the literal regime, as the paper's text reads "
        "(fig-cost-eua) (`--regime`): see docs/calibration.md."
    ) in to_markdown(profile_blocks(both))


def test_a_page_whose_name_ends_in_md_is_markdown(tmp_path: Path) -> None:
    made = sweep()
    (tmp_path / made.experiment.id).mkdir()
    save_result(made, tmp_path / made.experiment.id / "result.json")
    page = write_report([tmp_path], tmp_path / "index.md")
    assert page.read_text(encoding="utf-8").startswith("# Stagewise")
    folder = tmp_path / "quick" / made.experiment.id
    assert sorted(path.name for path in folder.iterdir()) == [
        "picture.png", "picture.svg", "result.json", "table.md",
    ]  # fmt: skip


def test_results_of_older_versions_are_read(tmp_path: Path) -> None:
    """Without the fields of today, and with runs that ended at one evaluation above the target."""
    of = experiment(
        quantities=["cost_to_target"], setting={"target_accuracy": 0.9},
        claims=[{"text": "It is cheap", "quantity": "cost_to_target", "policy": "fedcs",
                 "at_most": ["pool-flexible"]}],
        paper_values=[{"quantity": "cost_to_target", "policy": "fedcs", "value": 3.0}],
    )  # fmt: skip
    records = [round_of(accuracy=accuracy) for accuracy in (0.5, 0.7, 0.95)]
    made = result(of, lambda _: {"rounds": records, "plan_ms": [], "target_accuracy": 0.9})
    path = tmp_path / of.id / "result.json"
    path.parent.mkdir()
    path.write_bytes(
        msgspec.json.encode({**msgspec.to_builtins(made), "format": "stagewise-result/1"})
    )
    text = write_report([tmp_path], tmp_path / "index.md").read_text(encoding="utf-8")
    assert (
        "**not comparable** It is cheap (the paper). Ended before 3 evaluations could pass." in text
    )


def test_our_targets_come_before_the_paper_s_claims(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    parts = ("All figures and tables</h3>", "Our main targets", "Details</h3>", "Machine and")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    for told in ("Test CPU, 2 cores, 8 GB", "torch 2.13.0", "0123456789abcdef", "one seed (0)"):
        assert told in text
    assert "30 rounds of a small network." in text


def test_experiments_stand_in_their_order_and_groups_together(tmp_path: Path) -> None:
    for make in reversed(ALL):
        made = make()
        (tmp_path / made.experiment.id).mkdir()
        save_result(made, tmp_path / made.experiment.id / "result.json")
    found = [result.experiment for result in load_results([tmp_path])]
    assert [e.order for e in found] == sorted(e.order for e in found)
    groups = [e.group for e in found]
    assert len([g for n, g in enumerate(groups) if n == 0 or groups[n - 1] != g]) == len(
        set(groups)
    )


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StagewiseError, match=r"must hold folders with a result\.json"):
        write_report([tmp_path], tmp_path / "index.html")


@pytest.mark.parametrize("of", load_all(), ids=lambda of: of.id)
def test_every_experiment_can_be_drawn_and_told(of: Experiment) -> None:
    made = made_up(of)
    points = Series(made).points
    wanted = [p for p in of.panels if any(p.where.items() <= point.items() for point in points)]
    assert len(figure.draw(made).axes) >= len(wanted) >= 1
    judged = judge(made)
    assert to_markdown(markdown_blocks(judged)).count("**") % 2 == 0
    verdicts = [verdict for _, verdict in (*judged.values, *judged.claims)]
    assert all(v.why for v in verdicts if v.kind in ("undecided", "not comparable", "not run"))
    assert all(v.ours for v in verdicts if v.kind != "not run")
    assert any(v.kind != "not run" for v in verdicts)
