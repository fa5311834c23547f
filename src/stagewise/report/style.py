"""What all pictures share: how methods look, and what runs are called."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stagewise.errors import one_line
from stagewise.runs.run import Run


@dataclass(frozen=True)
class Style:
    """How one method is drawn in every picture."""

    colour: str
    marker: str
    line: str = "-"
    width: float = 1.4

    @property
    def size(self) -> float:
        """Of the marker: a star looks smaller than the others."""
        return 10 if self.marker == "*" else 5.5


# Okabe and Ito's colours for our method and the paper's, which people with any colour vision can tell
# apart, with a marker each; darker or paler ones for the methods that few pictures have.
METHODS = {
    "pool-flexible": Style("#d55e00", "*", width=2.6),
    "pool-strict": Style("#8c3b00", "*", "--", 2.0),
    "stagewise-paper": Style("#0072b2", "o", width=1.9),
    "orig-prob-solver": Style("#4d4d4d", "D", "--"),
    "kld-minimization": Style("#009e73", "s"),
    "client-sel-only": Style("#cc79a7", "^"),
    "c2e-assoc-only": Style("#e69f00", "v"),
    "c2e-greedy-assoc": Style("#56b4e9", "P"),
    "fedcs": Style("#999999", "X"),
    "exact": Style("#7b4fb0", "d", ":"),
    "local-search": Style("#7a9a01", "<", "-."),
    "stagewise-paper-flexible": Style("#66a9d8", "o", "--"),
    "stagewise-strict": Style("#3b4fa0", "h", "--"),
    "stagewise-flexible": Style("#8fa3d9", "p", "--"),
}
"""The only place where methods have colours."""
METHODS |= {"pool": METHODS["pool-flexible"], "paper": METHODS["stagewise-paper"]}
_OTHERS = ("#a6761d", "#b04a6f", "#2f8f9d", "#6b6b00")

# Paul Tol's: edges must not look like methods.
EDGE_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
LINES = ("-", "--", ":", "-.")

PALE = "#d9d9d9"
FAINT = "#b0b0b0"
WARNING = "#b0402a"


def style_of(method: str) -> Style:
    """Fixed for each method, so that pictures can be compared; that of any other depends on its name."""
    if method in METHODS:
        return METHODS[method]
    return Style(_OTHERS[zlib.crc32(method.encode()) % len(_OTHERS)], ">", "-.")


def colour(run: Run) -> str:
    """That of the run's policy."""
    return style_of(run.config.policy).colour


def line_styles(runs: Sequence[Run]) -> list[str]:
    """Lines of one colour differ in their strokes."""
    colours = [colour(run) for run in runs]
    return [LINES[colours[:n].count(c) % len(LINES)] for n, c in enumerate(colours)]


def edge_colour(number: int) -> str:
    return EDGE_COLOURS[number % len(EDGE_COLOURS)]


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
