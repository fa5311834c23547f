"""Runs in figures: a line each."""

from collections.abc import Callable, Sequence

import numpy as np

from stagewise.report.style import labels
from stagewise.runs.run import Run


def summary(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """The headings of a table about `runs`, and its lines as text."""
    lines = [
        [name, *(text(run) for _, text in _COLUMNS)]
        for run, name in zip(runs, labels(runs), strict=True)
    ]
    return ["run", *(heading for heading, _ in _COLUMNS)], lines


def sentence(runs: Sequence[Run]) -> str:
    """What `runs` come to: accuracy, cost beside the first one's, and in how many rounds limits held."""
    base = _cost(runs[0])
    said = []
    for run, name in zip(runs, labels(runs), strict=True):
        if not run.records:
            said.append(f"{name} has no rounds yet")
            continue
        compared = said and base > 0
        cost = f"{_cost(run) / base:.2f} times that" if compared else f"a cost of {_cost(run):.1f}"
        accuracy = _accuracy(run) or "no accuracy"
        said.append(
            f"{name} ends at {accuracy} for {cost}, all limits kept in {_feasible(run, ' of ')} rounds"
        )
    return f"{'; '.join(said)}."


def _cost(run: Run) -> float:
    return sum(record.objective for record in run.records)


def _mean(field: str, digits: int) -> Callable[[Run], str]:
    def text(run: Run) -> str:
        values = [getattr(record, field) for record in run.records]
        return f"{np.mean(values):.{digits}f}" if values else ""

    return text


def _rounds(run: Run) -> str:
    done, planned = len(run.records), run.config.rounds
    return f"{done}" if run.finished else f"{done} of {planned}"


def _accuracy(run: Run) -> str:
    return "" if run.accuracy is None else f"{100 * run.accuracy:.1f}%"


def _best(run: Run) -> str:
    known = [(r.accuracy, -r.round) for r in run.records if r.accuracy is not None]
    return f"{100 * max(known)[0]:.1f}% in round {1 - max(known)[1]}" if known else ""


def _feasible(run: Run, separator: str = "/") -> str:
    return f"{sum(record.feasible for record in run.records)}{separator}{len(run.records)}"


def _decision(run: Run) -> str:
    times = [record.decision_ms for record in run.records]
    return f"{np.median(times):.1f}" if times else ""


_COLUMNS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("rounds", _rounds),
    ("accuracy", _accuracy),
    ("best accuracy", _best),
    ("total cost", lambda run: f"{_cost(run):.1f}"),
    ("delay (s)", _mean("delay_s", 3)),
    ("energy (J)", _mean("energy_j", 2)),
    ("clients", _mean("clients", 1)),
    ("feasible", _feasible),
    ("decision (ms), median", _decision),
    ("Plan A (s), all", lambda run: f"{sum(run.plan_ms) / 1000:.1f}" if run.plan_ms else ""),
    ("time (s)", lambda run: f"{sum(record.wall_s for record in run.records):.0f}"),
)
