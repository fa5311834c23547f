"""Who belongs to a site that is written already, and may be running: keys withdrawn, replaced, given.

All of it changes the site's own folder, where the authority's key is. What has to be copied to, or
deleted on, which machine is returned: a server there takes it in within a second, without a restart.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec import structs

from stagewise.deploy.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    OWNER_FOLDER,
    KeyPair,
    issue_server_certificate,
    make_node_key,
)
from stagewise.deploy.in_process import covering_edges
from stagewise.deploy.layout import PROGRAMS, RUN, SCENARIO, SITE, TASK, host_folder, member_key
from stagewise.deploy.programs import HostPrograms, Program, load_programs, save_programs
from stagewise.deploy.run_script import run_script
from stagewise.deploy.service_files import format_of, machine_files
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, EdgeSite, load_site, to_toml
from stagewise.deploy.site_scenario import largest_message
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import explained, write_bytes
from stagewise.world.records import ClientRecord
from stagewise.world.scenario_file import load_scenario, save_scenario, with_clients

Action = Literal["copy", "delete"]


@dataclass(frozen=True)
class Change:
    """A file or folder of a machine that is to be copied there, or to be deleted."""

    host: str
    action: Action
    path: str
    """Within the machine's folder."""


class SiteFolder:
    """The folder that `deploy init` wrote, or that of a deployment on this machine."""

    def __init__(self, folder: Path) -> None:
        if not (folder / SITE).is_file():
            raise StagewiseError(f"{folder}: must be a site's folder: there must be {SITE} in it")
        self.folder, self.site = folder, load_site(folder / SITE)

    def revoke(self, name: str) -> list[Change]:
        """Take a node's right to connect, at all of its servers; the rounds go on without it."""
        changes = self._withdraw(self._node(name))
        if not changes:
            raise StagewiseError(f"name = {shown(name)}: must be a node that may connect")
        return changes

    def rotate(self, name: str) -> list[Change]:
        """Give a node new keys, at all of its servers; the old ones are worth nothing any more."""
        node = self._node(name)
        changes = []
        for server, at in self.site.servers_of(node).items():
            public = member_key(self._role(at), name)
            private = self._role(node) / f"{server}.key"
            with _replacing(private, public) as draft:
                pair = make_node_key(draft, server)
                pair.public.rename(draft / public.name)
            changes += [self._change(node, "copy", private), self._change(at, "copy", public)]
        return changes

    def renew(self) -> list[Change]:
        """Give every server a new certificate; each takes effect when its program starts again."""
        pair = KeyPair(self.folder / "authority" / AUTHORITY, self.folder / "authority" / "ca.key")
        changes = []
        for server in self.site.servers:
            role = self._role(server)
            files = role / CERTIFICATE, role / KEY
            with _replacing(*files) as draft:
                issue_server_certificate(pair, draft, [server.place[0]])
            changes += [self._change(server, "copy", path) for path in files]
        return changes

    def remove_client(self, name: str) -> list[Change]:
        """Take a client, revoked or not, off its machine; `add_client` can give it another."""
        client = self._client(name)
        folder = self._role(client)
        if not folder.exists():
            raise StagewiseError(f"client = {shown(name)}: must be on a machine: it was removed")
        changes = self._withdraw(client)
        with explained(folder):
            shutil.rmtree(folder)
        self._list(client.host, lambda programs: [p for p in programs if p.name != client.role])
        gone = self._change(client, "delete", folder)
        return [*changes, gone, Change(client.host, "copy", PROGRAMS)]

    def add_client(self, name: str, host: str, row: ClientRecord | None = None) -> list[Change]:
        """Put a client on a machine, with new keys: one that was removed, or a new one by its `row`.

        A new one comes after those that the scenario has. Their data is dealt as before, so that their
        machines may keep the scenario they have.
        """
        cloud = self._host(self.site.cloud.host)
        scenario = load_scenario(cloud / SCENARIO)
        if row is None:
            client = structs.replace(self._client(name), host=host)
            if self._role(self._client(name)).exists():
                raise StagewiseError(f"client = {shown(name)}: must be removed first")
            clients = [client if each.id == name else each for each in self.site.clients]
        else:
            scenario = with_clients(scenario, [self._checked(row, name)])
            client = ClientSite(id=name, host=host, edges=covering_edges(scenario)[name])
            clients = [*self.site.clients, client]
        self.site = structs.replace(self.site, clients=tuple(clients))
        self.site.check_scenario(scenario)
        role, new = self._role(client), not self._host(host).exists()
        role.mkdir(OWNER_FOLDER, parents=True)
        if not (self._host(host) / TASK).exists():
            shutil.copy2(cloud / TASK, self._host(host) / TASK)
        write_bytes(role / AUTHORITY, (self._role(self.site.cloud) / AUTHORITY).read_bytes())
        changes = []
        for server, at in self.site.servers_of(client).items():
            public = member_key(self._role(at), name)
            make_node_key(role, server).public.rename(public)
            changes.append(self._change(at, "copy", public))
        for path in (self.folder / SITE, cloud / SITE):
            write_bytes(path, to_toml(self.site).encode())
        for machine in {cloud, self._host(host)}:
            save_scenario(scenario, machine / SCENARIO)
        program = self._program(client)
        self._list(host, lambda programs: [*programs, program])
        for file, text in machine_files(self.site, host, format_of(cloud)) if new else ():
            write_bytes(self._host(host) / file, text.encode())
        own = ["."] if new else [f"{client.role}/", SCENARIO, PROGRAMS]
        changes += [Change(host, "copy", path) for path in own]
        # The cloud's last: a run takes a new client in when it has both.
        at_cloud = [Change(self.site.cloud.host, "copy", path) for path in (SITE, SCENARIO)]
        return [*changes, *(change for change in at_cloud if change not in changes)]

    def _withdraw(self, node: EdgeSite | ClientSite) -> list[Change]:
        """Delete a node's keys at its servers; none may be left to delete."""
        changes = []
        for server in self.site.servers_of(node).values():
            key = member_key(self._role(server), node.id)
            if key.exists():
                key.unlink()
                changes.append(self._change(server, "delete", key))
        return changes

    def _program(self, client: ClientSite) -> Program:
        cloud = self._host(self.site.cloud.host)
        known = load_programs(cloud / PROGRAMS)[0].command
        # A deployment on this machine names its files by whole paths.
        whole = Path(known[known.index("--folder") + 1]).is_absolute()
        folder = self._host(client.host) if whole else Path()
        size = largest_message(TaskFile.load(cloud / TASK))
        programs = HostPrograms(self.site, client.host, folder, size).all()
        return next(program for program in programs if program.name == client.role)

    def _list(self, host: str, change: Callable[[list[Program]], list[Program]]) -> None:
        """Change the list of a machine's programs, and the script that names them."""
        folder = self._host(host)
        listed = load_programs(folder / PROGRAMS) if (folder / PROGRAMS).exists() else []
        programs = change(listed)
        save_programs(programs, folder / PROGRAMS)
        write_bytes(folder / RUN, run_script(host, programs).encode())
        (folder / RUN).chmod(OWNER_FOLDER)

    def _node(self, name: str) -> EdgeSite | ClientSite:
        for node in self.site.nodes:
            if node.id == name:
                return node
        raise StagewiseError(f"name = {shown(name)}: must be a client or an edge of the site")

    def _client(self, name: str) -> ClientSite:
        for client in self.site.clients:
            if client.id == name:
                return client
        raise StagewiseError(
            f"client = {shown(name)}: must be one of the site; a new one needs its row of the scenario"
        )

    def _checked(self, row: ClientRecord, name: str) -> ClientRecord:
        if row.id != name:
            raise StagewiseError(f"id = {shown(row.id)}: must be that of the client, {shown(name)}")
        taken = [CLOUD, *(edge.id for edge in self.site.edges), *(c.id for c in self.site.clients)]
        if name in taken:
            raise StagewiseError(f"client = {shown(name)}: must not be in the site already")
        return row

    def _host(self, host: str) -> Path:
        return host_folder(self.folder, host)

    def _role(self, of: Cloud | EdgeSite | ClientSite) -> Path:
        assert of.host is not None
        return self._host(of.host) / of.role

    def _change(self, of: Cloud | EdgeSite | ClientSite, action: Action, path: Path) -> Change:
        assert of.host is not None
        return Change(of.host, action, str(path.relative_to(self._host(of.host))))


@contextlib.contextmanager
def _replacing(*targets: Path) -> Iterator[Path]:
    """A folder for new files, which take the places of `targets` by their names when the block ends."""
    draft = Path(tempfile.mkdtemp(prefix=".keys.", dir=targets[0].parent))
    try:
        yield draft
        for target in targets:
            target.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
            (draft / target.name).replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def instructions(changes: list[Change]) -> Iterator[str]:
    """What to do on each machine, in the order that leaves nobody out for longer than it must."""
    for change in changes:
        yield f"{change.host}: {change.action} {change.path}"
