"""What readers get: each experiment's picture and table as files, and one page about them all."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from stagewise import __version__
from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.report.html import inline_svg
from stagewise.report.rendering import write_files
from stagewise_experiments.catalogue import SUFFIX, experiments, load_all
from stagewise_experiments.claims import tally
from stagewise_experiments.document import (
    Block,
    Bullets,
    Fold,
    Heading,
    Image,
    Section,
    Table,
    Text,
    to_html,
    to_markdown,
)
from stagewise_experiments.experiment import Claim, Experiment, ProfileName
from stagewise_experiments.headline import sentences, with_cost, with_optimum
from stagewise_experiments.names import dataset_name
from stagewise_experiments.results import FILE, Result, load_result, save_result
from stagewise_experiments.table import (
    Judged,
    counted,
    judge,
    machine_text,
    markdown_blocks,
    ran_title,
    table_blocks,
    title,
)
from stagewise_experiments.verdicts import KINDS, Kind, Verdict

T = TypeVar("T")
_RULES = (
    "Two methods are compared on the same seed, by the logarithm of their ratio (shares by their "
    "difference); the 95% interval over seeds decides, and with one seed nothing is decided. "
    "**Agrees**: a number of the paper lies within our interval widened by a tolerance (10% of our "
    "mean; increases over another method 5 percentage points; differences between accuracies 1 "
    "point), and the interval is no wider than the tolerance; a claim holds in every comparison. "
    "**Better**: all of the widened interval is on the better side. **Differs**: all of it is on the "
    "other side, or neither side is better; a claim fails in one comparison or more. **Undecided**: "
    "the interval allows for both, or there is none: one seed, or a target that some seeds reach and "
    "others do not; two that are apart by less than a round are equal. **Not comparable**: measured, "
    "but on a stand-in for the paper's data or a part of it, with too few rounds to learn, or in a unit "
    "that the paper leaves open, such as seconds of its machine. **Not run**: not part of this "
    "profile, or failed. Of forty comparisons of equals two are decided by chance. Comparisons "
    "of two methods that trained on a part of the paper's data, as MNIST-5k of MNIST, are compared "
    "with the paper's, and the note on the size says so."
)


SYMBOLS: dict[Kind, str] = {
    "agrees": "✓",
    "better": "▲",
    "differs": "✗",
    "undecided": "?",
    "not comparable": "≠",
    "not run": "–",
}
"""Beside the words, for those who do not see the colours."""
_TITLES = {"quick": "Quick: cut to minutes on two cores", "full": "Full: the paper's size"}


def write_outputs(result: Result, folder: str | Path) -> list[Path]:
    """Write picture.png, picture.svg and table.md into `folder`; all are made before any is written."""
    return _write_outputs(judge(result), folder)


def _write_outputs(judged: Judged, folder: str | Path) -> list[Path]:
    from stagewise_experiments.pictures.figure import picture_files

    table = to_markdown(markdown_blocks(judged)).encode()
    return write_files(folder, {**picture_files(judged.result), "table.md": table})


def write_report(folders: Sequence[str | Path], page: str | Path) -> Path:
    """Write one page about all results below `folders`, each profile in a part of its own.

    HTML has everything in it. Markdown, for `.md`, has pictures, tables and results in folders beside
    it, `<profile>/<experiment>`.
    """
    judged, page = [judge(result) for result in load_results(folders)], Path(page)
    text = _markdown(judged, page.parent) if page.suffix == ".md" else page_html(judged)
    write_bytes(page, text.encode())
    return page


def load_results(folders: Sequence[str | Path]) -> list[Result]:
    """All results below `folders`, in the order of the page."""
    results: dict[tuple[str, str], tuple[Result, Path]] = {}
    for folder in folders:
        paths = sorted(Path(folder).glob(f"*/{FILE}"))
        if not paths:
            raise StagewiseError(f"{folder}: must hold folders with a {FILE}, which `run` writes")
        for path in paths:
            result = load_result(path)
            name = (result.profile, result.experiment.id)
            if name in results:
                twice = f"{results[name][1]} is of the same experiment and profile"
                raise StagewiseError(f"{path}: must not be given twice, {twice}")
            results[name] = result, path
    return in_order([result for result, _ in results.values()], lambda result: result.experiment)


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


def page_html(judged: Sequence[Judged]) -> str:
    """The page in one file."""
    from stagewise_experiments.pictures import figure, headline

    svgs = {}
    for profile, some in _by_profile(judged).items():
        drawn = headline.files(some, ("svg",))
        for image in headline_images(some):
            name = Path(image.path).stem
            svgs[image.path] = inline_svg(drawn[f"{name}.svg"], f"{profile}-{name}", image.alt)
        for one in some:
            name = f"{profile}-{one.result.experiment.id}"
            svg = figure.picture_files(one.result, ("svg",))["picture.svg"]
            svgs[_picture(one)] = inline_svg(svg, name, title(one))
    sections = [
        Section(
            profile,
            _TITLES[profile],
            profile_blocks(some),
            [
                ("Verdict", profile),
                ("Figures and tables", f"{profile}-table"),
                ("Details", f"{profile}-details"),
                ("Machine", f"{profile}-machine"),
            ],
        )
        for profile, some in _by_profile(judged).items()
    ]
    return to_html(_TITLE, _top(), sections, _rules(), svgs)


def page_blocks(judged: Sequence[Judged]) -> list[Block]:
    """The page as one document, its parts below each other."""
    blocks = _top()
    for profile, some in _by_profile(judged).items():
        blocks += [Heading(_TITLES[profile], 2, profile), *profile_blocks(some)]
    return [*blocks, *_rules()]


def profile_blocks(judged: Sequence[Judged]) -> list[Block]:
    """All about the results of one profile."""
    profile = judged[0].result.profile
    blocks: list[Block] = [Text(sentence, lead=True) for sentence in sentences(judged)]
    blocks += [
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


_TITLE = "Stagewise: the paper's figures and tables, and ours"


def _by_profile(judged: Sequence[Judged]) -> dict[ProfileName, list[Judged]]:
    found: dict[ProfileName, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.result.profile, []).append(one)
    return {name: found[name] for name in _TITLES if name in found}


def _markdown(judged: Sequence[Judged], folder: Path) -> str:
    from stagewise_experiments.pictures import headline

    for profile, some in _by_profile(judged).items():
        write_files(folder / profile, headline.files(some))
        for one in some:
            place = folder / profile / one.result.experiment.id
            _write_outputs(one, place)
            save_result(one.result, place / FILE)
    return to_markdown(page_blocks(judged))


def _top() -> list[Block]:
    return [
        Heading(_TITLE, 1),
        Text(
            "Every figure and table of the paper run again, our numbers beside the paper's. "
            f"Made by Stagewise {__version__} from the results of `stagewise experiment run`.",
            quiet=True,
        ),
    ]


def _rules() -> list[Block]:
    return [Fold("How verdicts are made", [Text(_RULES)], "rules")]


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


def _anchor(result: Result) -> str:
    return f"{result.profile}-{result.experiment.id}"


def _picture(one: Judged) -> str:
    return f"{one.result.profile}/{one.result.experiment.id}/picture.png"


def _experiment(judged: Sequence[Judged], number: int) -> Fold:
    one = judged[number]
    profile = one.result.profile
    beside = [("previous", number - 1), ("next", number + 1)]
    links = [f"[↑ figures and tables](#{profile}-table)"]
    links += [f"[{w}](#{_anchor(judged[n].result)})" for w, n in beside if 0 <= n < len(judged)]
    blocks = [
        Text(" · ".join(links), quiet=True),
        Image(_picture(one), title(one)),
        *table_blocks(one),
        Text(f"`{_command(one.result)}`", quiet=True),
    ]
    return Fold(title(one), blocks, _anchor(one.result), _counts(_kinds(one)))


def _kinds(one: Judged) -> Counter[Kind]:
    return Counter(verdict.kind for _, verdict in (*one.values, *one.claims))


def _counts(kinds: Counter[Kind]) -> str:
    return " ".join(f"**{SYMBOLS[kind]} {kinds[kind]} {kind}**" for kind in KINDS if kinds[kind])


def _light(kinds: Counter[Kind]) -> str:
    """What matters most of an experiment's verdicts: whatever differs, then whatever is open."""
    order: tuple[Kind, ...] = ("differs", "undecided", "agrees", "better", "not comparable")
    kind: Kind = next((kind for kind in order if kinds[kind]), "not run")
    return f"**{SYMBOLS[kind]} {kind}**"


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
            rows.append([f"**{SYMBOLS['not run']} not run**", paper, experiment.title, "", ""])
            continue
        rows.append(
            [
                _light(_kinds(found)),
                paper,
                f"[{ran_title(found)}](#{_anchor(found.result)})",
                _counts(_kinds(found)),
                counted(len(found.result.seeds), "seed"),
            ]
        )
    return Table(
        ["verdict", "the paper's", "what", "numbers and claims", "size"], rows, 5, "", "lights"
    )


def _command(result: Result) -> str:
    """What makes this result."""
    name, seeds = result.experiment.id, len(result.seeds)
    own = "" if name in experiments() else SUFFIX
    fewer = "" if seeds == result.size.seeds else f" --seeds {seeds}"
    return f"stagewise experiment run {name}{own} --profile {result.profile}{fewer}"


def _summary(judged: Sequence[Judged]) -> Iterator[Block]:
    main = [(one, c, v) for one in judged for c, v in one.claims if c.headline]
    others = [(one, c, v) for one in judged for c, v in one.claims if c.ours and not c.headline]
    theirs = [(one, c, v) for one in judged for c, v in one.claims if not c.ours]
    counts = (
        ("our main targets", Counter(v.kind for *_, v in main)),
        ("other targets of ours", Counter(v.kind for *_, v in others)),
        ("the paper's claims in words", Counter(v.kind for *_, v in theirs)),
        ("the paper's numbers", Counter(v.kind for one in judged for _, v in one.values)),
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
        f"{sum(seconds.values()) / 3600:.1f} core hours; cells that experiments share count once."
    )
    yield Bullets(lines)


def _found_text(one: Judged, verdict: Verdict) -> str:
    """Where it was measured and what was found; the reasons for a difference stand there."""
    name, anchor = one.result.experiment.id, _anchor(one.result)
    why = "" if verdict.kind == "differs" else verdict.why.rstrip(".")
    why = why[:1].upper() + why[1:]
    found = ". ".join(part for part in (verdict.ours, why) if part)
    return f"[{name}](#{anchor}): {found}."
