"""What a person sees while cells run: a bar on a terminal, lines elsewhere; how long is left."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stagewise_experiments.results import CellResult

_LINE_SECONDS = 5.0
"""Lines come no faster than this: there are thousands of quick cells."""
_GUESS_SECONDS = 1.0
"""Nor guesses, which look at all cells that are left."""


class Progress:
    """Lines on standard error."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self._ends: float | None = None
        self._last_line = self._last_guess = -math.inf

    def print_line(self, text: str) -> None:
        """A line that stays."""
        print(text, file=sys.stderr, flush=True)

    def advance(self, cell: CellResult, left: Callable[[], float | None]) -> None:
        """A cell has ended; `left` guesses how many seconds remain, where that can be."""
        self.done += 1
        self.failed += cell.outputs is None
        now = time.monotonic()
        if now - self._last_guess >= _GUESS_SECONDS:
            seconds = left()
            self._last_guess, self._ends = now, None if seconds is None else now + seconds
        self.show(cell)

    def show(self, cell: CellResult) -> None:
        now = time.monotonic()
        if now - self._last_line >= _LINE_SECONDS or self.done == self.total:
            self._last_line = now
            took = "" if cell.seconds is None else f" in {_duration(cell.seconds)}"
            self.print_line(
                f"cell {self.done}/{self.total}: {cell_text(cell)}{took}; {self.rest()}"
            )

    def rest(self) -> str:
        """How long is left, in words."""
        if self.done == self.total:
            return "done"
        if self._ends is None:
            return "time left not known yet"
        return f"about {_duration(max(0.0, self._ends - time.monotonic()))} left"


class _Bar(Progress):
    def __init__(self, total: int, bar: Any) -> None:
        super().__init__(total)
        self._bar = bar
        self._task = bar.add_task("", total=total, progress=self)

    def print_line(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, cell: CellResult) -> None:
        failed = f"{self.failed} failed" if self.failed else ""
        self._bar.update(self._task, completed=self.done, description=failed)


@contextmanager
def show_progress(total: int) -> Iterator[Progress]:
    """Progress over so many cells."""
    if not sys.stderr.isatty():
        yield Progress(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(task.fields["progress"].rest())

    columns = (
        TextColumn("cells"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        Left(),
        TextColumn("{task.description}"),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(total, bar)


def cell_text(cell: CellResult) -> str:
    """The cell in words."""
    place = "".join(f", {name} {value}" for name, value in cell.point.items())
    return f"{cell.setting.measure}, {cell.policy}{place}, seed {cell.seed}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
