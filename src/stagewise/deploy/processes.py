"""A deployment on this machine: SuperLinks, SuperNodes and executors as processes on loopback."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from stagewise.deploy.certificates import OWNER_FOLDER
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.exchange import Transport
from stagewise.deploy.flower_api import register_node
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.init import init_site
from stagewise.deploy.layout import host_folder
from stagewise.deploy.programs import ENVIRONMENT, Programs
from stagewise.deploy.remote import cloud_transport
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, Design, EdgeSite, Site
from stagewise.deploy.starting import Start, all_must_answer, wait_for_links
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import explained
from stagewise.runs.directory import lock
from stagewise.world.scenario import Scenario

HOST = "127.0.0.1"
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class LocalSite:
    """All processes of a deployment but the caller's own, which is the cloud's loop.

    A client is one executor and a SuperNode for each edge that covers it (H) or one for the cloud
    (F); an edge of design H is a SuperLink, a SuperNode and a server. `commands` are what they run,
    by name.
    """

    def __init__(self, scenario: Scenario, design: Design, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        names = [*scenario.clients.ids, *scenario.edges.ids, CLOUD]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise StagewiseError(f"id = {shown(name)}: must be used once")
        self.site, ports = _site_on_loopback(scenario, design)
        self.host_folder = host_folder(folder / "site", HOST)
        programs = Programs(self.site, HOST, self.host_folder, iter(ports), sys.executable)
        self._servers = programs.servers()
        self.commands = {server.name: server.command for server in self._servers}
        for worker in programs.workers():
            self.commands |= worker.commands
        with explained(folder):
            # Models and tokens will be in it, in files that Flower lets everybody read.
            folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
            folder.chmod(OWNER_FOLDER)
        environment = {**ENVIRONMENT, **_ONE_THREAD, "FLWR_HOME": str(folder / "flower")}
        self.children = Children(folder / "logs", environment)

    @contextlib.contextmanager
    def running(
        self, task: TaskFile, start_s: float, start: Start | None = None
    ) -> Iterator[Transport]:
        """Start everything, keys and logs in `folder`; all of it ends with the block.

        The block begins once every client has answered, which must take at most `start_s` seconds.
        """
        start = start or Start(self.folder)
        start.processes = self.children.running
        deadline = time.monotonic() + start_s
        with contextlib.ExitStack() as stack:
            # Another `deploy up` must not get into the folder, whose databases a start removes.
            with explained(self.folder):
                stream = stack.enter_context((self.folder / "lock").open("ab"))
            lock(stream, self.folder)
            stack.callback(self.children.end)
            start.phase(f"starting {len(self.commands)} processes")
            self._start(task, deadline)
            start.phase("waiting for the clients")
            reached = cloud_transport(self.site, self.scenario, self.host_folder)
            transport = stack.enter_context(reached)
            left_s = deadline - time.monotonic()
            check = self._check_running
            all_must_answer(wait_for_links(self.scenario, transport, left_s, start, check))
            yield transport

    def _start(self, task: TaskFile, deadline: float) -> None:
        self._make_folders(task)
        for server in self._servers:
            self.children.start(server.name, server.command)
        for server in self._servers:
            left_s = deadline - time.monotonic()
            self.children.wait_for_port(server.name, server.at.place[1], left_s)
            for name, key in server.members.items():
                register_node(server.at.address, server.authority, key, name)
        for name in [*self.commands][len(self._servers) :]:
            self.children.start(name, self.commands[name])

    def _make_folders(self, task: TaskFile) -> None:
        """Again with every start: an earlier one may have been killed before it had all keys."""
        shutil.rmtree(self.folder / "site", ignore_errors=True)
        init_site(self.site, self.scenario, task, self.folder / "site")

    def _check_running(self) -> None:
        for name in self.children.ended():
            raise StagewiseError(f"{name}: ended: {self.children.last_line(name)}")


def _site_on_loopback(scenario: Scenario, design: Design) -> tuple[Site, list[int]]:
    """The site with every role on this machine, and ports for its SuperNodes."""
    covering, edges = covering_edges(scenario), scenario.edges.ids
    servers, nodes = 1, len(covering)
    if design == "H":
        servers, nodes = 1 + len(edges), len(edges) + len(scenario.links)
    cloud, *ports = free_ports(servers + nodes)
    site = Site(
        design=design,
        cloud=Cloud(host=HOST, port=cloud),
        edges=tuple(
            EdgeSite(id=edge, host=HOST, port=ports.pop()) if design == "H" else EdgeSite(id=edge)
            for edge in edges
        ),
        clients=tuple(
            ClientSite(id=client, host=HOST, edges=covered) for client, covered in covering.items()
        ),
    )
    return site, ports
