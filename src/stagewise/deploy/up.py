"""`deploy up`: a run with real processes, new, or resumed from where its files end."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stagewise.deploy.availability import estimates_after, observed_round
from stagewise.deploy.coordinator import Coordinator
from stagewise.deploy.costs import MeasuredCosts
from stagewise.deploy.deadlines import UNKNOWN_ANSWER_S, Deadlines
from stagewise.deploy.exchange import Transport
from stagewise.deploy.joining import admit, can_join, site_watch
from stagewise.deploy.options import DeployOptions, Resolved, check_repeats, resolve
from stagewise.deploy.records import (
    DEPLOYMENT,
    LIVE,
    LiveRecord,
    add_live,
    cut_live,
    deployment_file,
    load_deployment,
    load_live,
    save_status,
)
from stagewise.deploy.starting import Start, beside, starting
from stagewise.deploy.status import machine_folder
from stagewise.deploy.supervisor import LOGS
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.loop import PlayedRound
from stagewise.policies.policy import Policy
from stagewise.policies.registry import make_policy
from stagewise.runs.config import RunConfig
from stagewise.runs.directory import (
    CONFIG,
    ONLINE,
    SCENARIO,
    Recorder,
    RunDirectory,
    check_unused,
)
from stagewise.runs.metrics import RunMetrics
from stagewise.runs.progress import announce
from stagewise.runs.run import Run, load_run
from stagewise.runs.session import Session, policy_of_folder, policy_of_run
from stagewise.simulator.start import need_torch
from stagewise.world.rounds_file import save_rounds
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import Trainer

HOPS = {"H": 2, "F": 1, "in-process": 0}
"""How many messages one after the other ask a client and bring its answer: over its edge, or not."""

JOINING_WAIT_S = 10.0
"""How long a run that takes clients in waits for those who do not answer at once."""

START_S = 600.0
"""How long processes on this machine may take to start: a busy one has many to start."""


def up(
    out: str | Path,
    options: DeployOptions,
    show_progress: bool = False,
    metrics: RunMetrics | None = None,
) -> Run:
    """Train with real processes until the last round; all of them end with this call.

    Where `out` holds a deployed run, it goes on as it was begun; options may only repeat that. Clients
    that are added to the site meanwhile are taken in between two rounds.
    """
    need_torch()
    path = Path(out)
    if (path / CONFIG).exists():
        run = _resume(path, options, show_progress, metrics)
    else:
        if path.name in ("", ".."):
            raise StagewiseError(f"out = {shown(str(out))}: must end in the name of a new folder")
        check_unused(path)
        run = _start(path, options, show_progress, metrics)
    while not run.finished:  # clients have joined
        metrics = None if metrics is None else metrics.again()
        run = _resume(path, DeployOptions(), show_progress, metrics, JOINING_WAIT_S)
    return run


def _start(
    path: Path, options: DeployOptions, show_progress: bool, metrics: RunMetrics | None
) -> Run:
    config, world, deployment = begun = resolve(options)
    with _says_how_to_go_on(path), ExitStack() as stack, starting(path, show_progress) as start:
        start.phase(f"preparing {len(world.clients)} clients and {len(world.edges)} edges")
        trainer = stack.enter_context(_trainer(config, world))
        transport = stack.enter_context(_transport(path, begun, trainer, start))
        start.phase(f"connected; preparing {config.policy}")
        asked = (transport.roll_call(UNKNOWN_ANSWER_S) for _ in range(deployment.polls))
        polls = [observed_round(world, presence).online for presence in asked]
        world = estimates_after(world, polls)
        made = make_policy(config.policy, world, config.seed)
        if options.remedy is None and made.plan is None:  # nobody to lend
            config = msgspec.structs.replace(config, remedy=None)
        config = msgspec.structs.replace(config, scenario_sha256=world.sha256)
        config, policy = policy_of_run(config, made, RunDirectory(path))
        more = {DEPLOYMENT: deployment_file(deployment)}
        directory = RunDirectory.create(path, config, world, [], policy.plan, more)
        recorder = stack.enter_context(directory.recording())
        start.over()
        begun = config, world, deployment
        return run_session(
            directory, recorder, begun, transport, trainer, policy, show_progress, metrics
        )


def _resume(
    path: Path,
    options: DeployOptions,
    show_progress: bool,
    metrics: RunMetrics | None,
    wait_s: float | None = None,
) -> Run:
    directory = RunDirectory.open(path)
    for refused in directory.repair():
        announce(f"{refused}: the one before it is used")
    so_far = load_run(path)
    deployment = load_deployment(path)
    check_repeats(path, options, (so_far.config, so_far.scenario, deployment))
    if so_far.finished:
        return so_far
    if so_far.scenario.sha256 != so_far.config.scenario_sha256:
        raise StagewiseError(f"{path / SCENARIO}: must be as it was when the run began")
    if deployment.design != "in-process":
        admit(directory, machine_folder(path, deployment))
    config, world, _ = begun = directory.config(), directory.scenario(), deployment
    with _says_how_to_go_on(path), ExitStack() as stack, starting(path, show_progress) as start:
        recorder = stack.enter_context(directory.recording())
        start.phase(f"preparing to go on with round {len(so_far.records) + 1}")
        trainer = stack.enter_context(_trainer(config, world))
        if trainer.task.dataset.fingerprint != config.dataset_fingerprint:
            raise StagewiseError(
                f"{path}: the data set {shown(config.dataset)} must be the one the run began with"
            )
        if _watch(directory, begun)():
            # Others have joined meanwhile: on this machine their site is about to be written again.
            return so_far
        transport = stack.enter_context(_transport(path, begun, trainer, start, wait_s))
        start.phase(f"connected; going on with round {len(so_far.records) + 1}")
        policy = policy_of_folder(directory)
        start.over()
        return run_session(
            directory, recorder, begun, transport, trainer, policy, show_progress, metrics
        )


def run_session(
    directory: RunDirectory,
    recorder: Recorder,
    begun: Resolved,
    transport: Transport,
    trainer: "Trainer",
    policy: Policy,
    show_progress: bool = False,
    metrics: RunMetrics | None = None,
) -> Run:
    """The rounds that are left; each is complete once the checkpoint says so.

    The run that is returned is not finished if clients have joined its site.
    """
    path, done = directory.path, directory.complete
    config, world, deployment = begun
    coordinator = Coordinator(
        config=config,
        scenario=world,
        design=deployment.design,
        transport=transport,
        weights=trainer.initial_weights(),
        evaluate=trainer.evaluate,
        deadlines=Deadlines(deployment.deadline_factor, HOPS[deployment.design]),
        costs=MeasuredCosts(world),
        measured_costs=deployment.measured_costs,
        output_bias=trainer.output_bias,
        ends=_watch(directory, begun),
        report=lambda status: save_status(status, path),
    )
    rounds = directory.online(world)[:done]
    before = load_live(path, done)
    coordinator.restore(before)
    cut_live(path, done)
    count_live = _live_counters(metrics)
    for live in before:
        count_live(live)

    def write_down(played: PlayedRound) -> dict[str, bytes]:
        assert coordinator.live is not None
        rounds.append(played.decision.round)
        save_rounds(rounds, path / ONLINE)
        line = add_live(path, coordinator.live)
        count_live(coordinator.live)
        for fault in coordinator.live.faults:
            announce(f"round {played.decision.round.index + 1}: {fault}")
        return {LIVE: line}

    with _final_status(coordinator):
        run = Session(
            config,
            policy,
            coordinator.rounds,
            coordinator,
            before_checkpoint=write_down,
            show_progress=show_progress,
            metrics=metrics,
        ).run_in(directory, recorder)
    coordinator.end("finished" if run.finished else "starting")
    return run


def _watch(directory: RunDirectory, begun: Resolved) -> Callable[[], bool]:
    """What says whether clients have joined the site that the run is carried out on."""
    config, world, deployment = begun
    if deployment.design == "in-process":
        return lambda: False
    folder = machine_folder(directory.path, deployment)
    return site_watch(world, folder, TaskFile.of(config), partial(can_join, directory))


def _live_counters(metrics: RunMetrics | None) -> Callable[[LiveRecord], None]:
    """What counts a line of `live.jsonl`."""
    if metrics is None:
        return lambda live: None
    from stagewise.deploy.metrics import LiveMetrics

    return LiveMetrics(metrics.registry).add


@contextlib.contextmanager
def _final_status(coordinator: Coordinator) -> Iterator[None]:
    """Leave a status that says so where an error ends it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(StagewiseError):
            coordinator.end("stopped")
        raise


@contextlib.contextmanager
def _says_how_to_go_on(path: Path) -> Iterator[None]:
    """An error after a run began says where the logs are, and how to go on."""
    try:
        yield
    except StagewiseError as error:
        if not (path / CONFIG).exists():
            raise
        logs = machine_folder(path, load_deployment(path)) / LOGS
        more = f"; logs: {logs}" if logs.is_dir() else ""
        raise StagewiseError(f"{error}{more}; to go on: stagewise deploy up --out {path}") from None


def _trainer(config: RunConfig, world: Scenario) -> "Trainer":
    from stagewise.training import Trainer

    return Trainer(TaskFile.of(config).task(world))


def _transport(
    path: Path, begun: Resolved, trainer: "Trainer", start: Start, wait_s: float | None = None
) -> AbstractContextManager[Transport]:
    """What reaches the clients; processes on this machine live as long as the block.

    `wait_s` is how long other machines may take to come; None: as for a run that begins.
    """
    config, world, deployment = begun
    if deployment.design == "in-process":
        from stagewise.deploy.in_process import InProcess

        return contextlib.nullcontext(InProcess(world, trainer))
    if find_spec("flwr") is None:
        raise StagewiseError("deploy needs Flower: pip install 'stagewise-hfl[deploy]'")
    if deployment.site is not None:
        from stagewise.deploy.remote import WAIT_S, remote_transport

        return remote_transport(Path(deployment.site), world, start, wait_s or WAIT_S)
    from stagewise.deploy.processes import LocalSite

    site = LocalSite(world, deployment.design, TaskFile.of(config), beside(path))
    return site.running(START_S, start)
