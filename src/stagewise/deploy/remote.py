"""The machines of a site, as the cloud reaches them: their programs run already, by their `run.sh`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stagewise.deploy.certificates import AUTHORITY
from stagewise.deploy.exchange import Transport
from stagewise.deploy.flat import Flat
from stagewise.deploy.hierarchical import Hierarchical
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.layout import SUPERLINK_SECRET
from stagewise.deploy.site import Site
from stagewise.deploy.site_scenario import read_cloud_folder
from stagewise.deploy.superlink import SuperLink
from stagewise.world.scenario import Scenario

WAIT_S = 90.0
"""How long machines may take to come; a run begins with those that have connected."""
_ROLL_CALL_S = 20.0


@contextlib.contextmanager
def remote_transport(folder: Path, wait_s: float = WAIT_S) -> Iterator[Transport]:
    """With the cloud's folder as `deploy init` wrote it, and the cloud's SuperLink running.

    The block begins once every client has answered, or `wait_s` have passed without some. Its end
    ends the run and leaves the machines as they are.
    """
    site, scenario, _ = read_cloud_folder(folder)
    with cloud_transport(site, scenario, folder) as transport:
        wait_for_clients(scenario, transport, wait_s)
        yield transport


@contextlib.contextmanager
def cloud_transport(site: Site, scenario: Scenario, folder: Path) -> Iterator[Transport]:
    """The site's design over the cloud's SuperLink, with the folder of the cloud's machine."""
    role = folder / site.cloud.role
    link = SuperLink(site.cloud.address, role / AUTHORITY, role / SUPERLINK_SECRET)
    with contextlib.closing(link):
        yield (Flat if site.design == "F" else Hierarchical)(scenario, link)


def wait_for_clients(
    scenario: Scenario,
    transport: Transport,
    wait_s: float,
    check: Callable[[], None] = lambda: None,
) -> list[tuple[str, str]]:
    """Call the roll until every client has answered through every edge, or `wait_s` have passed.

    Returns the links, by client and edge, that nobody answered through; `check` may end the wait.
    """
    deadline = time.monotonic() + wait_s
    links = [(client, e) for client, edges in covering_edges(scenario).items() for e in edges]
    missing = links
    while missing and (left_s := deadline - time.monotonic()) > 0:
        check()
        edges_of = transport.roll_call(min(left_s, _ROLL_CALL_S)).edges_of
        missing = [(client, e) for client, e in links if e not in edges_of.get(client, ())]
        if missing:
            time.sleep(min(left_s, 1.0))
    return missing
