"""The score card by release: what is kept, and the tables of the page."""

import re
from pathlib import Path

import msgspec
import pytest

from stagewise.errors import StagewiseError
from stagewise.instances import benchmark as benchmarks
from stagewise.instances.benchmark import score_of
from stagewise.instances.best_known import BestKnown
from stagewise.instances.catalogue import load_instances
from stagewise.instances.score_card import (
    BEGIN,
    END,
    Measured,
    Release,
    markdown,
    read_card,
    with_card,
    with_scores,
    write_card,
)

DOCS = Path(__file__).parents[2] / "docs"


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a text in Markdown, as cells; the line below the headings is left out."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    rows = [table for table in found if table]
    assert all(set(table[1]) == {"---"} for table in rows)
    assert all(len(row) == len(table[0]) for table in rows for row in table)
    return [[table[0], *table[2:]] for table in rows]


def test_the_page_has_a_score_card_of_instances_that_exist():
    page = (DOCS / "quality.md").read_text()
    releases, instances = tables(page[page.index(BEGIN) : page.index(END)])
    sizes = dict.fromkeys(one.size for one in load_instances().values())
    assert releases[0] == ["version", "commit", "date", "policy", *sizes]
    for row in releases[1:]:
        assert re.fullmatch(r"[0-9a-f]{7}\+? \d{4}-\d\d-\d\d", f"{row[1]} {row[2]}")
        assert all(re.fullmatch(r"–|(–|\d+\.\d{4}) \(\d+/\d+\)", cell) for cell in row[4:])
    names = [row[0] for row in instances[1:]]
    assert names == [name for name in load_instances() if name in names]  # each once, in order
    assert names
    for row in instances[1:]:
        assert all(cell == "–" or float(cell) >= 1 - 1e-3 for cell in row[1:3])
    kept = read_card(DOCS / "score_card.json")
    assert [row[1] for row in releases[1:]] == [release.commit for release in reversed(kept)]
    assert names == list(kept[-1].scores())


def test_a_release_is_compared_with_what_is_known_now(monkeypatch):
    measured = {"chain-10x2": Measured([10.0, 10.0, None, 10.0, 10.0], [1.0] * 5)}
    better = {"chain-10x2": Measured([8.0] * 5, [2.0, 2, 2, 2, 7], 3, 4)}
    releases = [
        Release("1.0", "aaaaaaa", "2026-01-01T09:00", "pool", measured),
        Release("1.1", "bbbbbbb", "2026-02-01T09:00", "pool", better),
    ]
    monkeypatch.setattr(benchmarks, "best_known", lambda name: [BestKnown(8.0, "x", 5.0, "x")] * 5)
    text = markdown(releases)
    assert "`pool` of 1.1 (bbbbbbb) by instance, while 4.0 to 4.0 processes" in text
    by_release, by_instance = tables(text)
    assert [row[1] for row in by_release] == ["commit", "bbbbbbb", "aaaaaaa"]  # newest first
    assert by_release[1][4:6] == ["1.0000 (5/5)", "–"]
    assert by_release[2][4] == "1.2500 (4/5)"
    assert by_instance[1] == ["chain-10x2", "1.0000", "1.6000", "5/5", "", "2.0", "7.0", "3.00"]
    monkeypatch.setattr(benchmarks, "best_known", lambda name: [BestKnown(4.0, "y")] * 5)
    by_release, _ = tables(markdown(releases))
    assert [row[4] for row in by_release[1:]] == ["2.0000 (5/5)", "2.5000 (4/5)"]


def test_a_card_without_releases_says_so():
    assert markdown([]) == "Nothing has been measured yet."


def release(commit: str) -> Release:
    return Release(
        "1.0", commit, {"a": "2026-01-01T09:00", "b": "2026-01-01T10:00"}[commit[0]], "pool"
    )


def test_what_is_measured_is_added_and_kept(tmp_path):
    path = tmp_path / "card.json"
    assert read_card(path) == []
    first = [score_of("chain-10x2", [100.0] * 5, [1.0] * 5, None)]
    again = [score_of("chain-10x2", [99.0, None, 99.0, 99.0, 99.0], [1.0] * 5, 2.0)]
    other = [score_of("chain-15x3", [150.0] * 5, [1.0] * 5, None)]
    card = with_scores([], release("bbbbbbb"), first, 1.5)
    card = with_scores(card, release("aaaaaaa"), first, 1.5)  # older, measured later
    card = with_scores(card, release("aaaaaaa"), other, 1.5)
    card = with_scores(card, release("bbbbbbb"), again, 1.5)
    write_card(card, path)
    old, new = read_card(path)
    assert (old.commit, new.commit) == ("aaaaaaa", "bbbbbbb")
    assert list(old.scores()) == ["chain-10x2", "chain-15x3"]
    assert new.measured["chain-10x2"] == Measured(
        [99.0, None, 99.0, 99.0, 99.0], [1.0] * 5, 2.0, 1.5
    )


@pytest.mark.parametrize(
    ("name", "costs"), [("moon", [1.0] * 5), ("chain-10x2", [1.0] * 4), ("chain-10x2", [])]
)
def test_a_card_of_other_instances_or_rounds_is_refused(name, costs, tmp_path):
    release = Release(
        "1.0", "aaaaaaa", "2026-01-01T09:00", "pool", {name: Measured(costs, [1.0] * len(costs))}
    )
    write_card([release], tmp_path / "card.json")
    with pytest.raises(StagewiseError, match=f"aaaaaaa, {name}: must be an instance"):
        read_card(tmp_path / "card.json")


def test_only_what_is_between_the_markers_is_written():
    page = f"# Hand\n\n{BEGIN}\nold\n{END}\n\nwritten\n"
    once = with_card(page, "| a \\1 |")
    assert once == f"# Hand\n\n{BEGIN}\n\n| a \\1 |\n\n{END}\n\nwritten\n"
    assert with_card(once, "| a \\1 |") == once
    for broken in (f"{END}\n{BEGIN}", BEGIN, f"{BEGIN}{BEGIN}{END}"):
        with pytest.raises(StagewiseError, match="must have one line"):
            with_card(broken, "x")


def test_scores_have_what_a_card_keeps():
    score = score_of("chain-10x2", [1.0] * 5, [1.0] * 5, None)
    assert msgspec.json.decode(msgspec.json.encode(score))["costs"] == [1.0] * 5
