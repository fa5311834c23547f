"""What readers get: each experiment's picture and table as files, and one page about them all."""

from collections.abc import Sequence
from pathlib import Path

from stagewise import __version__
from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.report.html import inline_svg
from stagewise.report.rendering import write_files
from stagewise_experiments.catalogue import by_todays_file
from stagewise_experiments.document import (
    Block,
    Fold,
    Heading,
    Section,
    Text,
    to_html,
    to_markdown,
)
from stagewise_experiments.experiment import ProfileName
from stagewise_experiments.profile_page import (
    headline_images,
    in_order,
    picture_path,
    profile_blocks,
)
from stagewise_experiments.results import FILE, UNFINISHED, Result, load_result, save_result
from stagewise_experiments.table import Judged, judge, markdown_blocks, title

_TITLE = "Stagewise: the paper's figures and tables, and ours"
_TITLES = {"quick": "Quick: cut to minutes on two cores", "full": "Full: the paper's size"}
_RULES = (
    "Two methods are compared on the same seed, by the logarithm of their ratio (shares by their "
    "difference); the 95% interval over seeds decides, and with one seed nothing is decided. "
    "**Agrees**: all of our interval is within a tolerance of the paper's number (10% of our mean; "
    "increases over another method 5 percentage points; differences between accuracies 1 point); a "
    "claim holds in every comparison. **Better**: all of it is outside of the tolerance, on the better "
    "side. **Differs**: all of it is outside on the other side, or neither side is better; a claim "
    "fails in one comparison or more, all of them judged at once (Holm). **Undecided**: the interval "
    "allows for both, or there is none. With five seeds it is often wider than the tolerance, so that "
    "little can agree: that is a lack of runs, not a finding. Up to a target, intervals are longer by a "
    "round; a run that missed the target counts with what it had spent, which can only decide against "
    "it. Accuracies are means of the last three evaluations. **Not "
    "comparable**: measured, "
    "but on a stand-in for the paper's data or a part of it, with too few rounds to learn, or in a unit "
    "that the paper leaves open, such as seconds of its machine. **Not run**: not part of this "
    "profile, or failed. Numbers and claims are those of today's files of the experiments; some were "
    "added after results had been seen."
)


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
    it, `<profile>/<experiment>`, and the cells of experiments that are not finished.
    """
    judged, page = [judge(result) for result in load_results(folders)], Path(page)
    if page.suffix == ".md":
        text = _markdown(judged, _loaded(folders, UNFINISHED), page.parent)
    else:
        text = page_html(judged)
    write_bytes(page, text.encode())
    return page


def load_results(folders: Sequence[str | Path]) -> list[Result]:
    """All results below `folders`, in the order of the page."""
    for folder in folders:
        if not any(Path(folder).glob(f"*/{FILE}")):
            raise StagewiseError(f"{folder}: must hold folders with a {FILE}, which `run` writes")
    return in_order(_loaded(folders, FILE), lambda result: result.experiment)


def _loaded(folders: Sequence[str | Path], file: str) -> list[Result]:
    """All results in files of that name below `folders`, each once."""
    results: dict[tuple[str, str], tuple[Result, Path]] = {}
    for path in (path for folder in folders for path in sorted(Path(folder).glob(f"*/{file}"))):
        result = by_todays_file(load_result(path))
        name = (result.profile, result.experiment.id)
        if name in results:
            twice = f"{results[name][1]} is of the same experiment and profile"
            raise StagewiseError(f"{path}: must not be given twice, {twice}")
        results[name] = result, path
    return [result for result, _ in results.values()]


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
            svgs[picture_path(one)] = inline_svg(svg, name, title(one))
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


def _by_profile(judged: Sequence[Judged]) -> dict[ProfileName, list[Judged]]:
    found: dict[ProfileName, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.result.profile, []).append(one)
    return {name: found[name] for name in _TITLES if name in found}


def _markdown(judged: Sequence[Judged], unfinished: Sequence[Result], folder: Path) -> str:
    from stagewise_experiments.pictures import headline

    for profile, some in _by_profile(judged).items():
        write_files(folder / profile, headline.files(some))
        for one in some:
            place = folder / profile / one.result.experiment.id
            _write_outputs(one, place)
            save_result(one.result, place / FILE)
            (place / UNFINISHED).unlink(missing_ok=True)
    for begun in unfinished:
        place = folder / begun.profile / begun.experiment.id
        place.mkdir(parents=True, exist_ok=True)
        save_result(begun, place / UNFINISHED)
    return to_markdown(page_blocks(judged))


def _top() -> list[Block]:
    return [
        Heading(_TITLE, 1),
        Text(
            "Every figure and table of the paper run again, our numbers beside the paper's. **Pool** is "
            "the method that Stagewise uses by default; StagewiseHFL, OrigProbSolver and others with "
            "capitals are the paper's, in the strongest reading found of what its text says. The "
            "**certified optimum** of a round is the least cost that keeps every limit, proven by a "
            "solver. A round is **feasible** where every edge has enough data and balanced labels. "
            "[How verdicts are made](#rules).",
        ),
        Text(
            f"Made by Stagewise {__version__} from the results of `stagewise experiment run`.",
            quiet=True,
        ),
    ]


def _rules() -> list[Block]:
    return [Fold("How verdicts are made", [Text(_RULES)], "rules")]
