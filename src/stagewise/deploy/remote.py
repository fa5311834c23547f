"""The machines of a site, as the cloud reaches them: their programs run already, by their `run.sh`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from stagewise.deploy.exchange import Transport
from stagewise.deploy.in_process import missing_links
from stagewise.deploy.layout import SCENARIO, SITE, TASK, Role
from stagewise.deploy.site import Site, load_site
from stagewise.deploy.task import TaskFile
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import load_scenario

if TYPE_CHECKING:
    from stagewise.deploy.superlink import SuperLink


WAIT_S = 90.0
"""How long machines may take to come; a run begins with those that have connected."""
_POLL_S = 20.0


@dataclass
class RemoteSite:
    """The cloud's end of a deployment on several machines; `transport` reaches the others.

    To be used in a `with` block, whose end ends the run and leaves the machines as they are.
    """

    site: Site
    scenario: Scenario
    task: TaskFile
    transport: Transport
    _link: SuperLink

    @classmethod
    def connect(cls, folder: Path, wait_s: float = WAIT_S) -> Self:
        """With the cloud's folder as `deploy init` wrote it, and the cloud's SuperLink running.

        Returns once every client has answered, or `wait_s` have passed without some.
        """
        from stagewise.deploy.flat import Flat
        from stagewise.deploy.hierarchical import Hierarchical
        from stagewise.deploy.superlink import SuperLink

        site, scenario, task = read_cloud_folder(folder)
        files = Role.cloud(folder)
        link = SuperLink(site.cloud.address, files.authority, files.superlink_secret)
        design = Flat if site.design == "F" else Hierarchical
        remote = cls(site, scenario, task, design(scenario, link), link)
        try:
            remote._wait(wait_s)
        except BaseException:
            remote.close()
            raise
        return remote

    def _wait(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while (left := deadline - time.monotonic()) > 0:
            if not missing_links(self.scenario, self.transport.roll_call(min(left, _POLL_S))):
                return
            time.sleep(min(left, 1.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run; the site's SuperLinks and nodes stay."""
        self._link.close()


def read_cloud_folder(folder: Path) -> tuple[Site, Scenario, TaskFile]:
    """What the cloud is to train, and with whom."""
    site = load_site(folder / SITE)
    scenario = load_scenario(folder / SCENARIO)
    site.check_scenario(scenario)
    return site, scenario, TaskFile.load(folder / TASK)
