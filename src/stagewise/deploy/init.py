"""`stagewise deploy init`: a folder for every machine of a site, with what it needs and nothing more."""

import shutil
import tempfile
from pathlib import Path

from stagewise.deploy.certificates import (
    AUTHORITY,
    OWNER_FILE,
    OWNER_FOLDER,
    issue_server_certificate,
    make_authority,
    make_node_key,
    make_secret,
)
from stagewise.deploy.layout import (
    PROGRAMS,
    RUN,
    SCENARIO,
    SITE,
    SUPERLINK_SECRET,
    TASK,
    host_folder,
    member_key,
)
from stagewise.deploy.programs import HostPrograms, save_programs
from stagewise.deploy.run_script import run_script
from stagewise.deploy.service_files import (
    CHART,
    Format,
    chart_files,
    check_format,
    machine_files,
)
from stagewise.deploy.site import ClientSite, Cloud, EdgeSite, Site, to_toml
from stagewise.deploy.site_scenario import largest_message
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError
from stagewise.files import explained, write_bytes
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario


def init_site(
    site: Site, scenario: Scenario, task: TaskFile, out: Path, format_: Format = "scripts"
) -> None:
    """Write the folder `out` whole or not at all: `site.toml`, `authority/`, and `hosts/`.

    The authority's key is in `authority/` alone. A machine gets the private keys of those that run on
    it, and the public keys of the nodes that may connect to them. `format_` adds what a service
    manager needs to start them.
    """
    check_format(site, format_)
    site.check_scenario(scenario)
    with explained(f"out = {out}"):
        check_new(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        # Nobody else can look into a temporary folder, nor into what becomes of it.
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent))
        try:
            _write(site, scenario, task, draft, format_)
            draft.rename(out)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def check_new(out: Path) -> None:
    """Refuse a folder that exists already."""
    if out.exists() or out.is_symlink():
        raise StagewiseError(f"out = {out}: must not exist yet")


def _write(site: Site, scenario: Scenario, task: TaskFile, out: Path, format_: Format) -> None:
    description, object_bytes = to_toml(site).encode(), largest_message(task)
    write_bytes(out / SITE, description)
    (out / "hosts").mkdir(OWNER_FOLDER)
    for host in site.hosts:
        folder = host_folder(out, host)
        folder.mkdir(OWNER_FOLDER)
        made = HostPrograms(site, host, Path(), object_bytes)
        programs = made.all() + ([made.coordinator()] if host == site.cloud.host else [])
        save_programs(programs, folder / PROGRAMS)
        write_bytes(folder / RUN, run_script(host, programs).encode())
        (folder / RUN).chmod(OWNER_FOLDER)
        if host == site.cloud.host:
            write_bytes(folder / SITE, description)
        if host == site.cloud.host or any(client.host == host for client in site.clients):
            save_scenario(scenario, folder / SCENARIO)
            task.save(folder / TASK)
        for name, text in machine_files(site, host, format_):
            write_bytes(folder / name, text.encode())
    _make_keys(site, out)
    if format_ == "helm":
        _write_chart(site, out)


def _write_chart(site: Site, out: Path) -> None:
    (out / CHART / "templates").mkdir(OWNER_FOLDER, parents=True)
    (out / CHART).chmod(OWNER_FOLDER)
    for name, text in chart_files(site, out):
        path = out / CHART / name
        write_bytes(path, text.encode())
        path.chmod(OWNER_FILE)


def _make_keys(site: Site, out: Path) -> None:
    """What SuperLinks need, what nodes need, and the nodes' public keys where they are nodes."""
    authority = make_authority(out / "authority")

    def role(of: Cloud | EdgeSite | ClientSite) -> Path:
        assert of.host is not None
        return host_folder(out, of.host) / of.role

    for server in site.servers:
        issue_server_certificate(authority, role(server), [server.place[0]])
        make_secret(role(server) / SUPERLINK_SECRET)
    for node in site.nodes:
        own = role(node)
        own.mkdir(OWNER_FOLDER, exist_ok=True)
        write_bytes(own / AUTHORITY, authority.public.read_bytes())
        for name, server in site.servers_of(node).items():
            public = member_key(role(server), node.id)
            public.parent.mkdir(OWNER_FOLDER, exist_ok=True)
            make_node_key(own, name).public.rename(public)
