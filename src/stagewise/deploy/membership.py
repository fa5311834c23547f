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
from stagewise.deploy.site import CLOUD, ClientSite, Cloud, EdgeSite, Site, load_site, to_toml
from stagewise.deploy.site_scenario import largest_message
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import explained, write_bytes
from stagewise.world.records import ClientRecord
from stagewise.world.scenario import Scenario
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
        machines may keep the scenario they have. If this is stopped, it can be done again: the cloud's
        scenario is written last, and a run takes nobody in before.
        """
        cloud, own = self._host(self.site.cloud.host), self._host(host)
        scenario, task = load_scenario(cloud / SCENARIO), TaskFile.load(cloud / TASK)
        if row is None:
            client = structs.replace(self._client(name), host=host)
            if self._role(self._client(name)).exists():
                raise StagewiseError(f"client = {shown(name)}: must be removed first")
        else:
            self._check_new(row, name, host, scenario)
            scenario = with_clients(scenario, [row])
            client = ClientSite(id=name, host=host, edges=covering_edges(scenario)[name])
        site = _with_client(self.site, client)
        site.check_scenario(scenario)
        if row is not None:
            task.task(scenario)  # which the data must be enough for
        program = self._program(site, client, task)
        others = (self.site.cloud, *(node for node in self.site.nodes if node.id != name))
        self.site, new = site, all(other.host != host for other in others)
        role = self._role(client)
        with explained(role):
            if role.exists():  # of a command that was stopped
                shutil.rmtree(role)
            role.mkdir(OWNER_FOLDER, parents=True)
        if not (own / TASK).exists():
            shutil.copy2(cloud / TASK, own / TASK)
        write_bytes(role / AUTHORITY, (self._role(site.cloud) / AUTHORITY).read_bytes())
        changes = []
        for server, at in site.servers_of(client).items():
            public = member_key(self._role(at), name)
            make_node_key(role, server).public.rename(public)
            changes.append(self._change(at, "copy", public))
        for file, text in machine_files(site, host, format_of(cloud)) if new else ():
            write_bytes(own / file, text.encode())
        self._list(host, lambda listed: [*(p for p in listed if p.name != program.name), program])
        if own != cloud:
            save_scenario(scenario, own / SCENARIO)
        for path in (self.folder / SITE, cloud / SITE):
            write_bytes(path, to_toml(site).encode())
        save_scenario(scenario, cloud / SCENARIO)
        copied = ["."] if new else [f"{client.role}/", SCENARIO, PROGRAMS]
        changes += [Change(host, "copy", path) for path in copied]
        # The cloud's last: a run takes a new client in when it has both.
        at_cloud = [Change(site.cloud.host, "copy", path) for path in (SITE, SCENARIO)]
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

    def _program(self, site: Site, client: ClientSite, task: TaskFile) -> Program:
        cloud = self._host(self.site.cloud.host)
        known = load_programs(cloud / PROGRAMS)[0].command
        # A deployment on this machine names its files by whole paths.
        whole = Path(known[known.index("--folder") + 1]).is_absolute()
        folder = self._host(client.host) if whole else Path()
        programs = HostPrograms(site, client.host, folder, largest_message(task)).all()
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

    def _check_new(self, row: ClientRecord, name: str, host: str, scenario: Scenario) -> None:
        """Refuse a client that is there, but not one whose adding was stopped before the scenario."""
        if row.id != name:
            raise StagewiseError(f"id = {shown(row.id)}: must be that of the client, {shown(name)}")
        if name in (CLOUD, *scenario.edges.ids, *scenario.clients.ids):
            raise StagewiseError(f"client = {shown(name)}: must not be in the site already")
        for begun in self.site.clients:
            if begun.id == name and begun.host != host:
                raise StagewiseError(f"host = {shown(host)}: must be {begun.host}, as {SITE} says")

    def _host(self, host: str) -> Path:
        return host_folder(self.folder, host)

    def _role(self, of: Cloud | EdgeSite | ClientSite) -> Path:
        assert of.host is not None
        return self._host(of.host) / of.role

    def _change(self, of: Cloud | EdgeSite | ClientSite, action: Action, path: Path) -> Change:
        assert of.host is not None
        return Change(of.host, action, str(path.relative_to(self._host(of.host))))


def _with_client(site: Site, client: ClientSite) -> Site:
    """The site with a client where it was, or after all others."""
    clients = {each.id: each for each in (*site.clients, client)}
    return structs.replace(site, clients=tuple(clients.values()))


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
