"""Commands that train: `stagewise simulate`, `resume`, and `report` of what they left."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stagewise.cli.options import (
    Diversity,
    Remedy,
    ReplanAbsence,
    ReplanChange,
    ReplanCost,
    ReplanEvery,
)
from stagewise.cli.tables import print_table
from stagewise.errors import StagewiseError
from stagewise.files import STANDARD_STREAM

if TYPE_CHECKING:
    from stagewise.runs.run import Run

# Whatever needs NumPy or PyTorch is imported inside the commands, so that --help answers at once.

Workers = Annotated[
    int | None,
    typer.Option(
        help="Processes that share the training. Default: one for each core, and one on a device."
    ),
]
Loggers = Annotated[
    str | None, typer.Option("--log", help="tensorboard, mlflow, or both with a comma between.")
]


class RunInterrupted(Exception):
    """Ctrl-C in a run; the message says how to go on."""


def simulate(
    out: Annotated[str, typer.Option(help="Folder to write the run to; must be new or empty.")],
    dataset: Annotated[str, typer.Option(help="See `stagewise data`.")] = "mnist5k",
    data_dir: Annotated[
        str | None, typer.Option(help="Folder of data sets. Default: $STAGEWISE_DATA.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Folders of images: pixels along each side [64].")
    ] = None,
    policy: Annotated[str, typer.Option(help="See `stagewise methods`.")] = "pool",
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    scenario: Annotated[
        str | None, typer.Option(help="Scenario file. Default: the paper's, scaled to the data.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="mnist-cnn, lenet5, cifar-cnn, ... Default: by the data set.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Of each local step. Default: by the model.")
    ] = None,
    momentum: Annotated[float, typer.Option(help="Of each local step.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Of each local step.")] = 0.0,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:N or mps.")] = "cpu",
    participation: Annotated[
        str, typer.Option(help="Who is online: bernoulli, markov or trace.")
    ] = "bernoulli",
    mean_session: Annotated[
        float, typer.Option(help="markov: rounds a time online lasts in the mean.")
    ] = 5.0,
    trace: Annotated[str | None, typer.Option(help="trace: file of device states.")] = None,
    trace_states: Annotated[
        str, typer.Option(help="trace: states_2, states_3_battery50 or states_3_battery75.")
    ] = "states_2",
    round_seconds: Annotated[
        float, typer.Option(help="trace: seconds from one round to the next.")
    ] = 600.0,
    fluctuate: Annotated[
        bool, typer.Option("--fluctuate", help="Draw channel gains and CPUs again in each round.")
    ] = False,
    replan_every: ReplanEvery = None,
    replan_cost: ReplanCost = None,
    replan_change: ReplanChange = None,
    replan_absence: ReplanAbsence = None,
    plan_delay: Annotated[
        int, typer.Option(help="Rounds from the order of a plan to its use.")
    ] = 1,
    remedy: Remedy = None,
    diversity: Diversity = 0.0,
    evaluate_every: Annotated[
        int, typer.Option(help="Rounds from one evaluation to the next.")
    ] = 1,
    stop_at_accuracy: Annotated[
        float | None, typer.Option(help="End when the test accuracy is at least this.")
    ] = None,
    workers: Workers = None,
    log: Loggers = None,
) -> None:
    """Train under a policy, round after round; `stagewise resume` goes on after any interruption."""
    with _interruptible(out):
        from stagewise.runs.config import Participation, Replanning
        from stagewise.simulator.start import simulate as start

        run = start(
            scenario,
            dataset,
            policy,
            rounds,
            seed,
            out,
            data_dir=data_dir,
            image_size=image_size,
            model=model,
            learning_rate=learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
            dtype=dtype,
            device=device,
            participation=Participation(
                model=participation,  # type: ignore[arg-type]
                mean_session=mean_session,
                trace=trace,
                trace_states=trace_states,
                round_seconds=round_seconds,
                fluctuate=fluctuate,
            ),
            replanning=Replanning(
                every=replan_every,
                cost_factor=replan_cost,
                change_factor=replan_change,
                absence_gap=replan_absence,
                delay_rounds=plan_delay,
            ),
            remedy=remedy,  # type: ignore[arg-type]
            diversity=diversity,
            evaluate_every=evaluate_every,
            stop_at_accuracy=stop_at_accuracy,
            workers=_workers(workers, device),
            show_progress=True,
            loggers=_names(log),
        )
    _print_summary(run, out)


def resume(
    directory: Annotated[str, typer.Argument(help="Folder of a run.")],
    workers: Workers = None,
    log: Loggers = None,
) -> None:
    """Go on with a run that was interrupted."""
    from stagewise.runs.directory import RunDirectory
    from stagewise.runs.run import load_run

    RunDirectory.open(directory)
    so_far = load_run(directory)
    with _interruptible(directory):
        from stagewise.simulator.start import resume as go_on

        processes = _workers(workers, so_far.config.device)
        run = go_on(directory, workers=processes, show_progress=True, loggers=_names(log))
    if so_far.finished:
        print(f"{directory}: finished already", file=sys.stderr)
    _print_summary(run, directory)


def report(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="HTML file to write; - is standard output.")
    ],
    pictures: Annotated[
        str | None, typer.Option(help="Folder for the pictures, as files of their own.")
    ] = None,
    picture_format: Annotated[str, typer.Option(help="png or svg.")] = "png",
    round: Annotated[
        int | None, typer.Option(help="The round on the map, from 1. Default: the last.")
    ] = None,
) -> None:
    """One page about runs, with curves, a table and a map; it needs no network."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise StagewiseError(
            "report needs matplotlib: pip install 'stagewise-hfl[simulate]'"
        ) from None
    from stagewise.report.page import save_page
    from stagewise.report.pictures import save_pictures
    from stagewise.report.summary import summary
    from stagewise.runs.run import load_run

    loaded = [load_run(path) for path in runs]
    if pictures is not None:
        save_pictures(loaded, pictures, picture_format, round)
    save_page(loaded, output, round)
    if output != STANDARD_STREAM:
        print_table(*summary(loaded))


@contextmanager
def _interruptible(directory: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if not (Path(directory) / "config.toml").exists():
            raise
        raise RunInterrupted(f"interrupted; to go on: stagewise resume {directory}") from None


def _workers(asked: int | None, device: str) -> int:
    from stagewise.simulator.start import need_torch

    need_torch()
    from stagewise.cores import available_cores

    if asked is not None:
        return asked
    return available_cores() if device == "cpu" else 1


def _names(log: str | None) -> list[str]:
    return [] if log is None else [name.strip() for name in log.split(",")]


def _print_summary(run: "Run", directory: str) -> None:
    accuracy = "not evaluated" if run.accuracy is None else f"accuracy {run.accuracy:.4f}"
    cost = sum(record.objective for record in run.records)
    feasible = sum(record.feasible for record in run.records)
    print(
        f"{directory}: {len(run.records)} rounds, {accuracy}, total cost {cost:.2f}, "
        f"{feasible} rounds feasible",
        file=sys.stderr,
    )
