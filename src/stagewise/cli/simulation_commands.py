"""Commands that train: `stagewise simulate`, `resume`, and `report` of what they left."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import stagewise
from stagewise.cli.options import (
    DataDir,
    Diversity,
    LearningRate,
    ModelName,
    Remedy,
    ReplanAbsence,
    ReplanChange,
    ReplanCost,
    ReplanEvery,
    Seed,
    listed,
)
from stagewise.cli.tables import print_table
from stagewise.errors import StagewiseError
from stagewise.files import STANDARD_STREAM

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
    data_dir: DataDir = None,
    image_size: Annotated[
        int | None, typer.Option(help="Folders of images: pixels along each side [64].")
    ] = None,
    policy: Annotated[str, typer.Option(help="See `stagewise methods`.")] = "pool",
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 30,
    seed: Seed = 0,
    scenario: Annotated[
        str | None, typer.Option(help="Scenario file. Default: the paper's, scaled to the data.")
    ] = None,
    model: ModelName = None,
    learning_rate: LearningRate = None,
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
    given = dict(locals())
    own = {name: given.pop(name) for name in _PARTICIPATION}
    triggers = {field: given.pop(name) for name, field in _REPLANNING.items()}
    with interruptible(out, f"interrupted; to go on: stagewise resume {out}"):
        given |= {"workers": _workers(workers, device), "loggers": listed(given.pop("log"))}
        online = stagewise.Participation(model=participation, **own)  # type: ignore[arg-type]
        run = stagewise.simulate(
            **given | {"participation": online},
            replanning=stagewise.Replanning(**triggers),
            show_progress=True,
        )
    _print_summary(run, out)


_PARTICIPATION = ("mean_session", "trace", "trace_states", "round_seconds", "fluctuate")
_REPLANNING = {
    "replan_every": "every",
    "replan_cost": "cost_factor",
    "replan_change": "change_factor",
    "replan_absence": "absence_gap",
    "plan_delay": "delay_rounds",
}


def resume(
    directory: Annotated[str, typer.Argument(help="Folder of a run.")],
    workers: Workers = None,
    log: Loggers = None,
) -> None:
    """Go on with a run that was interrupted."""
    so_far = stagewise.load_run(directory)
    with interruptible(directory, f"interrupted; to go on: stagewise resume {directory}"):
        processes = _workers(workers, so_far.config.device)
        run = stagewise.resume(
            directory, workers=processes, show_progress=True, loggers=listed(log)
        )
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

    loaded = [stagewise.load_run(path) for path in runs]
    if pictures is not None:
        save_pictures(loaded, pictures, picture_format, round)
    save_page(loaded, output, round)
    if output != STANDARD_STREAM:
        print_table(*summary(loaded))


@contextmanager
def interruptible(directory: str, message: str) -> Iterator[None]:
    """Say how to go on where Ctrl-C comes when there is a run in `directory`."""
    try:
        yield
    except KeyboardInterrupt:
        if not (Path(directory) / "config.toml").exists():
            raise
        raise RunInterrupted(message) from None


def _workers(asked: int | None, device: str) -> int:
    from stagewise.simulator.start import need_torch

    need_torch()
    from stagewise.cores import available_cores

    if asked is not None:
        return asked
    return available_cores() if device == "cpu" else 1


def print_outcome(run: "stagewise.Run", directory: str, more: str = "") -> None:
    """Say on standard error how far a run came and how well its model does."""
    accuracy = "not evaluated" if run.accuracy is None else f"accuracy {run.accuracy:.4f}"
    print(f"{directory}: {len(run.records)} rounds, {accuracy}{more}", file=sys.stderr)


def _print_summary(run: "stagewise.Run", directory: str) -> None:
    cost = sum(record.objective for record in run.records)
    feasible = sum(record.feasible for record in run.records)
    print_outcome(run, directory, f", total cost {cost:.2f}, {feasible} rounds feasible")
