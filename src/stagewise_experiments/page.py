"""What readers get: each experiment's picture and table as files, and one page about them all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from stagewise import __version__
from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.report.rendering import write_files
from stagewise_experiments.catalogue import SUFFIX, experiments
from stagewise_experiments.claims import tally
from stagewise_experiments.document import (
    Block,
    Bullets,
    Heading,
    Image,
    Table,
    Text,
    to_html,
    to_markdown,
)
from stagewise_experiments.experiment import Claim
from stagewise_experiments.names import dataset_name
from stagewise_experiments.results import FILE, Result, load_result
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


def write_outputs(result: Result, folder: str | Path) -> list[Path]:
    """Write picture.png, picture.svg and table.md into `folder`; all are made before any is written."""
    return _write_outputs(judge(result), folder)


def _write_outputs(judged: Judged, folder: str | Path) -> list[Path]:
    from stagewise_experiments.pictures.figure import picture_files

    table = to_markdown(markdown_blocks(judged)).encode()
    return write_files(folder, {**picture_files(judged.result), "table.md": table})


def write_report(results_folder: str | Path, page: str | Path) -> Path:
    """Write one page about all results below `results_folder`; HTML, or Markdown for `.md`.

    Pictures and tables are drawn again into folders beside the page; cells are not copied.
    """
    judged, page = [judge(result) for result in load_results(results_folder)], Path(page)
    for one in judged:
        _write_outputs(one, page.parent / one.result.experiment.id)
    blocks = page_blocks(judged)
    text = to_markdown(blocks) if page.suffix == ".md" else to_html(blocks)
    write_bytes(page, text.encode())
    return page


def load_results(folder: str | Path) -> list[Result]:
    """All results below `folder`, in the order of the page."""
    paths = sorted(Path(folder).glob(f"*/{FILE}"))
    if not paths:
        raise StagewiseError(f"{folder}: must hold folders with a {FILE}, which `run` writes")
    results = [load_result(path) for path in paths]
    groups: dict[str, int] = {}  # a group stands where its first experiment does
    for result in results:
        experiment = result.experiment
        first = groups.get(experiment.group, experiment.order)
        groups[experiment.group] = min(first, experiment.order)
    return sorted(
        results,
        key=lambda r: (
            groups[r.experiment.group],
            r.experiment.group,
            r.experiment.order,
            r.experiment.id,
        ),
    )


def page_blocks(judged: Sequence[Judged]) -> list[Block]:
    """The whole page."""
    return [
        Heading("Stagewise: the paper's figures and tables, and ours", 1),
        Text(
            "Every figure and table of the paper run again, our numbers beside the paper's. "
            f"Made by Stagewise {__version__} from the results of `stagewise experiment run`."
        ),
        *_summary(judged),
        *_contents(judged),
        *_conditions([one.result for one in judged]),
        *(block for number, one in enumerate(judged) for block in _section(judged, number, one)),
    ]


def _section(judged: Sequence[Judged], number: int, one: Judged) -> Iterator[Block]:
    experiment = one.result.experiment
    group = experiment.group
    if group and (number == 0 or judged[number - 1].result.experiment.group != group):
        yield Heading(group)
    yield Heading(title(one), 3, experiment.id)
    folder = experiment.id
    yield Image(f"{folder}/picture.png", title(one), f"{folder}/picture.svg")
    yield from table_blocks(one)
    yield Text(
        f"`{_command(one.result)}` · "
        f"[table]({folder}/table.md) · [picture as SVG]({folder}/picture.svg)",
        quiet=True,
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
    yield Heading("Summary")
    yield Table(
        ["", *KINDS, "all"],
        [[n, *(str(c[kind]) for kind in KINDS), str(sum(c.values()))] for n, c in counts],
    )
    yield Text(_RULES, quiet=True)
    if main:
        yield Heading("Our main targets", 3)
        yield Bullets(list(_targets(main)))
    missed = [entry for entry in others if entry[2].kind == "differs"]
    if missed:
        yield Heading("Other targets of ours that were missed", 3)
        yield Bullets(list(_targets(missed)))
    differing = [entry for entry in theirs if entry[2].kind == "differs"]
    if differing:
        yield Heading("Claims of the paper that did not hold here", 3)
        yield Bullets(
            [f"{c.text.rstrip('.')} ({c.source}). {_found_text(one, v)}" for one, c, v in differing]
        )


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


def _contents(judged: Sequence[Judged]) -> Iterator[Block]:
    yield Heading("Experiments")
    rows = []
    for one in judged:
        experiment, result = one.result.experiment, one.result
        kinds: Counter[Kind] = Counter(v.kind for _, v in (*one.values, *one.claims))
        rows.append(
            [
                f"[{experiment.id}](#{experiment.id})",
                experiment.paper or "ours",
                ran_title(one),
                f"{result.profile}, {counted(len(result.seeds), 'seed')}",
                *(str(kinds[kind] or "") for kind in KINDS),
            ]
        )
    yield Table(["experiment", "the paper's", "what", "size", *KINDS], rows, 4)
    ran = {one.result.experiment.id for one in judged}
    absent = [name for name in experiments() if name not in ran]
    if absent:
        yield Text(f"**Not run:** {', '.join(absent)}.")


def _conditions(results: Sequence[Result]) -> Iterator[Block]:
    """Machines, versions and data, each with the experiments it is true of where they differ."""
    yield Heading("Machine and versions")
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
    name = one.result.experiment.id
    why = "" if verdict.kind == "differs" else verdict.why.rstrip(".")
    found = ". ".join(part for part in (verdict.ours, why) if part)
    return f"[{name}](#{name}): {found}."
