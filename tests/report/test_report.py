"""The report: everything about the runs is on the page, and nothing is fetched from anywhere."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import msgspec

import stagewise
from stagewise.cli.main import main
from stagewise.decisions import DecisionRecord, EdgeRecord
from stagewise.errors import StagewiseError
from stagewise.report.figures import times_online, times_served
from stagewise.report.page import page
from stagewise.report.pictures import draw_pictures, save_pictures
from stagewise.report.rendering import rendered
from stagewise.report.style import colour, labels, line_styles, style_of
from stagewise.report.summary import sentence
from stagewise.runs.config import RunConfig
from stagewise.runs.records import RoundRecord
from stagewise.runs.run import Run
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Scenario

PICTURES = [
    *("accuracy-by-round", "accuracy-by-cost", "costs", "decision-time", "kld", "service", "map"),
]


def made_up_run(
    name: str, rounds: int = 6, seed: int = 0, edges: int = 3, scenario: Scenario | None = None
) -> Run:
    """A run whose history is made up; no training is needed to draw it."""
    world = stagewise.generate.numeric(20, edges, seed) if scenario is None else scenario
    rng = np.random.default_rng(seed)
    online = bernoulli(world, max(rounds, 1), seed)
    records, decisions = [], []
    for g in range(rounds):
        serving = np.flatnonzero(online[g].online)[: 6 + seed]
        first_edge = {
            int(c): world.edges.ids[int(world.links.edge[world.links.start[c]])] for c in serving
        }
        assignment = {world.clients.ids[c]: edge for c, edge in first_edge.items()}
        numbers = rng.uniform(0.5, 2.0, 5).tolist()
        counts = [list(assignment.values()).count(edge) for edge in world.edges.ids]
        records.append(
            RoundRecord(
                g, 0.1 * g, 2.0, *numbers[:3], len(serving), g % 2 == 0, numbers[3], numbers[4]
            )
        )
        decisions.append(
            DecisionRecord(
                format="stagewise-decision/1",
                round=g,
                method=name,
                assignment=assignment,
                objective=numbers[0],
                delay_s=numbers[1],
                energy_j=numbers[2],
                edges=[
                    EdgeRecord(edge, count, 100 * count, 0.1 * count if count else None)
                    for edge, count in zip(world.edges.ids, counts, strict=True)
                ],
                feasible=g % 2 == 0,
                violations=[] if g % 2 == 0 else ["too bad"],
                decision_ms=numbers[3],
            )
        )
    config = RunConfig(
        dataset="digits",
        dataset_fingerprint="",
        scenario="default",
        scenario_sha256=world.sha256,
        model="mlp",
        policy=name,
        rounds=max(rounds, 1),
        seed=seed,
        learning_rate=0.1,
    )
    return Run(config, world, online, records, decisions, None, [1234.5] if seed else [])


class Collector(HTMLParser):
    """The text of a page, its tags in order, and every address in it."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "path", "use", "rect", "image"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "data", "srcset"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "path", "use", "rect", "image"):
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in ("path", "use", "rect", "image"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def collected(text: str) -> Collector:
    collector = Collector()
    collector.feed(text)
    assert collector.open == []
    return collector


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [made_up_run("pool-flexible", 6, 0), made_up_run("fedcs", 9, 1)]


@pytest.fixture(scope="module")
def text(runs) -> str:
    return page(runs)


def test_the_page_needs_nothing_from_outside(text):
    parts = collected(text)
    assert all(address.startswith("#") for address in parts.addresses)
    assert "http" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "<script" not in text


def test_what_a_picture_refers_to_is_on_the_page_once(text):
    parts = collected(text)
    referred = set(re.findall(r"url\(#([^)]*)\)", text)) | {a[1:] for a in parts.addresses}
    assert referred
    assert referred <= set(parts.ids)
    assert len(parts.ids) == len(set(parts.ids))


def test_the_page_tells_of_every_run(text, runs):
    told = " ".join(collected(text).text)
    for run in runs:
        assert run.config.policy in told
        assert f"{sum(record.objective for record in run.records):.1f}" in told
        assert f'policy = "{run.config.policy}"' in told
    assert "50.0% in round 6" in told
    assert "3/6" in told and "5/9" in told
    assert "1.2" in told  # Plan A of the second run, in seconds
    assert text.count("<svg") == len(PICTURES)
    for title in ("Accuracy by round", "Accuracy by cumulative cost", "Who trained where"):
        assert f"<h2>{title}</h2>" in text


def test_the_same_runs_give_the_same_page(text, runs):
    assert page(runs) == text


def test_names_cannot_break_the_page():
    run = made_up_run("<script>alert('x')</script>&", 2)
    text = page([run])
    collected(text)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_runs_of_one_name_can_be_told_apart(runs):
    folder = [
        replace(run, path=Path(parent) / "run") for parent, run in zip("ab", runs, strict=True)
    ]
    assert labels(folder) == ["run (pool-flexible)", "run (fedcs)"]
    same = [runs[0], runs[0]]
    assert labels(same) == ["1: pool-flexible", "2: pool-flexible"]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures_as_files(runs, tmp_path, kind):
    paths = save_pictures(runs, tmp_path / "pictures", kind)
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in PICTURES]
    magic = b"\x89PNG" if kind == "png" else b"<?xml"
    for path in paths:
        assert path.read_bytes().startswith(magic)
        assert path.stat().st_size > 4000
    again = save_pictures(runs, tmp_path / "again", kind)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_nothing_is_cut_off_at_the_edge(runs):
    """The outermost pixels of every picture are background: no label runs out of it."""
    image_module = pytest.importorskip("PIL.Image")
    for picture in draw_pictures([made_up_run("a-policy-with-quite-a-long-name", 3, 1), *runs]):
        pixels = np.asarray(image_module.open(io.BytesIO(rendered(picture.figure, "png"))))
        frame = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert (frame == 255).all(), picture.name


def test_runs_share_scales_wide_enough_for_all(runs):
    figures = {picture.name: picture.figure for picture in draw_pictures(runs)}
    for axes in figures["kld"].axes:
        assert axes.get_xlim()[1] == 9.5
        drawn = np.concatenate([line.get_ydata() for line in axes.lines[:-1]])
        assert axes.get_ylim()[1] > np.nanmax(drawn)
    for axes in figures["service"].axes:
        assert axes.get_ylim()[1] == 9
    assert figures["decision-time"].axes[0].get_xscale() == "log"


def test_who_served(runs):
    run = runs[1]
    for client, name in enumerate(run.scenario.clients.ids):
        served = sum(name in decision.assignment for decision in run.decisions)
        assert times_served(run)[client] == served
        assert times_online(run)[client] == sum(round_.online[client] for round_ in run.online)
    assert (times_served(run) <= times_online(run)).all()


def test_the_map_of_a_chosen_round(runs):
    maps = {
        asked: [picture.figure for picture in draw_pictures(runs, asked)][-1]
        .axes[0]
        .get_title("left")
        for asked in (1, 4, 99, None)
    }
    assert ": round 1\n" in maps[1]
    assert ": round 4, infeasible\n" in maps[4]
    assert ": round 6, infeasible\n" in maps[99] == maps[None]
    with pytest.raises(StagewiseError, match="round = 0: must be at least 1"):
        list(draw_pictures(runs, 0))


def test_a_run_without_positions_has_no_map(runs):
    scenario = runs[0].scenario
    bare = replace(
        scenario,
        clients=replace(scenario.clients, position_m=None),
        edges=replace(scenario.edges, position_m=None),
    )
    pictures = [picture.name for picture in draw_pictures([made_up_run("x", 3, 0, scenario=bare)])]
    assert pictures == PICTURES[:-1]


def test_one_sentence_compares_the_runs_with_the_first():
    def of(name, accuracy, costs, feasible):
        run = made_up_run(name, rounds=len(costs))
        records = [
            msgspec.structs.replace(
                record, accuracy=accuracy, objective=cost, feasible=place < feasible
            )
            for place, (record, cost) in enumerate(zip(run.records, costs, strict=True))
        ]
        return replace(run, records=records)

    pool, fedcs = of("pool", 0.925, [2.0, 3.0], 2), of("fedcs", 0.9, [6.0, 9.0], 1)
    assert sentence([pool, fedcs]) == (
        "pool ends at 92.5% for a cost of 5.0, all limits kept in 2 of 2 rounds; "
        "fedcs ends at 90.0% for 3.00 times that, all limits kept in 1 of 2 rounds."
    )
    assert sentence([of("pool", None, [2.0], 0)]).startswith(
        "pool ends at no accuracy for a cost of 2.0"
    )
    assert sentence([of("pool", 0.5, [], 0), fedcs]) == (
        "pool has no rounds yet; "
        "fedcs ends at 90.0% for a cost of 15.0, all limits kept in 1 of 2 rounds."
    )


def test_a_run_before_its_first_round(runs):
    empty = made_up_run("pool-flexible", 0)
    assert "No round is complete yet" in page([empty])
    assert list(draw_pictures([empty])) == []
    assert "0 of 1" in page([empty, *runs])


def test_rounds_without_an_evaluation_or_without_clients():
    run = made_up_run("x", 4)
    records = [msgspec.structs.replace(record, accuracy=None, loss=None) for record in run.records]
    alone = [
        msgspec.structs.replace(
            decision, assignment={}, edges=[EdgeRecord(e.id, 0, 0, None) for e in decision.edges]
        )
        for decision in run.decisions
    ]
    text = page([replace(run, records=records, decisions=alone)])
    assert text.count("<svg") == len(PICTURES)


def test_many_edges_and_many_runs():
    crowd = [made_up_run(f"policy-{number}", 3, number, edges=12) for number in range(8)]
    assert [picture.name for picture in draw_pictures(crowd)] == PICTURES
    assert len(set(labels(crowd))) == 8


def test_the_command(tmp_path, capsys):
    out, html = tmp_path / "run", tmp_path / "report.html"
    arguments = [
        "--dataset",
        "digits",
        "--policy",
        "c2e-assoc-only",
        "--rounds",
        "2",
        "--workers",
        "1",
    ]
    assert main(["simulate", *arguments, "--out", str(out)]) == 0
    assert main(["report", str(out), "-o", str(html), "--pictures", str(tmp_path / "p")]) == 0
    assert "run (c2e-assoc-only)" in html.read_text()
    assert sorted(path.stem for path in (tmp_path / "p").iterdir()) == sorted(PICTURES)
    capsys.readouterr()
    for wrong, complaint in (
        (["--picture-format", "gif", "--pictures", str(tmp_path / "q")], "format = 'gif': must be"),
        (["--round", "0"], "round = 0: must be at least 1"),
    ):
        assert main(["report", str(out), "-o", str(tmp_path / "other.html"), *wrong]) == 2
        assert complaint in capsys.readouterr().err
        assert not (tmp_path / "other.html").exists()
    assert main(["report", str(tmp_path), "-o", str(html)]) == 2
    assert "not a run" in capsys.readouterr().err


def test_a_run_has_the_colour_of_its_policy_wherever_it_stands() -> None:
    runs = [made_up_run("a"), made_up_run("b", seed=1)]
    swapped = [replace(runs[0], config=replace_policy(runs[0], "fedcs")), runs[1]]
    assert colour(swapped[0]) == style_of("fedcs").colour == colour(swapped[::-1][1])
    assert line_styles([runs[0], runs[0], swapped[0]]) == ["-", "--", "-"]
    assert style_of("fedcs").colour in page(swapped)
    assert "prefers-color-scheme: dark" in page(runs) and "var(--ink)" in page(runs)


def replace_policy(run: Run, policy: str) -> RunConfig:
    return msgspec.structs.replace(run.config, policy=policy)


def test_pictures_into_a_folder_that_cannot_be_made(tmp_path, runs):
    (tmp_path / "file").touch()
    with pytest.raises(StagewiseError, match=r"file/pictures: cannot be written: Not a directory"):
        save_pictures(runs, tmp_path / "file" / "pictures")
