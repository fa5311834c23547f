"""The score card by release: what each version's decisions cost, beside what is known today.

Costs and times are kept, ratios are not: they are made against the best decisions and bounds known when
the page is written, so that releases stay comparable when something better is found.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from stagewise.errors import StagewiseError
from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise.instances.benchmark import Score, score_of
from stagewise.instances.catalogue import load_instances

FORMAT: Literal["stagewise-score-card/1"] = "stagewise-score-card/1"
BEGIN = "<!-- score card: written by benchmarks/score_card.py, not by hand -->"
END = "<!-- end of the score card -->"
HEADINGS = (
    "instance",
    "over best known",
    "over bound",
    "feasible/possible",
    "new best",
    "decision (ms)",
    "slowest (ms)",
    "Plan A (s)",
)
"""Of a policy's score card, an instance a row."""


class Measured(msgspec.Struct, frozen=True):
    """What a policy did on one instance."""

    costs: list[float | None]
    """Of each round; None where a limit was not kept."""
    decision_ms: list[float]
    plan_s: float | None = None
    load: float = 0.0
    """Processes that wanted each core meanwhile: above 1, times are longer than they need be."""


class Release(msgspec.Struct, frozen=True):
    """A version of the library with a policy."""

    version: str
    commit: str
    date: str
    """Of the commit, as 2026-01-31T23:59 in UTC."""
    policy: str
    measured: dict[str, Measured] = {}
    """By instance."""

    def scores(self) -> dict[str, Score]:
        """Beside what is known today, in the order of the instances."""
        return {
            name: score_of(name, found.costs, found.decision_ms, found.plan_s)
            for name in load_instances()
            if (found := self.measured.get(name)) is not None
        }


class _File(msgspec.Struct, kw_only=True):
    format: Literal["stagewise-score-card/1"] = FORMAT
    releases: list[Release] = []


def read_card(path: Path) -> list[Release]:
    """The releases of a file, oldest first; none where there is no file."""
    if not path.exists():
        return []
    releases = decode_json(read_bytes(path), _File, str(path)).releases
    known = load_instances()
    for release in releases:
        for name, found in release.measured.items():
            if name not in known or not (
                len(found.costs) == len(found.decision_ms) == known[name].rounds
            ):
                raise StagewiseError(
                    f"{path}: {release.commit}, {name}: must be an instance, with a cost and a time "
                    f"for each of its rounds"
                )
    return releases


def write_card(releases: list[Release], path: Path) -> None:
    """Keep `releases`."""
    content = msgspec.json.encode(_File(releases=releases))
    write_bytes(path, msgspec.json.format(content, indent=1) + b"\n")


def with_scores(
    releases: list[Release], release: Release, scores: Iterable[Score], load: float
) -> list[Release]:
    """`releases` in the order of their dates, with `scores` measured of one, new or among them."""
    measured = {
        score.instance: Measured(
            list(score.costs),
            [round(ms, 3) for ms in score.decision_ms],
            None if score.plan_s is None else round(score.plan_s, 3),
            round(load, 2),
        )
        for score in scores
    }

    def key(one: Release) -> tuple[str, str, str]:
        return one.date, one.commit, one.policy

    before = next((one for one in releases if key(one) == key(release)), release)
    after = msgspec.structs.replace(before, measured=before.measured | measured)
    return sorted([after, *(one for one in releases if one is not before)], key=key)


def markdown(releases: list[Release]) -> str:
    """Two tables: every release by class of instances, newest first, and the newest by instance."""
    if not releases:
        return "Nothing has been measured yet."
    newest = releases[-1]
    loads = [found.load for found in newest.measured.values()]
    sizes = list(dict.fromkeys(one.size for one in load_instances().values()))
    by_release = [
        [
            release.version,
            release.commit,
            release.date[:10],
            f"`{release.policy}`",
            *(_of_size(release, size) for size in sizes),
        ]
        for release in reversed(releases)
    ]
    return "\n".join(
        [
            *_table(["version", "commit", "date", "policy", *sizes], by_release),
            "",
            f"`{newest.policy}` of {newest.version} ({newest.commit}) by instance, while "
            f"{min(loads):.1f} to {max(loads):.1f} processes wanted each core:",
            "",
            *_table(list(HEADINGS), [row_of(score) for score in newest.scores().values()]),
        ]
    )


def row_of(score: Score) -> list[str]:
    """A score below `HEADINGS`."""
    return [
        score.instance,
        _ratio(score.over_best),
        _ratio(score.over_bound),
        f"{score.feasible}/{score.could_be}",
        str(score.new_best or ""),
        f"{score.decision_ms_median:.1f}",
        f"{score.decision_ms_max:.1f}",
        "" if score.plan_s is None else f"{score.plan_s:.2f}",
    ]


def with_card(page: str, card: str) -> str:
    """`page` with `card` in place of what stands between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise StagewiseError(f"the page must have one line {BEGIN} and one line {END} below it")
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    return between.sub(lambda _: f"{BEGIN}\n\n{card}\n\n{END}", page)


def _of_size(release: Release, size: str) -> str:
    """The mean over the instances of a class, and rounds that kept every limit of those that could."""
    known = load_instances()
    scores = [score for name, score in release.scores().items() if known[name].size == size]
    if not scores:
        return "–"
    feasible, could_be = (
        sum(getattr(s, name) for s in scores) for name in ("feasible", "could_be")
    )
    ratios = [score.over_best for score in scores if score.over_best is not None]
    mean = _ratio(float(np.mean(ratios)) if ratios else None)
    return f"{mean} ({feasible}/{could_be})"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
