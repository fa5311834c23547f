"""`deploy up`: a run with real processes, new or taken up again where its files stand."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stagewise.deploy.availability import estimates_after, observed_round
from stagewise.deploy.deadlines import UNKNOWN_ANSWER_S
from stagewise.deploy.records import DEPLOYMENT, Deployment, deployment_file, load_deployment
from stagewise.deploy.remaining import LivePlanPolicy, LivePolicy
from stagewise.deploy.session import LiveSession
from stagewise.deploy.task import TaskFile
from stagewise.deploy.transport import Transport
from stagewise.deploy.wanted import Wanted, check_repeats, resolve
from stagewise.errors import StagewiseError, shown
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.policy import Policy
from stagewise.simulator.config import RunConfig
from stagewise.simulator.decider import make_policy
from stagewise.simulator.directory import CONFIG, SCENARIO, RunDirectory, check_unused, lock
from stagewise.simulator.policy_again import plan_b, policy_again
from stagewise.simulator.progress import announce
from stagewise.simulator.run import Run, load_run
from stagewise.simulator.start import need_torch
from stagewise.world.scenario import BoolArray, Scenario

if TYPE_CHECKING:
    from stagewise.training import TrainingTeam

START_S = 600.0
"""How long processes on this machine may take to start: a busy one has many to start."""


def up(out: str | Path, wanted: Wanted, show_progress: bool = False) -> Run:
    """Train with real processes until the last round; all of them end with this call.

    Where `out` holds a deployed run, it goes on as it was begun; what is wanted may only repeat that.
    """
    need_torch()
    path = Path(out)
    if (path / CONFIG).exists():
        return _again(path, wanted, show_progress)
    if path.name in ("", ".."):
        raise StagewiseError(f"out = {shown(str(out))}: must end in the name of a new folder")
    check_unused(path)
    return _anew(path, wanted, show_progress)


def local_folder(out: Path) -> Path:
    """Where the keys, databases and logs of the processes on this machine are."""
    whole = out.resolve()
    return whole.with_name(f"{whole.name}.site")


def _anew(path: Path, wanted: Wanted, show_progress: bool) -> Run:
    config, world, deployment = resolve(wanted)
    with ExitStack() as stack:
        team = stack.enter_context(_team(config, world))
        _tell(show_progress, f"starting {len(world.clients)} clients and {len(world.edges)} edges")
        transport = stack.enter_context(_transport(path, deployment, config, world, team))
        _tell(show_progress, f"connected; preparing {config.policy}")
        world = estimates_after(world, _polls(world, transport, deployment.polls))
        policy = live_policy(config, make_policy(config.policy, world, config.seed), world)
        plan = policy.plan if isinstance(policy, StagewisePolicy) else None
        config = msgspec.structs.replace(
            config, scenario_sha256=world.sha256, plan_b=plan_b(policy)
        )
        beside = {DEPLOYMENT: deployment_file(deployment)}
        directory = RunDirectory.create(path, config, world, [], plan, beside)
        recorder = stack.enter_context(directory.recording())
        session = LiveSession(deployment, config, world, policy, transport, team, show_progress)
        return session.run(directory, recorder)


def _again(path: Path, wanted: Wanted, show_progress: bool) -> Run:
    directory, so_far = RunDirectory.open(path), load_run(path)
    deployment = load_deployment(path)
    config, world = so_far.config, so_far.scenario
    check_repeats(path, wanted, (config, world, deployment))
    if so_far.finished:
        return so_far
    if world.sha256 != config.scenario_sha256:
        raise StagewiseError(f"{path / SCENARIO}: must be as it was when the run began")
    with ExitStack() as stack:
        recorder = stack.enter_context(directory.recording())
        team = stack.enter_context(_team(config, world))
        if team.task.dataset.fingerprint != config.dataset_fingerprint:
            raise StagewiseError(
                f"{path}: the data set {shown(config.dataset)} must be the one the run began with"
            )
        transport = stack.enter_context(_transport(path, deployment, config, world, team))
        _tell(show_progress, f"connected; going on with round {len(so_far.records) + 1}")
        policy = live_policy(config, policy_again(directory, config, world), world)
        session = LiveSession(deployment, config, world, policy, transport, team, show_progress)
        return session.run(directory, recorder)


def live_policy(config: RunConfig, policy: Policy, world: Scenario) -> Policy:
    """The policy as one that minds which edges are there."""
    remedy = config.remedy or "lend"
    if isinstance(policy, StagewisePolicy):
        return LivePlanPolicy(
            policy.plan, policy.method, policy.mode, policy.diversity, remedy=remedy
        )
    if config.replanning.wanted:
        raise StagewiseError(
            f"policy = {config.policy!r}: must be one that follows a plan, for replanning"
        )
    return LivePolicy(policy, lambda left: make_policy(config.policy, left, config.seed), remedy)


def _team(config: RunConfig, world: Scenario) -> "TrainingTeam":
    from stagewise.training import TrainingTeam

    return TrainingTeam(TaskFile.of(config).task(world))


@contextlib.contextmanager
def _transport(
    path: Path, deployment: Deployment, config: RunConfig, world: Scenario, team: "TrainingTeam"
) -> Iterator[Transport]:
    """What reaches the clients; processes on this machine live as long as the block."""
    if deployment.design == "in-process":
        from stagewise.deploy.in_process import InProcess

        yield InProcess(world, team)
        return
    if find_spec("flwr") is None:
        raise StagewiseError("deploy needs Flower: pip install 'stagewise-hfl[deploy]'")
    if deployment.site is not None:
        from stagewise.deploy.remote import RemoteSite

        with RemoteSite.connect(Path(deployment.site)) as remote:
            yield remote.transport
        return
    from stagewise.deploy.processes import LocalSite

    task = TaskFile.of(config)
    folder = local_folder(path)
    with (
        _alone(folder),
        LocalSite.start(world, task, deployment.design, folder, start_s=START_S) as site,
    ):
        yield site.transport


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep another `deploy up` out of `folder`, whose databases a start removes."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stream = (folder / "lock").open("ab")
    except OSError as error:
        raise StagewiseError(f"{folder}: cannot be written: {error.strerror}") from None
    with stream:
        lock(stream, folder)
        yield


def _polls(world: Scenario, transport: Transport, polls: int) -> list[BoolArray]:
    """Who answers before the first round, again and again."""
    asked = (transport.who_is_there(UNKNOWN_ANSWER_S) for _ in range(polls))
    return [observed_round(world, presence).online for presence in asked]


def _tell(show: bool, message: str) -> None:
    if show:
        announce(message)
