"""The machines of a site, as the cloud reaches them: their programs run already, by their `run.sh`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stagewise.deploy.certificates import AUTHORITY
from stagewise.deploy.exchange import Transport
from stagewise.deploy.flat import Flat
from stagewise.deploy.hierarchical import Hierarchical
from stagewise.deploy.layout import SITE, SUPERLINK_SECRET
from stagewise.deploy.site import Site, load_site
from stagewise.deploy.starting import Start, listed, wait_for_links
from stagewise.deploy.superlink import SuperLink
from stagewise.world.scenario import Scenario

WAIT_S = 90.0
"""How long machines may take to come; a run begins with those that have connected."""


@contextlib.contextmanager
def remote_transport(
    folder: Path, scenario: Scenario, start: Start, wait_s: float = WAIT_S
) -> Iterator[Transport]:
    """With the cloud's folder as `deploy init` wrote it, and the cloud's SuperLink running.

    `scenario` is the run's: that of the folder may have clients which have not joined it yet. The
    block begins once every client has answered, or `wait_s` have passed without some. Its end ends the
    run and leaves the machines as they are.
    """
    with cloud_transport(load_site(folder / SITE), scenario, folder) as transport:
        start.phase("waiting for the clients")
        missing = wait_for_links(scenario, transport, wait_s, start)
        if missing:
            names = [f"{client} at {edge}" for client, edge in missing]
            start.phase(f"going on without {listed(names)}")
        yield transport


@contextlib.contextmanager
def cloud_transport(site: Site, scenario: Scenario, folder: Path) -> Iterator[Transport]:
    """The site's design over the cloud's SuperLink, with the folder of the cloud's machine."""
    role = folder / site.cloud.role
    link = SuperLink(site.cloud.address, role / AUTHORITY, role / SUPERLINK_SECRET)
    with contextlib.closing(link):
        yield (Flat if site.design == "F" else Hierarchical)(scenario, link)
