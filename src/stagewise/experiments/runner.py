"""Experiments from their cells to their files: what was done before is not done again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stagewise.errors import one_line
from stagewise.experiments.cache import Cache
from stagewise.experiments.cells import Cell, cells_of
from stagewise.experiments.code_version import code_version
from stagewise.experiments.dispatch import Job, Work, carry_out
from stagewise.experiments.executors import Workers
from stagewise.experiments.experiment import Experiment, ProfileName
from stagewise.experiments.inputs import data_of, missing_data
from stagewise.experiments.machine import Machine, this_machine
from stagewise.experiments.progress import Progress, following, named
from stagewise.experiments.results import FILE, CellResult, Result, save_result
from stagewise.experiments.timings import Timings, kinds_of
from stagewise.experiments.worker import Report, key_of, order_of, work

Present = Callable[[Result, Path], object]
"""Writes the pictures and the table of a result to a folder."""


@dataclass(frozen=True)
class _Undertaking:
    """An experiment with its cells, and the job that each is."""

    experiment: Experiment
    cells: list[Cell]
    jobs: list[Job]

    def is_done(self, reports: dict[str, Report]) -> bool:
        return all(job.key in reports for job in self.jobs)


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
    undertakings = []
    for experiment in experiments:
        cells = cells_of(experiment, profile, seeds=seeds, missing=missing)
        jobs = [_job(cell, device) for cell in cells]
        undertakings.append(_Undertaking(experiment, cells, jobs))
    jobs_by_key = {job.key: job for u in undertakings for job in u.jobs}
    cell_of = {job.key: c for u in undertakings for c, job in zip(u.cells, u.jobs, strict=True)}
    cache, timings = Cache(out), Timings()
    for setting, seconds in cache.timings():
        timings.learn(setting, seconds)
    reports = {key: report for key in jobs_by_key if (report := cache.get(key)) is not None}
    waiting = {key: kinds_of(cell_of[key].setting) for key in jobs_by_key if key not in reports}
    queue = [jobs_by_key[key] for key in _longest_first(waiting, timings)]
    failures = 0
    with following(len(waiting)) as progress:

        def finish(undertaking: _Undertaking) -> bool:
            result = _result(undertaking, profile, reports, device)
            return _write(result, out, present, progress)

        kept = f"{len(jobs_by_key)} cells, {len(reports)} kept from before"
        progress.say(f"{kept}; {workers.count} at the same time")
        pending = []
        for undertaking in undertakings:
            if undertaking.is_done(reports):
                failures += not finish(undertaking)
            else:
                pending.append(undertaking)
        for key, report in carry_out(queue, workers, work):
            reports[key] = report
            del waiting[key]
            cell = _cell_result(cell_of[key], key, report)
            if cell.outputs is None:
                failures += 1
                progress.say(f"failed: {named(cell)}: {cell.error}")
            else:
                cache.put(key, jobs_by_key[key].order, report)
                timings.learn(cell.setting, report["seconds"])
            progress.advance(cell, lambda: timings.left(waiting.values(), workers.count))
            for undertaking in [u for u in pending if u.is_done(reports)]:
                failures += not finish(undertaking)
                pending.remove(undertaking)
    return failures


def _job(cell: Cell, device: str) -> Job:
    order = order_of(cell.setting, device)
    return Job(key_of(order), order)


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
    try:
        present(result, folder)
    except Exception as error:  # the cells are safe, and the other experiments go on
        reason = one_line(f"{type(error).__name__}: {error}")
        progress.say(f"failed: {name}: no table and pictures: {reason}")
        return False
    failed = f", {len(result.failed)} failed" if result.failed else ""
    progress.say(f"{name}: {len(result.cells)} cells{failed}: {folder}")
    return True


def _result(
    undertaking: _Undertaking, profile: ProfileName, reports: dict[str, Report], device: str
) -> Result:
    experiment, cells = undertaking.experiment, undertaking.cells
    machines: list[Machine] = []
    for job in undertaking.jobs:
        if reports[job.key]["machine"] is not None:
            machine = msgspec.convert(reports[job.key]["machine"], Machine)
            machines += [machine] if machine not in machines else []
    datasets = list(dict.fromkeys(name for cell in cells for name in data_of(cell.setting)))
    named = {cell.setting.dataset for cell in cells}
    return Result(
        experiment=experiment,
        profile=profile,
        cells=[
            _cell_result(cell, job.key, reports[job.key])
            for cell, job in zip(cells, undertaking.jobs, strict=True)
        ],
        machines=machines or [this_machine(device)],
        code_version=code_version(),
        datasets=datasets,
        stand_ins={
            real: other
            for real, other in experiment.stand_ins.items()
            if real not in named and other in named
        },
    )


def _cell_result(cell: Cell, key: str, report: Report) -> CellResult:
    return CellResult(
        setting=cell.setting,
        point=cell.point,
        policy=cell.policy,
        seed=cell.seed,
        key=key,
        outputs=report["outputs"],
        error=report["error"],
        seconds=report["seconds"],
    )
