"""What all pictures share: the names and colours of runs."""

from collections import Counter
from collections.abc import Sequence

from stagewise.errors import one_line
from stagewise.runs.run import Run

# Okabe and Ito's colours, which people with any colour vision can tell apart; grey for their black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
# Paul Tol's: edges must not look like runs.
EDGE_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
LINES = ("-", "--", ":", "-.")

PALE = "#d9d9d9"
FAINT = "#b0b0b0"
WARNING = "#b0402a"


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def edge_colour(number: int) -> str:
    return EDGE_COLOURS[number % len(EDGE_COLOURS)]


def line_style(number: int) -> str:
    """Lines of one colour differ in their strokes."""
    return LINES[number // len(COLOURS) % len(LINES)]


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run, no two alike: its folder's, with the policy where that adds to it."""
    names = [
        run.name if run.config.policy in run.name else f"{run.name} ({run.config.policy})"
        for run in runs
    ]
    names = [one_line(name, 40) for name in names]
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{number}: {name}"
        for number, name in enumerate(names, start=1)
    ]
