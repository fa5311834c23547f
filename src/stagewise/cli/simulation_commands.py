"""Commands that train: `stagewise simulate`, `resume`, and `report` of what they left."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import stagewise
from stagewise.cli.options import (
    METRICS_PORT,
    REPLANNING,
    TRAINED,
    WRAPPERS,
    DataDir,
    Seed,
    listed,
    option,
    triggers_of,
    with_options,
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


_PARTICIPATION = {
    "mean_session": option(float, 5.0, "markov: rounds a time online lasts in the mean."),
    "trace": option(str, None, "trace: file of device states."),
    "trace_states": option(
        str, "states_2", "trace: states_2, states_3_battery50 or states_3_battery75."
    ),
    "round_seconds": option(
        float, 600.0, "trace, time-of-day: seconds from one round to the next."
    ),
    "fluctuate": option(
        bool, False, "Draw channel gains and CPUs again in each round.", "--fluctuate"
    ),
}


@with_options(
    {
        "dataset": option(str, "mnist5k", "See `stagewise data`."),
        "data_dir": (DataDir, None),
        "image_size": option(int, None, "Folders of images: pixels along each side [64]."),
        "policy": option(str, "pool", "See `stagewise methods`."),
        "rounds": option(int, 30, "Number of rounds."),
        "seed": (Seed, 0),
        "scenario": option(str, None, "Scenario file. Default: the paper's, scaled to the data."),
        **TRAINED,
        "momentum": option(float, 0.0, "Of each local step."),
        "weight_decay": option(float, 0.0, "Of each local step."),
        "dtype": option(
            str, "float32", "float32, float64, or bfloat16 for products of float32 weights."
        ),
        "device": option(str, "cpu", "Where to train: cpu, cuda, cuda:N or mps."),
        "participation": option(str, "bernoulli", "Who is online: bernoulli, markov or trace."),
        **_PARTICIPATION,
        **REPLANNING,
        "plan_delay": option(int, 1, "Rounds from the order of a plan to its use."),
        "forecast": option(
            str,
            "rolling",
            "New plans: presence by rolling (Eq. 6), markov, time-of-day or mixture.",
        ),
        **WRAPPERS,
        "aggregator": option(
            str, "mean", "mean, plain-mean (nothing is judged), trimmed-mean, median or multi-krum."
        ),
        "quarantine_rounds": option(
            int, 10, "Rounds without a client whose updates were rejected twice; 0: never."
        ),
        "keep_checkpoints": option(int, 3, "How many of the last checkpoints to keep."),
        "evaluate_every": option(int, 1, "Rounds from one evaluation to the next."),
        "stop_at_accuracy": option(
            float, None, "End when the mean accuracy of three evaluations is at least this."
        ),
        "workers": (Workers, None),
        "log": (Loggers, None),
        "metrics_port": METRICS_PORT,
    }
)
def simulate(
    out: Annotated[str, typer.Option(help="Folder to write the run to; must be new or empty.")],
    **options: Any,
) -> None:
    """Train under a policy, round after round; `stagewise resume` goes on after any interruption."""
    take = options.pop
    with interruptible(out, f"interrupted; to go on: stagewise resume {out}"):
        run = stagewise.simulate(
            out=out,
            participation=stagewise.Participation(
                model=take("participation"), **{name: take(name) for name in _PARTICIPATION}
            ),
            replanning=stagewise.Replanning(
                delay_rounds=take("plan_delay"),
                forecast=take("forecast"),
                **triggers_of(options),
            ),
            workers=_workers(take("workers"), options["device"]),
            loggers=listed(take("log")),
            show_progress=True,
            **options,
        )
    _print_summary(run, out)


def resume(
    directory: Annotated[str, typer.Argument(help="Folder of a run.")],
    workers: Workers = None,
    log: Loggers = None,
) -> None:
    """Go on with a run that was interrupted."""
    from stagewise.runs.directory import RunDirectory

    for refused in RunDirectory.open(directory).repair():
        print(f"stagewise: {refused}: the one before it is used", file=sys.stderr)
    so_far = stagewise.load_run(directory)
    with interruptible(directory, f"interrupted; to go on: stagewise resume {directory}"):
        processes = _workers(workers, so_far.config.device)
        run = stagewise.resume(
            directory, workers=processes, show_progress=True, loggers=listed(log)
        )
    if so_far.finished:
        print(f"{directory}: finished already", file=sys.stderr)
    _print_summary(run, directory)


def rollback(
    directory: Annotated[str, typer.Argument(help="Folder of a run that is not going on.")],
    to: Annotated[int, typer.Option(help="The last round to keep, as in rounds.jsonl, from 0.")],
) -> None:
    """Undo the rounds after one whose checkpoint is kept; the run can go on from there."""
    from stagewise.runs.directory import RunDirectory

    RunDirectory.open(directory).roll_back(to)
    print(f"{directory}: goes on after round {to}", file=sys.stderr)


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
    from stagewise.report.summary import sentence, summary

    loaded = [stagewise.load_run(path) for path in runs]
    if pictures is not None:
        save_pictures(loaded, pictures, picture_format, round)
    save_page(loaded, output, round)
    if output != STANDARD_STREAM:
        print_table(*summary(loaded))
        print(sentence(loaded))


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
