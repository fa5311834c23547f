"""A deployment on this machine: SuperLinks, SuperNodes and executors as processes on loopback."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from stagewise.deploy.certificates import (
    OWNER_FOLDER,
    Authority,
    NodeKey,
    ServerCertificate,
    issue_server_certificate,
    make_authority,
    make_node_key,
    make_secret,
)
from stagewise.deploy.children import Children, free_ports, wait_for_port
from stagewise.deploy.commands import (
    ENVIRONMENT,
    client_command,
    edge_command,
    superlink_command,
    supernode_command,
)
from stagewise.deploy.in_process import links_of
from stagewise.deploy.site import Design
from stagewise.deploy.task import TaskFile
from stagewise.deploy.transport import Transport
from stagewise.errors import StagewiseError, shown
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario

if TYPE_CHECKING:
    from stagewise.deploy.superlink import SuperLink

HOST = "127.0.0.1"
START_S = 180.0
"""How long everything may take to start."""
CLOUD = "cloud"

_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@dataclass
class LocalSite:
    """All processes of a deployment but the caller's own, which is the cloud's loop.

    To be used in a `with` block, whose end ends them all; `transport` reaches them. A client is one
    executor and a SuperNode for each edge that covers it (H) or one for the cloud (F); an edge of design
    H is a SuperLink, a SuperNode and a server.
    """

    scenario: Scenario
    design: Design
    folder: Path
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
        site = cls(scenario, design, folder, programs or {})
        try:
            site._start(task, start_s)
        except BaseException:
            site.close()
            raise
        return site

    def __post_init__(self) -> None:
        self._secret = self.folder / "site.secret"
        self._authority = Authority.of(self.folder / "authority")
        self._server = ServerCertificate.of(self.folder / "server")
        environment = dict(ENVIRONMENT) | _ONE_THREAD | {"FLWR_HOME": str(self.folder / "flower")}
        # Models and tokens will be in it, in files that Flower lets everybody read.
        self.folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        self.folder.chmod(OWNER_FOLDER)
        self._children = Children(self.folder / "logs", environment)
        self._link: SuperLink | None = None
        self.transport: Transport
        links = links_of(self.scenario)
        edges = self.scenario.edges.ids if self.design == "H" else ()
        # A SuperNode is named after its owner and the SuperLink it is at.
        self._at: dict[tuple[str, str], int] = {}
        for client in self.scenario.clients.ids:
            for place in links[client] if self.design == "H" else (CLOUD,):
                self._at[client, place] = 0
        self._at.update({(edge, CLOUD): 0 for edge in edges})
        self._links = dict.fromkeys((CLOUD, *edges), 0)
        ports = free_ports(len(self._at) + len(self._links))
        self._at = dict(zip(self._at, ports, strict=False))
        self._links = dict(zip(self._links, ports[len(self._at) :], strict=True))
        self._edges = frozenset(edges)
        names = [*self.scenario.clients.ids, *edges, CLOUD]
        for number, name in enumerate(names):
            if name in names[:number] or Path(name).name != name:
                raise StagewiseError(f"id = {shown(name)}: must be a file's name, and used once")

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
        for process in self._processes_of(name):
            self._children.kill(process)

    def restart(self, name: str) -> None:
        """Start a client or an edge again, under its old keys; it is there once it answers."""
        from stagewise.deploy.superlink import deactivate_node

        self.kill(name)
        for owner, place in self._at:
            if owner == name and f"{place}.superlink" in self._children.running():
                key = self._key(owner, place).private
                deactivate_node(self.address(place), self._server.authority, key)
        if name in self._edges:
            self._start_superlink(name)
            wait_for_port(self._children, f"{name}.superlink", self._links[name], START_S)
            self._start_edge(name)
        else:
            self._start_client(name)

    def _start(self, task: TaskFile, start_s: float) -> None:
        give_up = time.monotonic() + start_s
        self._make_keys()
        task.save(self.folder / "task.json")
        save_scenario(self.scenario, self.folder / "scenario.json")
        for place in self._links:
            # An earlier one may still hold nodes to be online, and would refuse them.
            for path in self.folder.glob(f"{place}.db*"):
                path.unlink()
            self._start_superlink(place)
        for place, port in self._links.items():
            left = give_up - time.monotonic()
            wait_for_port(self._children, f"{place}.superlink", port, left)
        self._register()
        for edge in sorted(self._edges):
            self._start_edge(edge)
        for client in self.scenario.clients.ids:
            self._start_client(client)
        self._connect()
        self._wait_for_all(give_up)

    def _make_keys(self) -> None:
        """All anew: an earlier start may have been killed before it had them all."""
        for part in ("authority", "server", "nodes"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
        self._secret.unlink(missing_ok=True)
        authority = make_authority(self._authority.key.parent)
        issue_server_certificate(authority, self._server.key.parent, [HOST])
        for owner, place in self._at:
            make_node_key(self.folder / "nodes", f"{owner}@{place}")
        make_secret(self.folder, self._secret.stem)

    def _register(self) -> None:
        from stagewise.deploy.superlink import register_node

        for owner, place in self._at:
            key = self._key(owner, place).public
            register_node(self.address(place), self._server.authority, key, owner)

    def _start_superlink(self, place: str) -> None:
        # Its database outlasts a SuperLink that is killed, and so does what it knows of nodes.
        command = superlink_command(
            HOST,
            self._links[place],
            self._server,
            self._secret,
            self._database(place),
            python=sys.executable,
        )
        self._children.start(f"{place}.superlink", command)

    def _start_node(self, owner: str, place: str) -> int:
        """The port where the SuperNode's executor finds it."""
        port = self._at[owner, place]
        command = supernode_command(
            owner,
            self.address(place),
            self._server.authority,
            self._key(owner, place).private,
            port,
            self._secret,
            program=_program("flower-supernode"),
        )
        self._children.start(f"{owner}@{place}", command)
        return port

    def _start_client(self, client: str) -> None:
        ports = [self._start_node(owner, place) for owner, place in self._at if owner == client]
        command = client_command(
            client,
            ports,
            self._secret,
            self.folder / "task.json",
            self.folder / "scenario.json",
            python=sys.executable,
        )
        if client in self.programs:
            command[1:3] = self.programs[client]
        self._children.start(client, command)

    def _start_edge(self, edge: str) -> None:
        port = self._start_node(edge, CLOUD)
        command = edge_command(
            edge,
            port,
            self._secret,
            self.address(edge),
            self._server.authority,
            self._secret,
            python=sys.executable,
        )
        self._children.start(edge, command)

    def address(self, place: str) -> str:
        """Where the SuperLink of the cloud or of an edge listens."""
        return f"{HOST}:{self._links[place]}"

    def _key(self, owner: str, place: str) -> NodeKey:
        return NodeKey.of(self.folder / "nodes", f"{owner}@{place}")

    def _database(self, place: str) -> Path:
        return self.folder / f"{place}.db"

    def _connect(self) -> None:
        from stagewise.deploy.flat import Flat
        from stagewise.deploy.hierarchical import Hierarchical
        from stagewise.deploy.superlink import SuperLink

        self._link = SuperLink(self.address(CLOUD), self._server.authority, self._secret)
        design = Flat if self.design == "F" else Hierarchical
        self.transport = design(self.scenario, self._link)

    def _wait_for_all(self, give_up: float) -> None:
        expected = {(c, place) for c, place in self._at if c not in self._edges}
        missing = expected
        while missing:
            if ended := self._children.ended():
                raise StagewiseError(f"{ended[0]}: ended: {self._children.last_line(ended[0])}")
            left = give_up - time.monotonic()
            if left <= 0:
                owner, place = min(missing)
                raise StagewiseError(f"{owner} at {place}: must answer, and did not in time")
            found = self.transport.who_is_there(min(left, 20.0))
            if self.design == "F":
                missing = {(c, place) for c, place in expected if c not in found.edges_of}
            else:
                missing = {(c, e) for c, e in expected if e not in found.edges_of.get(c, ())}

    def _processes_of(self, name: str) -> list[str]:
        if name not in self._edges and name not in self.scenario.clients.index:
            raise StagewiseError(
                f"name = {shown(name)}: must be a client or an edge with processes"
            )
        nodes = [f"{owner}@{place}" for owner, place in self._at if owner == name]
        return [name, *nodes, *([f"{name}.superlink"] if name in self._edges else [])]


def _program(name: str) -> str:
    """Flower's program beside this Python."""
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        raise StagewiseError(f"{name}: not found: pip install 'stagewise-hfl[deploy]'")
    return str(found)
