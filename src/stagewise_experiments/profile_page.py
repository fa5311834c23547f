"""The part of the page about one profile: sentences, pictures, the table of lights, and the details."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from stagewise_experiments.catalogue import SUFFIX, experiments, load_all
from stagewise_experiments.claims import tally
from stagewise_experiments.document import Block, Bullets, Fold, Heading, Image, Table, Text
from stagewise_experiments.experiment import Claim, Experiment
from stagewise_experiments.headline import (
    kinds_of_the_paper,
    sentences,
    with_cost,
    with_optimum,
)
from stagewise_experiments.names import dataset_name
from stagewise_experiments.results import Result
from stagewise_experiments.table import (
    Judged,
    counted,
    machine_text,
    ran_title,
    table_blocks,
    title,
)
from stagewise_experiments.verdicts import KINDS, Kind, Verdict

T = TypeVar("T")
SYMBOLS: dict[Kind, str] = {
    "agrees": "✓",
    "better": "▲",
    "differs": "✗",
    "undecided": "?",
    "not comparable": "≠",
    "not run": "–",
}
"""Beside the words, for those who do not see the colours."""
_REGIMES = {
    "calibrated": "the calibrated regime, fitted to the paper's Tables III and IV and to one curve",
    "literal": "the literal regime, as the paper's text reads",
}


def in_order(items: Iterable[T], experiment_of: Callable[[T], Experiment]) -> list[T]:
    """By the order of their experiments; a group stands where its first experiment does."""
    items = list(items)
    groups: dict[str, int] = {}
    for item in items:
        experiment = experiment_of(item)
        first = groups.get(experiment.group, experiment.order)
        groups[experiment.group] = min(first, experiment.order)

    def place(item: T) -> tuple[int, str, int, str]:
        of = experiment_of(item)
        return groups[of.group], of.group, of.order, of.id

    return sorted(items, key=place)


def profile_blocks(judged: Sequence[Judged]) -> list[Block]:
    """All about the results of one profile."""
    profile = judged[0].result.profile
    blocks: list[Block] = [Text(sentence, lead=True) for sentence in sentences(judged)]
    blocks += [
        Text(_regime_text([one.result for one in judged]), quiet=True),
        *headline_images(judged),
        Heading("All figures and tables", 3, f"{profile}-table"),
        _lights(judged),
        *_summary(judged),
        Heading("Details", 3, f"{profile}-details"),
    ]
    for number, one in enumerate(judged):
        group = one.result.experiment.group
        if group and (number == 0 or judged[number - 1].result.experiment.group != group):
            blocks.append(Heading(group, 4))
        blocks.append(_experiment(judged, number))
    blocks += [
        Heading("Machine and versions", 3, f"{profile}-machine"),
        *_conditions([one.result for one in judged]),
    ]
    return blocks


def _regime_text(results: Sequence[Result]) -> str:
    """In which regime costs are, and of which experiments where there are two."""
    ran: dict[str, dict[str, None]] = {}
    for result in results:
        for cell in result.cells:
            ran.setdefault(cell.setting.scenario.regime, {})[result.experiment.id] = None
    told = [
        _REGIMES[name] + (f" ({', '.join(ran[name])})" if len(ran) > 1 else "")
        for name in _REGIMES
        if name in ran
    ]
    return f"Costs are in {' and in '.join(told)} (`--regime`): see docs/calibration.md."


def headline_images(judged: Sequence[Judged]) -> list[Image]:
    """What the page begins with, as far as there are results."""
    folder = judged[0].result.profile
    images = (
        (with_optimum, "optimum", "Every method against the certified optimum"),
        (with_cost, "cost", "Cost to the target accuracy, every method"),
    )
    return [
        Image(f"{folder}/headline-{name}.png", alt, half=True)
        for find, name, alt in images
        if find(judged) is not None
    ]


def _experiment(judged: Sequence[Judged], number: int) -> Fold:
    one = judged[number]
    profile = one.result.profile
    beside = [("previous", number - 1), ("next", number + 1)]
    links = [f"[↑ figures and tables](#{profile}-table)"]
    links += [f"[{w}](#{_anchor(judged[n].result)})" for w, n in beside if 0 <= n < len(judged)]
    blocks = [
        Text(" · ".join(links), quiet=True),
        Image(picture_path(one), title(one)),
        *table_blocks(one),
        Text(f"`{_command(one.result)}`", quiet=True),
    ]
    kinds = kinds_of_the_paper([one]) + _of_ours(one)
    return Fold(title(one), blocks, _anchor(one.result), _counts(kinds))


def _lights(judged: Sequence[Judged]) -> Table:
    """A row for each figure and table, those that were not run among them."""
    ran = {one.result.experiment.id: one for one in judged}
    others = [experiment for experiment in load_all() if experiment.id not in ran]
    every = in_order([*(one.result.experiment for one in judged), *others], lambda of: of)
    rows = []
    for experiment in every:
        paper = experiment.paper or "ours"
        found = ran.get(experiment.id)
        if found is None:
            rows.append([f"**{SYMBOLS['not run']} not run**", paper, experiment.title, "", "", ""])
            continue
        theirs, ours = kinds_of_the_paper([found]), _of_ours(found)
        rows.append(
            [
                _light(theirs or ours),
                paper,
                f"[{ran_title(found)}](#{_anchor(found.result)})",
                _counts(theirs),
                _counts(ours),
                counted(len(found.result.seeds), "seed"),
            ]
        )
    head = ["verdict", "the paper's", "what", "its numbers and claims", "our targets", "size"]
    return Table(head, rows, 6, "", "lights")


def _light(kinds: Counter[Kind]) -> str:
    """What matters most of some verdicts: whatever differs, then whatever is open."""
    order: tuple[Kind, ...] = ("differs", "undecided", "agrees", "better", "not comparable")
    kind: Kind = next((kind for kind in order if kinds[kind]), "not run")
    return f"**{SYMBOLS[kind]} {kind}**"


def _of_ours(one: Judged) -> Counter[Kind]:
    """The verdicts on targets that we set ourselves."""
    return Counter(verdict.kind for claim, verdict in one.claims if claim.ours)


def _counts(kinds: Counter[Kind]) -> str:
    return " ".join(f"**{SYMBOLS[kind]} {kinds[kind]} {kind}**" for kind in KINDS if kinds[kind])


def _summary(judged: Sequence[Judged]) -> Iterator[Block]:
    main = [(one, c, v) for one in judged for c, v in one.claims if c.headline]
    others = [(one, c, v) for one in judged for c, v in one.claims if c.ours and not c.headline]
    theirs = [(one, c, v) for one in judged for c, v in one.claims if not c.ours]
    counts = (
        ("our main targets", Counter(v.kind for *_, v in main)),
        ("other targets of ours", Counter(v.kind for *_, v in others)),
        ("the paper's claims in words", Counter(v.kind for *_, v in theirs)),
        ("the paper's numbers", _of_numbers(judged, fitted=False)),
        ("numbers that the regime was fitted to", _of_numbers(judged, fitted=True)),
    )
    table = Table(
        ["", *KINDS, "all"],
        [[n, *(str(c[kind]) for kind in KINDS), str(sum(c.values()))] for n, c in counts],
    )
    yield Fold("All verdicts, counted", [table])
    if main:
        yield Fold("Our main targets", [Bullets(list(_targets(main)))])
    missed = [entry for entry in others if entry[2].kind == "differs"]
    if missed:
        yield Fold("Other targets of ours that were missed", [Bullets(list(_targets(missed)))])
    differing = [entry for entry in theirs if entry[2].kind == "differs"]
    if differing:
        told = [f"{c.text.rstrip('.')} ({c.source}). {_found_text(o, v)}" for o, c, v in differing]
        yield Fold("Claims of the paper that did not hold here", [Bullets(told)])


def _of_numbers(judged: Sequence[Judged], *, fitted: bool) -> Counter[Kind]:
    values = (value for one in judged for value in one.values)
    return Counter(verdict.kind for printed, verdict in values if printed.fitted == fitted)


def _targets(ours: Sequence[tuple[Judged, Claim, Verdict]]) -> Iterator[str]:
    """Each target once, with a line for every experiment that it is set for.

    Comparisons are counted over all of them, one that several share once.
    """
    for text in dict.fromkeys(claim.text for _, claim, _ in ours):
        entries = [(one, verdict) for one, claim, verdict in ours if claim.text == text]
        found = [finding for _, verdict in entries for finding in verdict.found]
        held = f"({tally(found)})" if len(found) > 1 else ""
        lines = [f"**{verdict.kind}** {_found_text(one, verdict)}" for one, verdict in entries]
        yield "\n".join([f"{text.rstrip('.')}. {held}".rstrip(), *lines])


def _found_text(one: Judged, verdict: Verdict) -> str:
    """Where it was measured and what was found; the reasons for a difference stand there."""
    name, anchor = one.result.experiment.id, _anchor(one.result)
    why = "" if verdict.kind == "differs" else verdict.why.rstrip(".")
    why = why[:1].upper() + why[1:]
    found = ". ".join(part for part in (verdict.ours, why) if part)
    return f"[{name}](#{anchor}): {found}."


def _conditions(results: Sequence[Result]) -> Iterator[Block]:
    """Machines, versions and data, each with the experiments it is true of where they differ."""
    facts = [(machine_text(machine), r) for r in results for machine in r.machines]
    facts += [(f"Code version {r.code_version}", r) for r in results]
    true_of: dict[str, dict[str, None]] = {}
    for text, result in facts:
        true_of.setdefault(text, {})[result.experiment.id] = None
    lines = [
        text if len(names) == len(results) else f"{text} ({', '.join(names)})"
        for text, names in true_of.items()
    ]
    data = sorted({dataset_name(name) for result in results for name in result.datasets})
    lines.append(f"Data: {', '.join(data) or 'none'}.")
    seconds = {cell.key: cell.seconds or 0.0 for result in results for cell in result.cells}
    lines.append(
        f"{len(seconds):,} cells in {counted(len(results), 'experiment')}: "
        f"{sum(seconds.values()) / 3600:.1f} core hours, without decisions that were kept from before; "
        "cells that experiments share count once."
    )
    yield Bullets(lines)


def _command(result: Result) -> str:
    """What makes this result."""
    name, seeds = result.experiment.id, len(result.seeds)
    own = "" if name in experiments() else SUFFIX
    fewer = "" if seeds == result.size.seeds else f" --seeds {seeds}"
    return f"stagewise experiment run {name}{own} --profile {result.profile}{fewer}"


def _anchor(result: Result) -> str:
    return f"{result.profile}-{result.experiment.id}"


def picture_path(one: Judged) -> str:
    return f"{one.result.profile}/{one.result.experiment.id}/picture.png"
