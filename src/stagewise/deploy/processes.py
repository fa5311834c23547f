"""A deployment on this machine: a SuperLink, edges and clients as processes on loopback."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from stagewise.deploy.certificates import OWNER_FOLDER
from stagewise.deploy.children import Children, free_ports
from stagewise.deploy.exchange import Transport
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.init import init_site
from stagewise.deploy.layout import PROGRAMS, host_folder
from stagewise.deploy.programs import ENVIRONMENT, HostPrograms, save_programs
from stagewise.deploy.remote import cloud_transport
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, Design, EdgeSite, Site
from stagewise.deploy.site_scenario import largest_message
from stagewise.deploy.starting import Start, all_must_answer, wait_for_links
from stagewise.deploy.supervisor import ProcessRecord, last_line, load_processes
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import explained
from stagewise.runs.directory import lock
from stagewise.runs.progress import announce
from stagewise.world.scenario import Scenario

HOST = "127.0.0.1"
SUPERVISOR = "supervisor"
MISTAKE = "with status 2"
"""How a program ends whose options or files are wrong: starting it again would not help."""

FAILURES = 5
"""A program that failed so often in a row does not start."""

LOOK_EVERY_S = 0.5
_PAUSE_S = 0.05


class LocalSite:
    """All processes of a deployment but the caller's own, which is the cloud's loop.

    A client is one process with a link to each edge that covers it (H) or one to the cloud (F); an edge
    of design H is one process. `programs` are what they run, by name; a supervisor keeps them running.
    """

    def __init__(self, scenario: Scenario, design: Design, task: TaskFile, folder: Path) -> None:
        self.scenario, self.task, self.folder = scenario, task, folder
        names = [*scenario.clients.ids, *scenario.edges.ids, CLOUD]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise StagewiseError(f"id = {shown(name)}: must be used once")
        self.site = _site_on_loopback(scenario, design)
        self.host_folder = host_folder(folder / "site", HOST)
        programs = HostPrograms(self.site, HOST, self.host_folder, largest_message(task))
        self.programs = {program.name: program for program in programs.all()}
        with explained(folder):
            # Keys are in it, and what programs print.
            folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
            folder.chmod(OWNER_FOLDER)
        environment = {**ENVIRONMENT, "FLWR_HOME": str(folder / "flower")}
        self.children = Children(folder / "logs", environment)

    @contextlib.contextmanager
    def running(self, start_s: float, start: Start | None = None) -> Iterator[Transport]:
        """Start everything, keys and logs in `folder`; all of it ends with the block.

        The block begins once every client has answered, which must take at most `start_s` seconds.
        """
        start = start or Start(self.folder)
        start.processes = self.pids
        deadline = time.monotonic() + start_s
        with contextlib.ExitStack() as stack:
            # Another `deploy up` must not get into the folder, whose keys a start makes again.
            with explained(self.folder):
                stream = stack.enter_context((self.folder / "lock").open("ab"))
            lock(stream, self.folder)
            stack.callback(self.children.end)
            start.phase(f"starting {len(self.programs)} processes")
            self._start(deadline)
            start.phase("waiting for the clients")
            reached = cloud_transport(self.site, self.scenario, self.host_folder)
            transport = stack.enter_context(reached)
            left_s = deadline - time.monotonic()
            check = self._check_running
            all_must_answer(wait_for_links(self.scenario, transport, left_s, start, check))
            with self._supervised():
                yield transport

    def processes(self) -> dict[str, ProcessRecord]:
        """What is known of each program."""
        return load_processes(self.host_folder)

    def pids(self) -> dict[str, int]:
        """The processes that run, by name."""
        own = self.children.running()
        if not own:
            return {}
        found = {name: each.pid for name, each in self.processes().items() if each.pid is not None}
        return own | found

    def _start(self, deadline: float) -> None:
        self._make_folders()
        self._start_supervisor()
        while not self._listens():
            self._check_running()
            if time.monotonic() > deadline:
                raise StagewiseError(f"{self.host_folder}: the cloud's SuperLink did not start")
            time.sleep(_PAUSE_S)

    def _start_supervisor(self) -> None:
        command = [sys.executable, "-m", "stagewise.deploy.apps.host", str(self.host_folder)]
        self.children.start(SUPERVISOR, command, say=True)

    @contextlib.contextmanager
    def _supervised(self) -> Iterator[None]:
        """Start the supervisor again, should it end, while the block runs."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(LOOK_EVERY_S):
                if self.children.ended() and not over.is_set():
                    announce("the supervisor ended, and with it all programs; it is started again")
                    self._start_supervisor()
            # The kernel ends the supervisor with the thread that started it.
            self.children.end()

        watcher = threading.Thread(target=watch, daemon=True, name="stagewise-supervised")
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _listens(self) -> bool:
        return self.children.listens(self.site.cloud.place[1])

    def _make_folders(self) -> None:
        """Again with every start: an earlier one may have been killed before it had all keys."""
        shutil.rmtree(self.folder / "site", ignore_errors=True)
        init_site(self.site, self.scenario, self.task, self.folder / "site")
        save_programs(self.programs.values(), self.host_folder / PROGRAMS)

    def _check_running(self) -> None:
        for name in self.children.ended():
            raise StagewiseError(f"{name}: ended: {last_line(self.children.log(name))}")
        for name, each in self.processes().items():
            if each.ended == MISTAKE or each.failures >= FAILURES:
                last = last_line(Path(each.log))
                raise StagewiseError(f"{name}: ended {each.ended}: {last} ({each.log})")


def _site_on_loopback(scenario: Scenario, design: Design) -> Site:
    """The site with every role on this machine."""
    covering, edges = covering_edges(scenario), scenario.edges.ids
    cloud, *ports = free_ports(1 + (len(edges) if design == "H" else 0))
    return Site(
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
