"""Experiments from their cells to their files: what was done before is not done again."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from stagewise.errors import one_line
from stagewise_experiments.cache import Cache
from stagewise_experiments.cells import Cell, cells_of
from stagewise_experiments.code_version import code_version
from stagewise_experiments.dispatch import Job, Work, run_jobs
from stagewise_experiments.executors import Workers
from stagewise_experiments.experiment import Experiment, ProfileName
from stagewise_experiments.inputs import data_of, missing_data
from stagewise_experiments.machine import Machine, this_machine
from stagewise_experiments.progress import Progress, cell_text, show_progress
from stagewise_experiments.results import FILE, UNFINISHED, CellResult, Result, save_result
from stagewise_experiments.timings import Timings, kinds_of
from stagewise_experiments.worker import Report, Request, key_of, request_of, work

Present = Callable[[Result, Path], object]
"""Writes the pictures and the table of a result to a folder."""


class _Planned(NamedTuple):
    """An experiment with its cells, and the key of each."""

    experiment: Experiment
    cells: list[Cell]
    keys: list[str]


def run_experiments(
    experiments: list[Experiment],
    profile: ProfileName,
    out: Path,
    workers: Workers,
    *,
    present: Present,
    device: str = "cpu",
    seeds: int | None = None,
    work: Work = work,
) -> int:
    """Run all cells as one queue, the longest first; write an experiment's files after its last.

    Cells that `out` keeps are not run, and a cell of several experiments is run once. The number of
    failures comes back: cells, and experiments whose pictures could not be made.
    """
    missing = missing_data()
    requests: dict[str, Request] = {}
    cell_of: dict[str, Cell] = {}
    unwritten = []
    for experiment in experiments:
        cells = cells_of(experiment, profile, seeds=seeds, missing=missing)
        made = [request_of(cell.setting, device) for cell in cells]
        keys = [key_of(request) for request in made]
        requests |= zip(keys, made, strict=True)
        cell_of |= zip(keys, cells, strict=True)
        unwritten.append(_Planned(experiment, cells, keys))
    cache, timings = Cache(out), Timings()
    for setting, seconds in cache.timings():
        timings.learn(setting, seconds)
    cache.take_results(device)
    reports = {key: report for key in requests if (report := cache.get(key)) is not None}
    waiting = {key: kinds_of(cell_of[key].setting) for key in requests if key not in reports}
    shared = {"decisions": str(cache.decisions)}
    queue = [Job(key, requests[key] | shared) for key in _longest_first(waiting, timings)]
    failures = 0
    with show_progress(len(waiting)) as progress:

        def write_finished() -> int:
            """Write the experiments whose cells are all done; how many could not be presented."""
            done = [one for one in unwritten if all(key in reports for key in one.keys)]
            for one in done:
                unwritten.remove(one)
            results = [_result(one, profile, reports, device) for one in done]
            return sum(not _write(result, out, present, progress) for result in results)

        known = f"{len(requests)} cells, {len(reports)} kept from before"
        progress.print_line(f"{known}; {workers.count} at the same time")
        failures += write_finished()
        try:
            for key, report in run_jobs(queue, workers, work):
                cell = _cell_result(cell_of[key], key, report)
                if cell.outputs is None:
                    failures += 1
                    progress.print_line(f"failed: {cell_text(cell)}: {cell.error}")
                else:
                    cache.put(key, requests[key], report)
                    timings.learn(cell.setting, report["seconds"])
                reports[key] = report
                del waiting[key]
                progress.advance(cell, lambda: timings.left(waiting.values(), workers.count))
                failures += write_finished()
        finally:
            for one in unwritten:
                _write_unfinished(_result(one, profile, reports, device), out)
    return failures


def _longest_first(kinds: dict[str, tuple[str, ...]], timings: Timings) -> list[str]:
    """Keys by the time they are expected to take; before them, in order, those of no known time."""
    expected = {key: timings.expected(alike) for key, alike in kinds.items()}
    return sorted(kinds, key=lambda key: (expected[key] is not None, -(expected[key] or 0.0)))


def _write(result: Result, out: Path, present: Present, progress: Progress) -> bool:
    """Write the experiment's files; whether all could be."""
    name = result.experiment.id
    folder = out / name
    folder.mkdir(exist_ok=True)
    save_result(result, folder / FILE)
    (folder / UNFINISHED).unlink(missing_ok=True)
    try:
        present(result, folder)
    except Exception as error:  # the cells are safe, and the other experiments go on
        reason = one_line(f"{type(error).__name__}: {error}")
        progress.print_line(f"failed: {name}: no table and pictures: {reason}")
        return False
    failed = f", {len(result.failed)} failed" if result.failed else ""
    progress.print_line(f"{name}: {len(result.cells)} cells{failed}: {folder}")
    return True


def _write_unfinished(result: Result, out: Path) -> None:
    """Write the cells that are done, to go on from here or on another machine."""
    if result.cells:
        folder = out / result.experiment.id
        folder.mkdir(exist_ok=True)
        save_result(result, folder / UNFINISHED)


def _result(
    planned: _Planned, profile: ProfileName, reports: dict[str, Report], device: str
) -> Result:
    """The result as far as its cells are done."""
    cells: list[CellResult] = []
    machines: list[Machine] = []
    for cell, key in zip(planned.cells, planned.keys, strict=True):
        if key not in reports:
            continue
        machine = msgspec.convert(reports[key]["machine"], Machine | None)
        if machine is not None and machine not in machines:
            machines.append(machine)
        place = 0 if machine is None else machines.index(machine)
        cells.append(_cell_result(cell, key, reports[key], place))
    ran = {cell.setting.dataset for cell in planned.cells}
    return Result(
        experiment=planned.experiment,
        profile=profile,
        cells=cells,
        machines=machines or [this_machine(device)],
        code_version=code_version(),
        datasets=list(dict.fromkeys(name for cell in cells for name in data_of(cell.setting))),
        stand_ins={
            real: other.dataset
            for real, other in planned.experiment.stand_ins.items()
            if real not in ran and other.dataset in ran
        },
    )


def _cell_result(cell: Cell, key: str, report: Report, machine: int = 0) -> CellResult:
    return CellResult(
        setting=cell.setting,
        point=cell.point,
        policy=cell.policy,
        seed=cell.seed,
        key=key,
        outputs=report["outputs"],
        error=report["error"],
        seconds=report["seconds"],
        machine=machine,
    )
