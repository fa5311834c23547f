"""Commands that plan, decide, check and compare."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import stagewise
from stagewise.cli.log_lines import log_lines_to, print_status
from stagewise.cli.options import (
    REPLANNING,
    WRAPPERS,
    Json,
    Output,
    Seed,
    listed_methods,
    triggers_of,
    with_options,
)
from stagewise.cli.tables import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from stagewise.comparison import MethodSummary

ScenarioFile = Annotated[str, typer.Argument(help="Scenario file; - is standard input.")]
PlanFile = Annotated[str, typer.Argument(help="Plan file.")]
RoundsFile = Annotated[str, typer.Option("--online", help="Rounds file: who is online.")]
Seconds = Annotated[float | None, typer.Option(help="Time limit of one search, in seconds.")]
Risk = Annotated[str, typer.Option(help="exact, sampled or markov.")]
Prove = Annotated[
    bool,
    typer.Option(
        "--prove", help="Let exact settle the rounds that stay infeasible: a minute each."
    ),
]


def plan(
    scenario: ScenarioFile,
    output: Output,
    method: Annotated[
        str, typer.Option(help="pool, local-search, or paper: Algs. 2 and 3.")
    ] = "pool",
    risk: Risk = "exact",
    seed: Seed = 0,
    seconds: Seconds = None,
) -> None:
    """Plan A: choose the long-term clients of every edge."""
    world = stagewise.load_scenario(scenario)
    made = stagewise.plan(world, method=method, risk=risk, seed=seed, seconds=seconds)  # type: ignore[arg-type]
    stagewise.save_plan(made, output)
    state = "feasible" if made.feasible else f"{len(made.violations)} limits broken"
    print_status(
        f"{len(made.assignment)} long-term clients, objective {made.objective:.4f}, {state}, "
        f"{made.plan_ms / 1000:.2f} s"
    )


@with_options(WRAPPERS | REPLANNING | {"seconds": (Seconds, None), "prove": (Prove, False)})
def decide(
    scenario: ScenarioFile,
    plan: PlanFile,
    online: RoundsFile,
    output: Output,
    mode: Annotated[
        str, typer.Option(help="flexible, or strict: every online long-term client trains.")
    ] = "flexible",
    method: Annotated[
        str | None,
        typer.Option(help="repair, pool, or ccu: Alg. 4. Default: as the plan was made."),
    ] = None,
    **options: Any,
) -> None:
    """Plan B: decide round after round from a plan."""
    triggers = stagewise.Triggers(**triggers_of(options))
    world = stagewise.load_scenario(scenario)
    long_term = stagewise.load_plan(plan, world)
    rounds = stagewise.load_rounds(online, world)
    with (
        _progress("deciding", len(rounds)) as bar,
        log_lines_to(print_status, "stagewise.policies.proven"),
    ):
        decisions = stagewise.decide(
            long_term,
            rounds,
            mode=mode,  # type: ignore[arg-type]
            method=method,
            replanning=triggers,
            progress=lambda decision: bar.advance(),
            **options,
        )
    stagewise.save_decisions(decisions, output)


def solve(
    scenario: ScenarioFile,
    online: RoundsFile,
    output: Output,
    method: Annotated[str, typer.Option(help="See `stagewise methods`.")],
    seed: Seed = 0,
    seconds: Seconds = None,
    prove: Prove = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show incumbent, bound and gap on standard error.")
    ] = False,
) -> None:
    """Decide each round by any method, without a plan file."""
    world = stagewise.load_scenario(scenario)
    rounds = stagewise.load_rounds(online, world)
    with (
        _progress("solving", len(rounds)) as bar,
        log_lines_to(print_status, "stagewise.policies.proven"),
        log_lines_to(print_status if verbose else bar.note, "stagewise.policies.exact"),
    ):
        decisions = stagewise.solve(
            world,
            rounds,
            method=method,
            seed=seed,
            seconds=seconds,
            prove=prove,
            progress=lambda decision: bar.advance(),
        )
    stagewise.save_decisions(decisions, output)


def bound(
    scenario: ScenarioFile,
    online: RoundsFile,
    output: Output,
    plan: Annotated[
        str | None, typer.Option(help="A plan by pool, whose library saves making one.")
    ] = None,
    seconds: Seconds = None,
) -> None:
    """A lower bound on what each round costs, with prices that prove it to `check --bound`."""
    world = stagewise.load_scenario(scenario)
    rounds = stagewise.load_rounds(online, world)
    long_term = None if plan is None else stagewise.load_plan(plan, world)
    with _progress("bounding", len(rounds)) as bar:
        bounds = stagewise.bound(
            world, rounds, long_term, seconds=seconds, progress=lambda bound: bar.advance()
        )
    stagewise.save_bounds(bounds, output)


def check(
    scenario: ScenarioFile,
    decisions: Annotated[str, typer.Argument(help="Decisions file.")],
    online: RoundsFile,
    bounds: Annotated[
        str | None,
        typer.Option("--bound", help="Bounds file, recomputed from the prices in it alone."),
    ] = None,
) -> None:
    """Recompute every figure and constraint of a decisions file; exit 1 if anything is not true."""
    from stagewise.decisions import load_decision_records

    world = stagewise.load_scenario(scenario)
    records = load_decision_records(decisions)
    rounds = stagewise.load_rounds(online, world)
    lines, what = stagewise.check(world, records, rounds), f"{len(records)} decisions"
    if bounds is not None:
        from stagewise.bounds import load_bound_records

        proven = load_bound_records(bounds)
        lines += stagewise.check_bounds(world, proven, rounds, records)
        what += f" and {len(proven)} bounds"
    _verdict(lines, what)


def check_plan(scenario: ScenarioFile, plan: PlanFile, risk: Risk = "exact") -> None:
    """Recompute every figure and constraint of a plan file; exit 1 if anything is not true."""
    from stagewise.plans import load_plan_record

    world = stagewise.load_scenario(scenario)
    _verdict(stagewise.check_plan(world, load_plan_record(plan), risk), "plan")


def check_run(
    directory: Annotated[str, typer.Argument(help="Folder of a run.")],
) -> None:
    """Check a run's decisions, and that its records and checkpoints are as they were written."""
    from stagewise.runs.directory import RunDirectory

    run = RunDirectory.open(directory)
    faults, world, records = run.faults(), run.scenario(), run.decisions()
    faults += stagewise.check(world, records, run.online(world)[: len(records)])
    _verdict(faults, f"{len(records)} rounds")


def compare(
    scenario: ScenarioFile,
    online: RoundsFile,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between them. Default: all.")
    ] = None,
    seed: Seed = 0,
    seconds: Seconds = None,
    workers: Annotated[int, typer.Option(help="Processes that share the methods.")] = 1,
    json: Json = False,
) -> None:
    """All methods side by side on the same rounds."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from stagewise.world.checks import whole

    whole("--workers", workers, 1)
    world = stagewise.load_scenario(scenario)
    rounds = stagewise.load_rounds(online, world)
    names = stagewise.policy_names() if methods is None else listed_methods(methods)
    with ExitStack() as stack:
        executor = None
        if workers > 1:
            executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            stack.callback(executor.shutdown, cancel_futures=True)
        bar = stack.enter_context(_progress("comparing", len(names)))
        summaries = stagewise.compare(
            world,
            rounds,
            methods=names,
            seed=seed,
            seconds=seconds,
            executor=executor,
            progress=lambda summary: bar.advance(),
        )
    if json:
        print_json(summaries)
    else:
        _show(summaries)


def methods(json: Json = False) -> None:
    """The names of all methods, ours and those of installed packages, selectors among them."""
    from stagewise.policies.registry import ALIASES

    names = stagewise.policy_names()
    if json:
        print_json(names)
        return
    also = {name: f" (or {alias})" for alias, name in ALIASES.items()}
    typer.echo("\n".join(f"{name}{also.get(name, '')}" for name in names))
    selectors, associators = stagewise.selector_names(), stagewise.associator_names()
    typer.echo(f"\nselectors, for SELECTOR+ASSOCIATOR: {', '.join(selectors)}")
    typer.echo(f"associators: {', '.join(associators)}")
    typer.echo("\nbehind any name: +label-weights, for clients that count by their labels, too")


def _show(summaries: "list[MethodSummary]") -> None:
    headings = ["method", "cost", "delay (s)", "energy (J)", "clients", "KLD", "feasible"]
    headings += ["decision (ms)", "slowest (ms)", "Plan A (s)"]
    lines = [
        [
            s.method,
            f"{s.objective:.3f}",
            f"{s.delay_s:.3f}",
            f"{s.energy_j:.3f}",
            f"{s.clients:.1f}",
            f"{s.kld:.3f}",
            f"{s.feasible_rounds}/{s.rounds}",
            f"{s.decision_ms_median:.1f}",
            f"{s.decision_ms_max:.1f}",
            "" if s.plan_ms is None else f"{s.plan_ms / 1000:.2f}",
        ]
        for s in summaries
    ]
    rounds = summaries[0].rounds if summaries else 0
    print_table(headings, lines, f"{rounds} rounds, means over rounds")


def _verdict(problems: list[str], what: str) -> None:
    for problem in problems:
        typer.echo("\\n".join(problem.splitlines()))  # an id may have line breaks
    if problems:
        raise typer.Exit(1)
    typer.echo(f"{what}: everything is true")


class _Bar(NamedTuple):
    advance: "Callable[[], None]"
    note: "Callable[[str], None]"
    """Show a line of text beside the bar, in place of the last one."""


@contextmanager
def _progress(what: str, total: int) -> "Iterator[_Bar]":
    """A progress bar on standard error, where a person sees it."""
    if not sys.stderr.isatty():
        yield _Bar(lambda: None, lambda text: None)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn(what),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.description}", markup=False),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield _Bar(
            lambda: progress.advance(task), lambda text: progress.update(task, description=text)
        )
