"""Clients that are added to a site while a run goes on: it takes them in between two rounds."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from stagewise.deploy.layout import SCENARIO, SITE
from stagewise.deploy.options import same_system
from stagewise.deploy.site_scenario import read_cloud_folder
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError
from stagewise.policies.registry import make_policy
from stagewise.runs.directory import RunDirectory
from stagewise.runs.progress import announce
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import client_records, with_clients


def with_joined(world: Scenario, folder: Path, task: TaskFile) -> Scenario | None:
    """The run's scenario with the clients that the cloud's folder has beyond it; None: no others.

    Those must be able to train the run's task.
    """
    if not (folder / SCENARIO).exists():
        return None
    _, there, _ = read_cloud_folder(folder)
    new = client_records(there)[len(world.clients) :]
    if not new:
        return None
    grown = with_clients(world, new)
    if not same_system(there, grown):
        raise StagewiseError(
            f"{folder / SCENARIO}: must be that of the run, but for clients after those it has: "
            f"only clients can join"
        )
    task.task(grown)
    return grown


def can_join(directory: RunDirectory) -> bool:
    """Whether it will be known who joined: checkpoints of earlier versions do not say who was there."""
    return not directory.complete or bool(directory.defence())


def admit(directory: RunDirectory, folder: Path) -> None:
    """Let the run have the clients that joined: in its scenario, and in a new plan for its policy.

    Without those that cannot join, or not yet, it goes on as it is.
    """
    config, world = directory.config(), directory.scenario()
    try:
        grown = with_joined(world, folder, TaskFile.of(config))
    except StagewiseError as error:
        announce(f"{error}; the run goes on as it is")
        return
    if grown is None:
        return
    names = ", ".join(grown.clients.ids[len(world.clients) :])
    if not can_join(directory):
        announce(f"{names}: can join after the next round: the last is of an earlier version")
        return
    announce(f"{names}: joined, from round {directory.complete + 1} on")
    with closing(make_policy(config.policy, grown, config.seed)) as made:
        config = msgspec.structs.replace(config, scenario_sha256=grown.sha256)
        directory.change_scenario(config, grown, made.plan)


def site_watch(
    world: Scenario, folder: Path, task: TaskFile, ready: Callable[[], bool] = lambda: True
) -> Callable[[], bool]:
    """What says whether clients have joined the site since it was asked last, once the run is ready."""
    seen: list[tuple[int, ...]] = []
    unsettled = seen

    def joined() -> bool:
        nonlocal seen, unsettled
        found = [_stamp(folder / name) for name in (SCENARIO, SITE)]
        if found == seen or not ready():
            return False
        try:
            seen = found
            return with_joined(world, folder, task) is not None
        except StagewiseError as error:
            if found == unsettled:
                announce(f"{error}; the run goes on as it is")
            else:  # they may be on their way still: they are looked at again
                unsettled, seen = found, []
            return False

    return joined


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
