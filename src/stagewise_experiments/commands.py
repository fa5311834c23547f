"""Commands for the paper's figures and tables: `stagewise experiment list`, `run`, `report`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stagewise.cli.simulation_commands import RunInterrupted
from stagewise.cli.tables import print_table
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise_experiments.executors import Workers
    from stagewise_experiments.experiment import Experiment

# Whatever needs NumPy is imported inside the commands, so that --help answers at once.

app = typer.Typer(
    help="The paper's figures and tables, beside the paper's own numbers.", no_args_is_help=True
)


@app.command(name="list")
def list_experiments(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The experiments by id, their sizes, and whether the data they need are found."""
    from stagewise_experiments.catalogue import load_all
    from stagewise_experiments.inputs import missing_data

    missing = missing_data()
    lines = [_line(experiment, missing) for experiment in load_all()]
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(lines).decode())
        return
    rows = []
    for line in lines:
        found = (n if state == "found" else f"{n} ({state})" for n, state in line["data"].items())
        sizes = (str(line["cells"].get(name, "")) for name in ("quick", "full"))
        rows.append([line["id"], line["paper"] or "ours", line["title"], *sizes, ", ".join(found)])
    headings = ["id", "the paper's", "title", "cells: quick", "full", "data"]
    print_table(headings, rows, f"{len(lines)} experiments", left=(0, 1, 2, 5))


def _line(experiment: "Experiment", missing: set[str]) -> dict[str, Any]:
    from stagewise_experiments.cells import cells_of
    from stagewise_experiments.inputs import data_of

    needed = dict.fromkeys(
        name
        for profile in experiment.profiles
        for cell in cells_of(experiment, profile, seeds=1)
        for name in data_of(cell.setting)
    )
    data = {}
    for name in needed:
        other = experiment.stand_ins.get(name)
        if name not in missing:
            data[name] = "found"
        elif other is not None and other.dataset not in missing:
            data[name] = f"missing, {other.dataset} runs"
        else:
            data[name] = "missing"
    return {
        "id": experiment.id,
        "paper": experiment.paper,
        "title": experiment.title,
        "cells": {
            profile: len(cells_of(experiment, profile, missing=missing))
            for profile in experiment.profiles
        },
        "data": data,
    }


@app.command()
def run(
    experiments: Annotated[
        list[str], typer.Argument(help="Ids as `list` has them, .toml files of your own, or all.")
    ],
    profile: Annotated[
        Literal["quick", "full"],
        typer.Option(help="quick: minutes on two cores; full: the paper's size."),
    ] = "quick",
    out: Annotated[
        str | None, typer.Option(help="Folder for results. Default: results/<profile>.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Cells at the same time. Default: one for each core.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers run the cells.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where models are trained.")] = "cpu",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds. Default: as the experiment says.")
    ] = None,
    regime: Annotated[
        Literal["calibrated", "literal"] | None,
        typer.Option(help="Costs as fitted to the paper's tables, or as its text reads."),
    ] = None,
) -> None:
    """Run experiments; what was run before into the same folder is not run again."""
    from stagewise_experiments.catalogue import choose
    from stagewise_experiments.cells import in_regime
    from stagewise_experiments.runner import run_experiments

    _need_matplotlib()
    from stagewise_experiments.page import write_outputs

    if workers is not None and cluster is not None:
        raise StagewiseError(f"workers = {workers}: must not be given together with cluster")
    chosen = choose(experiments)
    if regime is not None:
        chosen = [in_regime(experiment, regime) for experiment in chosen]
    if cluster is None and device != "cpu":
        from stagewise.training.device import device_of

        device_of(device)
    folder = Path(out) if out is not None else Path("results") / profile
    working = _workers(workers, cluster)
    try:
        with _ended_as_interrupted():
            failures = run_experiments(
                chosen,
                profile,
                folder,
                working,
                present=write_outputs,
                device=device,
                seeds=seeds,
            )
    except KeyboardInterrupt:
        raise RunInterrupted("interrupted; the same command goes on where this ended") from None
    finally:
        working.stop()
    if failures:
        raise typer.Exit(1)


@app.command()
def report(
    results: Annotated[
        list[str], typer.Argument(help="Folders that `run` wrote to, such as results/quick.")
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Page to write: .html, or .md with files beside it."),
    ],
) -> None:
    """One page about all results in one folder or several, with a switch between profiles."""
    _need_matplotlib()
    from stagewise_experiments.page import write_report

    for folder in results:
        if not Path(folder).is_dir():
            raise StagewiseError(f"results = {folder!r}: must be a folder that `run` wrote to")
    typer.echo(write_report(results, output))


def _workers(count: int | None, cluster: str | None) -> "Workers":
    from stagewise.cores import available_cores
    from stagewise_experiments.executors import ClusterWorkers, ProcessWorkers

    if cluster is not None:
        return ClusterWorkers(cluster)
    return ProcessWorkers(available_cores() if count is None else count)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C: batch systems send it, and a run in the background ignores Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come again while files are written
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise StagewiseError(
            "experiments need matplotlib: pip install 'stagewise-hfl[simulate]'"
        ) from None
