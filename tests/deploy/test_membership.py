"""Keys that are withdrawn, replaced and given on a site: its files, and a server that runs."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import httpx
import msgspec
import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")
pytest.importorskip("torch")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from deploy_cases import wait_until
from test_deploy_init import TASK, scenario_of
from test_site import three_hosts

from stagewise.cli.main import main
from stagewise.deploy import membership
from stagewise.deploy.children import Children
from stagewise.deploy.flower_api import FleetNode
from stagewise.deploy.init import init_site
from stagewise.deploy.membership import Change, SiteFolder
from stagewise.deploy.programs import ENVIRONMENT, load_programs
from stagewise.deploy.service_files import Format
from stagewise.deploy.site import ClientSite, load_site
from stagewise.deploy.site_scenario import read_cloud_folder
from stagewise.errors import StagewiseError
from stagewise.world.records import ClientRecord
from stagewise.world.scenario_file import client_records, load_scenario

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes of files")

# c0 serves es0, c1 both, c2 es1; c0 and c1 are on 10.0.0.3, c2 and the edges on 10.0.0.2.


@pytest.fixture
def site(tmp_path: Path) -> SiteFolder:
    init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "site")
    return SiteFolder(tmp_path / "site")


def fits(private: Path, public: Path) -> bool:
    key = load_ssh_private_key(private.read_bytes(), None).public_key()
    return key == load_ssh_public_key(public.read_bytes())


def files(site: SiteFolder) -> dict[str, bytes]:
    paths = [path for path in site.folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(site.folder)): path.read_bytes() for path in paths}


@pytest.fixture
def before(site: SiteFolder) -> dict[str, bytes]:
    return files(site)


def changed(site: SiteFolder, before: dict[str, bytes]) -> tuple[set[str], set[str]]:
    """Which files were written, and which are gone."""
    after = files(site)
    written = {name for name, content in after.items() if before.get(name) != content}
    return written, before.keys() - after.keys()


def test_revoke_takes_the_keys_from_all_servers(site: SiteFolder, before: dict[str, bytes]) -> None:
    assert site.revoke("c1") == [
        Change("10.0.0.2", "delete", "edge-es0/nodes/c1.pub"),
        Change("10.0.0.2", "delete", "edge-es1/nodes/c1.pub"),
    ]
    gone = {f"hosts/10.0.0.2/edge-es{k}/nodes/c1.pub" for k in (0, 1)}
    assert changed(site, before) == (set(), gone)
    with pytest.raises(StagewiseError, match="must be a node that may connect"):
        site.revoke("c1")


def test_an_edge_can_be_revoked_too(site: SiteFolder) -> None:
    assert site.revoke("es1") == [Change("10.0.0.1", "delete", "cloud/nodes/es1.pub")]


def test_rotate_gives_new_pairs_that_fit(site: SiteFolder, before: dict[str, bytes]) -> None:
    assert len(site.rotate("c1")) == 4
    written, gone = changed(site, before)
    assert gone == set()
    assert len(written) == 4
    hosts = site.folder / "hosts"
    for edge in ("es0", "es1"):
        private = hosts / "10.0.0.3" / "client-c1" / f"{edge}.key"
        assert fits(private, hosts / "10.0.0.2" / f"edge-{edge}" / "nodes" / "c1.pub")
        assert private.stat().st_mode & 0o777 == 0o600


def test_renew_gives_certificates_of_the_same_authority(
    site: SiteFolder, before: dict[str, bytes]
) -> None:
    assert len(site.renew()) == 6
    written, gone = changed(site, before)
    assert gone == set()
    assert {Path(name).name for name in written} == {"server.pem", "server.key"}
    authority = x509.load_pem_x509_certificate((site.folder / "authority/ca.pem").read_bytes())
    for name in written:
        if name.endswith(".pem"):
            certificate = x509.load_pem_x509_certificate((site.folder / name).read_bytes())
            certificate.verify_directly_issued_by(authority)


def test_without_the_authoritys_key_nothing_is_renewed(
    site: SiteFolder, before: dict[str, bytes]
) -> None:
    (site.folder / "authority" / "ca.key").unlink()
    with pytest.raises(StagewiseError, match="must hold a certificate authority"):
        site.renew()
    assert changed(site, before) == (set(), {"authority/ca.key"})


def test_a_client_moves_to_another_machine(site: SiteFolder) -> None:
    removed = site.remove_client("c1")
    assert Change("10.0.0.3", "delete", "client-c1") in removed
    machine = site.folder / "hosts" / "10.0.0.3"
    assert [each.name for each in load_programs(machine / "programs.json")] == ["client-c0"]
    assert "client-c1" not in (machine / "run.sh").read_text()
    added = site.add_client("c1", "10.0.0.9")
    assert Change("10.0.0.9", "copy", ".") in added
    new = site.folder / "hosts" / "10.0.0.9"
    (program,) = load_programs(new / "programs.json")
    assert program.name == "client-c1"
    for word in program.command:
        name = word.rpartition("=")[2]
        if name.startswith("client-") or name.endswith(".json"):
            assert (new / name).exists()
    for edge in ("es0", "es1"):
        public = site.folder / "hosts" / "10.0.0.2" / f"edge-{edge}" / "nodes" / "c1.pub"
        assert fits(new / "client-c1" / f"{edge}.key", public)
    read_cloud_folder(site.folder / "hosts" / "10.0.0.1")  # the cloud's folder is whole
    moved = {c.id: c.host for c in load_site(site.folder / "site.toml").clients}
    assert moved == {"c0": "10.0.0.3", "c1": "10.0.0.9", "c2": "10.0.0.2"}


def test_back_to_where_it_was(site: SiteFolder) -> None:
    site.remove_client("c0")
    added = site.add_client("c0", "10.0.0.3")
    assert Change("10.0.0.3", "copy", "client-c0/") in added
    machine = site.folder / "hosts" / "10.0.0.3"
    names = [each.name for each in load_programs(machine / "programs.json")]
    assert sorted(names) == ["client-c0", "client-c1"]


def new_client(site: SiteFolder, **fields: object) -> ClientRecord:
    """A client that the scenario does not have, with the links of c1."""
    first = client_records(load_scenario(site.folder / "hosts/10.0.0.1/scenario.json"))[1]
    return msgspec.structs.replace(first, **({"id": "c9"} | fields))


@pytest.mark.parametrize("host", ["10.0.0.9", "10.0.0.3", "10.0.0.1"])
def test_a_client_that_the_scenario_does_not_have(site: SiteFolder, host: str) -> None:
    _, before, _ = read_cloud_folder(site.folder / "hosts" / "10.0.0.1")
    changes = site.add_client("c9", host, new_client(site))
    described, after, _ = read_cloud_folder(site.folder / "hosts" / "10.0.0.1")
    assert after.clients.ids == (*before.clients.ids, "c9")
    assert client_records(after)[:-1] == client_records(before)
    assert described == load_site(site.folder / "site.toml")
    assert described.clients[-1] == ClientSite(id="c9", host=host, edges=("es0", "es1"))
    machine = site.folder / "hosts" / host
    assert load_scenario(machine / "scenario.json").sha256 == after.sha256
    program = next(p for p in load_programs(machine / "programs.json") if p.name == "client-c9")
    assert program.command[program.command.index("--client") + 1] == "c9"
    for edge in ("es0", "es1"):
        public = site.folder / "hosts" / "10.0.0.2" / f"edge-{edge}" / "nodes" / "c9.pub"
        assert fits(machine / "client-c9" / f"{edge}.key", public)
        assert Change("10.0.0.2", "copy", f"edge-{edge}/nodes/c9.pub") in changes
    assert len(changes) == len(set(changes))
    # The cloud has both of its files last, when the client can come.
    at_cloud = [Change("10.0.0.1", "copy", name) for name in ("site.toml", "scenario.json")]
    assert all(change in changes for change in at_cloud)
    assert changes[-1] in at_cloud
    assert site.remove_client("c9")
    assert SiteFolder(site.folder).add_client("c9", "10.0.0.3")


class Stopped(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("host", ["10.0.0.9", "10.0.0.3", "10.0.0.1"])
def test_a_command_that_was_stopped_anywhere_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Killed before each of its writes in turn, by a count of the files that are written."""
    init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "plain", "systemd")
    names = ("make_node_key", "write_bytes", "save_programs", "save_scenario", "machine_files")
    writers = {name: getattr(membership, name) for name in names}
    straight: tuple[set[str], list[Change]] | None = None
    for left in (1000, *range(100)):
        folder = tmp_path / str(left)
        shutil.copytree(tmp_path / "plain", folder)
        site = SiteFolder(folder)
        row, before = new_client(site), load_scenario(folder / "hosts/10.0.0.1/scenario.json")
        count = iter(range(left))

        def counted(name: str, *args: object, count: Iterator[int] = count) -> object:
            if next(count, None) is None:
                raise Stopped
            return writers[name](*args)

        with monkeypatch.context() as patched:
            for name in names:
                patched.setattr(membership, name, partial(counted, name))
            try:
                changes = site.add_client("c9", host, row)
                stopped = False
            except Stopped:
                stopped = True
        if stopped:
            cloud = load_scenario(folder / "hosts/10.0.0.1/scenario.json")
            assert cloud.sha256 == before.sha256  # no run takes it in before all is there
            changes = SiteFolder(folder).add_client("c9", host, row)
        _, grown, _ = read_cloud_folder(folder / "hosts/10.0.0.1")
        assert grown.clients.ids == (*before.clients.ids, "c9")
        listed = load_programs(folder / "hosts" / host / "programs.json")
        assert [each.name for each in listed].count("client-c9") == 1
        for edge in ("es0", "es1"):
            public = folder / "hosts/10.0.0.2" / f"edge-{edge}" / "nodes" / "c9.pub"
            assert fits(folder / "hosts" / host / "client-c9" / f"{edge}.key", public)
        found = set(files(SiteFolder(folder))), changes
        straight = straight or found
        assert found == straight
        if left < 1000 and not stopped:
            break
    assert left > 5


def test_it_goes_on_on_the_machine_where_it_began(
    site: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = new_client(site)
    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(membership, "save_scenario", Mock(side_effect=Stopped))
        site.add_client("c9", "10.0.0.1", row)
    again = SiteFolder(site.folder)
    with pytest.raises(StagewiseError, match=r"host = '10\.0\.0\.9': must be 10\.0\.0\.1, as"):
        again.add_client("c9", "10.0.0.9", row)
    assert again.add_client("c9", "10.0.0.1", row)


def test_a_new_client_must_have_data_that_can_be_dealt(
    site: SiteFolder, before: dict[str, bytes]
) -> None:
    row = new_client(site, label_counts=[2**30, *[0] * 9])
    with pytest.raises(StagewiseError, match="label_counts: sum"):
        site.add_client("c9", "10.0.0.3", row)
    assert changed(site, before) == (set(), set())


@pytest.mark.parametrize(
    ("format_", "file"), [("systemd", "stagewise.service"), ("compose", "compose.yaml")]
)
def test_a_new_machine_has_what_its_service_manager_needs(
    tmp_path: Path, format_: Format, file: str
) -> None:
    init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "site", format_)
    site = SiteFolder(tmp_path / "site")
    site.add_client("c9", "10.0.0.9", new_client(site))
    text = (site.folder / "hosts" / "10.0.0.9" / file).read_text()
    assert "client c9" in text
    others = (site.folder / "hosts" / "10.0.0.3" / file).read_text()
    assert text.replace("client c9", "client c0, client c1").replace("0.0.9", "0.0.3") == others


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("c1", {"id": "c1"}, "client = 'c1': must not be in the site already"),
        ("es0", {"id": "es0"}, "client = 'es0': must not be in the site already"),
        ("c9", {"links": {"es7": 1e-9}}, "'es7'"),
        ("c9", {"links": {}}, "must name an edge"),
        ("c9", {"label_counts": [1]}, "label_counts"),
        ("c9", {"cpu_hz": -1.0}, "cpu_hz"),
    ],
)
def test_a_new_client_must_fit(
    site: SiteFolder, before: dict[str, bytes], name: str, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(StagewiseError, match=message):
        site.add_client(name, "10.0.0.3", new_client(site, **fields))
    assert changed(site, before) == (set(), set())


def test_a_client_that_was_revoked_can_still_move(site: SiteFolder) -> None:
    site.revoke("c1")
    assert site.remove_client("c1") == [
        Change("10.0.0.3", "delete", "client-c1"),
        Change("10.0.0.3", "copy", "programs.json"),
    ]
    with pytest.raises(StagewiseError, match="must be on a machine: it was removed"):
        site.remove_client("c1")
    site.add_client("c1", "10.0.0.9")
    own = site.folder / "hosts" / "10.0.0.9" / "client-c1"
    for edge in ("es0", "es1"):
        public = site.folder / "hosts" / "10.0.0.2" / f"edge-{edge}" / "nodes" / "c1.pub"
        assert fits(own / f"{edge}.key", public)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["revoke", "c9"], "name = 'c9': must be a client or an edge of the site"),
        (["remove-client", "es0"], "client = 'es0': must be one of the site"),
        (["add-client", "c0=10.0.0.9"], "client = 'c0': must be removed first"),
        (["add-client", "c0"], "client = 'c0': must be ID=HOST"),
        (["add-client", "c9=10.0.0.3"], "a new one needs its row of the scenario"),
        (
            ["add-client", "c1=10.0.0.3", "--row", "ROW"],
            "id = 'c9': must be that of the client, 'c1'",
        ),
        (["add-client", "c9=10.0.0.3", "--row", "nowhere.json"], "nowhere.json: cannot be read"),
    ],
)
def test_mistakes_change_nothing(
    site: SiteFolder,
    before: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    row = site.folder.parent / "c9.json"
    row.write_bytes(msgspec.json.encode(new_client(site)))
    command, *rest = (str(row) if word == "ROW" else word for word in words)
    assert main(["deploy", command, str(site.folder), *rest]) == 2
    assert message in capsys.readouterr().err
    assert changed(site, before) == (set(), set())


def test_the_commands_say_what_to_do_on_which_machine(
    site: SiteFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "revoke", str(site.folder), "c2"]) == 0
    assert capsys.readouterr().out == "10.0.0.2: delete edge-es1/nodes/c2.pub\n"


@pytest.mark.fault(
    "A client's key is revoked while its server runs", "the client is refused within seconds"
)
@pytest.mark.processes
def test_a_server_that_runs_takes_it_in_within_seconds(tmp_path: Path) -> None:
    from stagewise.deploy.processes import LocalSite

    local = LocalSite(scenario_of(three_hosts()), "F", TASK, tmp_path / "live.site")
    local._make_folders()
    children = Children(tmp_path / "logs", {**ENVIRONMENT, "FLWR_HOME": str(tmp_path / "flower")})
    command = local.programs["cloud-superlink"].command
    children.start("superlink", [sys.executable, *command[1:]])
    try:
        wait_until(lambda: children.listens(local.site.cloud.port))
        site, own = SiteFolder(local.folder / "site"), local.host_folder / "client-c0"
        authority = (own / "ca.pem").read_bytes()

        def connects(key: bytes) -> bool:
            with contextlib.closing(FleetNode(local.site.cloud.address, authority, key)) as node:
                try:
                    node.connect()
                except httpx.HTTPStatusError:
                    return False
            return True

        old = (own / "cloud.key").read_bytes()
        assert connects(old)
        site.rotate("c0")
        new = (own / "cloud.key").read_bytes()
        wait_until(lambda: connects(new))
        assert not connects(old)
        site.remove_client("c0")
        wait_until(lambda: not connects(new))
        site.add_client("c0", "127.0.0.1")
        latest = (own / "cloud.key").read_bytes()
        wait_until(lambda: connects(latest))
        assert not connects(new)
    finally:
        children.end()
