"""What a person sees while a run goes on: a bar on a terminal, a line a round elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stagewise.runs.records import RoundRecord

Advance = Callable[[RoundRecord], None]


def announce(message: str) -> None:
    """A line on standard error."""
    print(message, file=sys.stderr)


@contextmanager
def progress(total: int, done: int) -> Iterator[Advance]:
    """Progress on standard error; yields what is to be called after each round."""
    if not sys.stderr.isatty():
        yield lambda record: announce(f"{_round(record, total)}  {_figures(record)}{_rest(record)}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # A round takes long: the time left is to follow from the last few, not from the last second.
    bar = Progress(*columns, console=Console(stderr=True), speed_estimate_period=300)
    with bar:
        task = bar.add_task(f"round {done}/{total}", total=total, completed=done, figures="")

        def advance(record: RoundRecord) -> None:
            bar.update(task, advance=1, description=_round(record, total), figures=_figures(record))

        yield advance


def _round(record: RoundRecord, total: int) -> str:
    return f"round {record.round + 1}/{total}"


def _figures(record: RoundRecord) -> str:
    accuracy = "" if record.accuracy is None else f"accuracy {record.accuracy:.4f}  "
    return f"{accuracy}cost {record.objective:.4g}"


def _rest(record: RoundRecord) -> str:
    return f"  {record.clients} clients{'' if record.feasible else '  infeasible'}"
