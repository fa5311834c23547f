"""`stagewise deploy init`: a folder for every machine of a site, with what it needs and nothing more."""

import shutil
import tempfile
from pathlib import Path

from stagewise.deploy.certificates import (
    OWNER_FOLDER,
    issue_server_certificate,
    make_authority,
    make_node_key,
    make_secret,
)
from stagewise.deploy.layout import RUN, SCENARIO, SITE, TASK, Role, host_folder
from stagewise.deploy.run_script import run_script
from stagewise.deploy.site import CLOUD, ClientSite, EdgeSite, Site, to_toml
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario


def init_site(site: Site, scenario: Scenario, task: TaskFile, out: Path) -> None:
    """Write the folder `out` whole or not at all: `site.toml`, `authority/`, and `hosts/`.

    The authority's key is in `authority/` alone. A machine gets the private keys of those that run on
    it, and the public keys of the nodes that may connect to them.
    """
    site.check_scenario(scenario)
    try:
        check_new(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        # Nobody else can look into a temporary folder, nor into what becomes of it.
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent))
        try:
            _Draft(site, draft).write(scenario, task)
            draft.rename(out)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise StagewiseError(f"out = {out}: cannot be written: {error.strerror or error}") from None


def check_new(out: Path) -> None:
    """Refuse a folder that exists already."""
    if out.exists() or out.is_symlink():
        raise StagewiseError(f"out = {out}: must not exist yet")


class _Draft:
    """The folder of a site while it is written."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.authority = make_authority(folder / "authority")

    def write(self, scenario: Scenario, task: TaskFile) -> None:
        site, cloud = self.site, self.site.cloud
        description = to_toml(site).encode()
        write_bytes(self.folder / SITE, description)
        (self.folder / "hosts").mkdir(OWNER_FOLDER)
        for host in site.hosts:
            folder = host_folder(self.folder, host)
            folder.mkdir(OWNER_FOLDER)
            write_bytes(folder / RUN, run_script(site, host).encode())
            (folder / RUN).chmod(OWNER_FOLDER)
            if host == cloud.host:
                write_bytes(folder / SITE, description)
            if host == cloud.host or site.clients_on(host):
                save_scenario(scenario, folder / SCENARIO)
                task.save(folder / TASK)
        self._serve(self._cloud, cloud.host)
        for edge in site.edges if site.design == "H" else ():
            self._serve(self._edge(edge), edge.place[0])
            self._join(self._edge(edge), edge.id, CLOUD, self._cloud)
        for client in site.clients:
            for server in site.servers_of(client):
                self._join(self._client(client), client.id, server, self._server(server))

    def _serve(self, role: Role, host: str) -> None:
        """What a SuperLink needs."""
        issue_server_certificate(self.authority, role.folder, [host])
        make_secret(role.folder, role.superlink_secret.stem)

    def _join(self, role: Role, name: str, server: str, at: Role) -> None:
        """What a node needs, and its public key where it is a node."""
        if not role.node_secret.exists():
            make_secret(role.folder, role.node_secret.stem)
        if not role.authority.exists():
            write_bytes(role.authority, self.authority.certificate.read_bytes())
        pair = make_node_key(role.folder, role.key(server).stem)
        at.member(name).parent.mkdir(OWNER_FOLDER, exist_ok=True)
        pair.public.rename(at.member(name))

    @property
    def _cloud(self) -> Role:
        return Role.cloud(host_folder(self.folder, self.site.cloud.host))

    def _edge(self, edge: EdgeSite) -> Role:
        return Role.edge(host_folder(self.folder, edge.place[0]), edge.id)

    def _client(self, client: ClientSite) -> Role:
        return Role.client(host_folder(self.folder, client.host), client.id)

    def _server(self, name: str) -> Role:
        """The role that a client's server has: an edge, or the cloud in design F."""
        if self.site.design == "F":
            return self._cloud
        return next(self._edge(edge) for edge in self.site.edges if edge.id == name)
