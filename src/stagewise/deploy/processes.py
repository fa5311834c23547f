"""A deployment on this machine: SuperLinks, SuperNodes and executors as processes on loopback."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from stagewise.deploy.certificates import OWNER_FOLDER
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.commands import ENVIRONMENT
from stagewise.deploy.exchange import Transport
from stagewise.deploy.in_process import covering_edges, missing_links
from stagewise.deploy.init import init_site
from stagewise.deploy.layout import host_folder
from stagewise.deploy.programs import Programs, Server, Worker
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, Design, EdgeSite, Site
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.deploy.superlink import SuperLink

HOST = "127.0.0.1"
START_S = 180.0
"""How long everything may take to start."""

_POLL_S = 20.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class LocalSite:
    """All processes of a deployment but the caller's own, which is the cloud's loop.

    To be used in a `with` block, whose end ends them all; `transport` reaches them. A client is one
    executor and a SuperNode for each edge that covers it (H) or one for the cloud (F); an edge of design
    H is a SuperLink, a SuperNode and a server.
    """

    transport: Transport

    def __init__(
        self,
        scenario: Scenario,
        design: Design,
        folder: Path,
        programs: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.scenario, self.folder, self._own_programs = scenario, folder, programs or {}
        names = [*scenario.clients.ids, *scenario.edges.ids, CLOUD]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise StagewiseError(f"id = {shown(name)}: must be used once")
        self.site, ports = _site_on_loopback(scenario, design)
        self._programs = Programs(
            self.site,
            HOST,
            host_folder(self._site_folder, HOST),
            iter(ports),
            python=sys.executable,
            supernode=str(Path(sys.executable).with_name("flower-supernode")),
        )
        self._servers = {server.owner: server for server in self._programs.servers()}
        self._workers = {worker.owner: worker for worker in self._programs.workers()}
        # Models and tokens will be in it, in files that Flower lets everybody read.
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        folder.chmod(OWNER_FOLDER)
        environment = {**ENVIRONMENT, **_ONE_THREAD, "FLWR_HOME": str(folder / "flower")}
        self._children = Children(folder / "logs", environment)
        self._link: SuperLink | None = None

    @classmethod
    def start(
        cls,
        scenario: Scenario,
        task: TaskFile,
        design: Design,
        folder: Path,
        *,
        programs: Mapping[str, Sequence[str]] | None = None,
        start_s: float = START_S,
    ) -> Self:
        """Start everything, keys and logs in `folder`; returns once every client has answered.

        `programs` are what Python is to run for a client instead of its own program.
        """
        site = cls(scenario, design, folder, programs)
        try:
            site._start(task, time.monotonic() + start_s)
        except BaseException:
            site.close()
            raise
        return site

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run and all processes."""
        link, self._link = self._link, None
        try:
            if link is not None:
                link.close()
        finally:
            self._children.end()

    def processes(self) -> dict[str, int]:
        """The ids of all running processes, by name."""
        return self._children.running()

    def kill(self, name: str) -> None:
        """Kill all processes of a client or an edge at once, as a power cut would."""
        worker = self._worker(name)
        names = [worker.name, *(node.name for node in worker.nodes)]
        names += [self._servers[name].name] if name in self._servers else []
        for process in names:
            self._children.kill(process)

    def restart(self, name: str) -> None:
        """Start a client or an edge again, under its old keys; it is online once it answers."""
        from stagewise.deploy.flower_api import deactivate_node

        self.kill(name)
        worker, running = self._worker(name), self._children.running()
        up = {server.address for server in self._servers.values() if server.name in running}
        for node in worker.nodes:
            if node.address in up:
                deactivate_node(node.address, worker.role.authority, node.key)
        if name in self._servers:
            self._start_server(self._servers[name], START_S)
        self._start_worker(worker)

    @property
    def _site_folder(self) -> Path:
        return self.folder / "site"

    def _worker(self, name: str) -> Worker:
        if name not in self._workers:
            raise StagewiseError(
                f"name = {shown(name)}: must be a client or an edge with processes"
            )
        return self._workers[name]

    def _make_folders(self, task: TaskFile) -> None:
        """Again with every start: an earlier one may have been killed before it had all keys."""
        shutil.rmtree(self._site_folder, ignore_errors=True)
        init_site(self.site, self.scenario, task, self._site_folder)

    def _start(self, task: TaskFile, deadline: float) -> None:
        from stagewise.deploy.flat import Flat
        from stagewise.deploy.flower_api import register_node
        from stagewise.deploy.hierarchical import Hierarchical
        from stagewise.deploy.superlink import SuperLink

        self._make_folders(task)
        for server in self._servers.values():
            self._children.start(server.name, server.command)
        for server in self._servers.values():
            left = deadline - time.monotonic()
            self._children.wait_for_port(server.name, server.port, left)
            for name, key in server.members.items():
                register_node(server.address, server.role.authority, key, name)
        for worker in self._workers.values():
            self._start_worker(worker)
        cloud = self._servers[CLOUD]
        self._link = SuperLink(cloud.address, cloud.role.authority, cloud.role.superlink_secret)
        design = Flat if self.site.design == "F" else Hierarchical
        self.transport = design(self.scenario, self._link)
        self._wait_for_all(deadline)

    def _start_server(self, server: Server, deadline_s: float) -> None:
        # Its database outlasts a SuperLink that is killed, and so does what it knows of nodes.
        self._children.start(server.name, server.command)
        self._children.wait_for_port(server.name, server.port, deadline_s)

    def _start_worker(self, worker: Worker) -> None:
        for node in worker.nodes:
            self._children.start(node.name, node.command)
        command = list(worker.command)
        command[1:3] = self._own_programs.get(worker.owner, command[1:3])
        self._children.start(worker.name, command)

    def _wait_for_all(self, deadline: float) -> None:
        while True:
            if ended := self._children.ended():
                raise StagewiseError(f"{ended[0]}: ended: {self._children.last_line(ended[0])}")
            left = max(deadline - time.monotonic(), 0.1)
            missing = missing_links(self.scenario, self.transport.roll_call(min(left, _POLL_S)))
            if not missing:
                return
            if time.monotonic() >= deadline:
                client, edge = missing[0]
                raise StagewiseError(f"{client} at {edge}: must answer, and did not in time")


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
