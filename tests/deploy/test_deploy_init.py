import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from helpers import random_scenario
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.world.scenario_file import load_scenario, save_scenario

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from test_site import site_of, three_hosts

from stagewise.deploy import init as deploy_init
from stagewise.deploy.init import init_site
from stagewise.deploy.places import parse_clients, parse_cloud, parse_edges
from stagewise.deploy.programs import Program, load_programs
from stagewise.deploy.site import ClientSite, Cloud, EdgeSite, Site, load_site, to_toml
from stagewise.deploy.site_scenario import (
    _renamed,
    largest_message,
    read_cloud_folder,
    site_scenario,
)
from stagewise.deploy.task import TaskFile
from stagewise.world.scenario import Scenario

TASK = TaskFile(dataset="digits", model="mlp", learning_rate=0.1)
EDGES = (EdgeSite(id="es0"), EdgeSite(id="es1"))


def scenario_of(site: Site) -> Scenario:
    clients, edges = len(site.clients), len(site.edges)
    return _renamed(random_scenario(0, clients, edges, 10, isolated=0.0), site)


@pytest.fixture(scope="module", params=["H", "F"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three machines, written."""
    site = three_hosts() if request.param == "H" else three_hosts(design="F", edges=EDGES)
    out = tmp_path_factory.mktemp("init") / "site"
    init_site(site, scenario_of(site), TASK, out)
    return out


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


CLOUD_FILES = {"run.sh", "programs.json", "site.toml", "scenario.json", "task.json"} | {
    f"cloud/{name}" for name in ("ca.pem", "server.pem", "server.key", "superlink.secret")
}


def edge_files(edge: str, *clients: str) -> set[str]:
    names = ["ca.pem", "server.pem", "server.key", "superlink.secret", "cloud.key"]
    return {f"edge-{edge}/{name}" for name in [*names, *(f"nodes/{c}.pub" for c in clients)]}


def client_files(client: str, *servers: str) -> set[str]:
    names = ["ca.pem", *(f"{server}.key" for server in servers)]
    return {f"client-{client}/{name}" for name in names}


class TestFolders:
    def test_a_machine_has_what_runs_on_it_and_nothing_else(self, written: Path) -> None:
        hosts = {folder.name: contents(folder) for folder in (written / "hosts").iterdir()}
        both = {"run.sh", "programs.json", "scenario.json", "task.json"}
        if load_site(written / "site.toml").design == "H":
            expected = {
                "10.0.0.1": CLOUD_FILES | {"cloud/nodes/es0.pub", "cloud/nodes/es1.pub"},
                "10.0.0.2": both
                | edge_files("es0", "c0", "c1")
                | edge_files("es1", "c1", "c2")
                | client_files("c2", "es1"),
                "10.0.0.3": both | client_files("c0", "es0") | client_files("c1", "es0", "es1"),
            }
        else:
            expected = {
                "10.0.0.1": CLOUD_FILES | {f"cloud/nodes/c{k}.pub" for k in range(3)},
                "10.0.0.2": both | client_files("c2", "cloud"),
                "10.0.0.3": both | client_files("c0", "cloud") | client_files("c1", "cloud"),
            }
        assert hosts == expected

    def test_every_public_key_is_that_of_the_node_it_is_named_after(self, written: Path) -> None:
        pairs = 0
        for public in written.glob("hosts/*/*/nodes/*.pub"):
            server = public.parent.parent.name.removeprefix("edge-")
            private = [
                *written.glob(f"hosts/*/client-{public.stem}/{server}.key"),
                *written.glob(f"hosts/*/edge-{public.stem}/{server}.key"),
            ]
            assert len(private) == 1
            key = load_ssh_private_key(private[0].read_bytes(), None).public_key()
            assert key == load_ssh_public_key(public.read_bytes())
            pairs += 1
        assert pairs == len(list(written.glob("hosts/*/*/nodes/*.pub"))) > 0

    def test_no_secret_is_in_two_places(self, written: Path) -> None:
        private = [*written.rglob("*.key"), *written.rglob("*.secret")]
        assert len({path.read_bytes() for path in private}) == len(private)

    def test_the_authoritys_key_is_with_the_authority_alone(self, written: Path) -> None:
        secret = (written / "authority" / "ca.key").read_bytes().splitlines()[1]
        holders = [path for path in written.rglob("*") if path.is_file()]
        holders = [path for path in holders if secret in path.read_bytes()]
        assert holders == [written / "authority" / "ca.key"]

    def test_private_files_are_their_owners(self, written: Path) -> None:
        for path in written.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_dir():
                assert mode == 0o700, path
            elif path.suffix in (".key", ".secret"):
                assert mode == 0o600, path
        assert stat.S_IMODE(written.stat().st_mode) == 0o700

    def test_a_server_is_certified_for_its_machine(self, written: Path) -> None:
        for path in written.glob("hosts/*/*/server.pem"):
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            addresses = {str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)}
            assert addresses == {path.parent.parent.name, "127.0.0.1"}

    def test_the_cloud_can_read_what_it_is_to_train(self, written: Path) -> None:
        site, scenario, task = read_cloud_folder(written / "hosts" / "10.0.0.1")
        assert site == load_site(written / "site.toml")
        assert scenario.clients.ids == ("c0", "c1", "c2")
        assert task == TASK


class TestWholeOrNotAtAll:
    def test_an_existing_folder_is_left_alone(self, tmp_path: Path) -> None:
        out = tmp_path / "site"
        out.mkdir()
        (out / "mine").write_text("x")
        with pytest.raises(StagewiseError, match="must not exist yet"):
            init_site(three_hosts(), scenario_of(three_hosts()), TASK, out)
        assert contents(out) == {"mine"}

    @pytest.mark.parametrize(
        "step", ["make_secret", "make_node_key", "save_scenario", "run_script"]
    )
    def test_a_failure_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        really: Callable[..., object] = getattr(deploy_init, step)
        calls = []

        def second_fails(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")
            return really(*arguments)

        monkeypatch.setattr(deploy_init, step, second_fails)
        with pytest.raises(StagewiseError, match="No space left on device"):
            init_site(three_hosts(), scenario_of(three_hosts()), TASK, tmp_path / "a" / "site")
        assert list((tmp_path / "a").iterdir()) == []

    def test_a_scenario_of_others_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(StagewiseError, match="must also be in the"):
            init_site(three_hosts(), random_scenario(0), TASK, tmp_path / "site")
        assert list(tmp_path.iterdir()) == []


class TestPrograms:
    def commands(self, written: Path) -> list[tuple[Path, Program]]:
        folders = sorted((written / "hosts").iterdir())
        return [(f, each) for f in folders for each in load_programs(f / "programs.json")]

    def test_every_file_a_command_names_is_there(self, written: Path) -> None:
        named = 0
        for folder, program in self.commands(written):
            for word in program.command:
                name = word.rpartition("=")[2]
                if name.startswith(("cloud", "edge-", "client-")) and word[0] != "-":
                    assert (folder / name).exists(), word
                    named += 1
        assert named > 5

    def test_the_programs_understand_their_arguments(
        self, written: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from stagewise.deploy.apps import client_app, edge_app, superlink_app

        called = set()
        for _, program in self.commands(written):
            words = program.command
            called.add(words[0] if words[0] == "stagewise" else words[2])
            for module in (client_app, edge_app, superlink_app):
                if words[1:3] == ["-m", module.__name__]:
                    monkeypatch.setattr(sys, "argv", words[2:])
                    module.arguments()
        edges = {edge_app.__name__} if load_site(written / "site.toml").design == "H" else set()
        own = {client_app.__name__, superlink_app.__name__}
        assert called == own | edges | {"stagewise"}

    def test_one_process_for_each_client_each_edge_and_the_cloud(self, written: Path) -> None:
        names = sorted(program.name for _, program in self.commands(written))
        edges = ["edge-es0", "edge-es1"] if "edge-es0" in names else []
        clients = ["client-c0", "client-c1", "client-c2"]
        assert names == sorted([*clients, *edges, "cloud-superlink", "coordinator"])

    def test_no_command_line_has_a_secret_in_it(self, written: Path) -> None:
        secrets = [path.read_bytes() for path in written.rglob("*.secret")]
        for path in written.glob("hosts/*/programs.json"):
            text = path.read_bytes()
            assert not any(secret in text or secret.hex().encode() in text for secret in secrets)

    def test_the_largest_message_follows_from_the_model(self) -> None:
        digits = largest_message(TASK)
        assert 2**20 < digits < 2**20 + 2**19
        assert largest_message(msgspec.structs.replace(TASK, model="resnet18")) > 80 * 2**20
        assert largest_message(msgspec.structs.replace(TASK, dtype="bfloat16")) == digits
        assert largest_message(msgspec.structs.replace(TASK, dtype="float64")) > digits

    @pytest.mark.processes
    def test_the_script_starts_the_supervisor_in_its_folder(
        self, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = Path(shutil.copytree(written / "hosts" / "10.0.0.3", tmp_path / "a folder"))
        stub = tmp_path / "bin" / "python"
        stub.parent.mkdir()
        stub.write_text('#!/bin/bash\nprintf "%s\\n" "$PWD" "$*" "$FLWR_HOME" "$(umask)"\nexit 7\n')
        stub.chmod(0o755)
        monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
        script = [folder / "run.sh"]
        done = subprocess.run(
            script, cwd="/", timeout=60, check=False, capture_output=True, text=True
        )
        assert done.returncode == 7
        module = "-m stagewise.deploy.apps.host ."
        assert done.stdout.split("\n")[:4] == [str(folder), module, f"{folder}/flower", "0077"]


class TestPlaces:
    def test_three_machines_in_one_line(self) -> None:
        cloud = parse_cloud("10.0.0.1")
        edges = parse_edges(["es0,es1=10.0.0.2"], cloud)
        clients = parse_clients(["c0=10.0.0.3:es0", "c1=10.0.0.3", "c2=10.0.0.2:es1"], edges)
        assert Site(cloud=cloud, edges=edges, clients=clients) == three_hosts()

    def test_ports_that_are_not_given_are_free_ones(self) -> None:
        cloud = Cloud(host="h", port=9093)
        edges = parse_edges(["a=h", "b=h:9094", "c=h", "d=g"], cloud)
        assert [edge.port for edge in edges] == [9095, 9094, 9096, 9093]

    def test_addresses_of_six_words(self) -> None:
        assert parse_cloud("[fd00::1]:80") == Cloud(host="fd00::1", port=80)
        assert parse_edges(["e=[fd00::1]"], Cloud(host="h"))[0].host == "fd00::1"
        (client,) = parse_clients(["c=[fd00::1]:es0"], EDGES)
        assert client == ClientSite(id="c", host="fd00::1", edges=("es0",))

    @pytest.mark.parametrize(
        ("option", "text"),
        [
            ("cloud", "h:"),
            ("cloud", "h:x"),
            ("cloud", "h:99999999999999999999"),
            ("cloud", "fd00::1"),
            ("cloud", "[fd00::1"),
            ("cloud", "[fd00::1]9092"),
            ("cloud", ""),
            ("edge", "=h"),
            ("edge", "e,=h"),
            ("edge", "e="),
            ("edge", "e=h:0"),
            ("client", "c"),
            ("client", "c="),
            ("client", "c=h:"),
            ("client", "c=h:es9"),
            ("client", "c=h;rm -rf"),
            ("client", "$(x)=h"),
        ],
    )
    def test_a_mistake_is_one_line(
        self, option: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = {"cloud": ["h"], "edge": ["es0=h"], "client": ["c0=h"]}
        given[option] = [text] if option == "cloud" else [*given[option], text]
        words = [word for name, texts in given.items() for t in texts for word in (f"--{name}", t)]
        assert main(["deploy", "init", "--out", str(tmp_path / "site"), *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith("stagewise: ") and error.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_one_command_for_three_machines(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "site"
        words = (
            "--cloud 10.0.0.1 --edge es0,es1=10.0.0.2 --client c0=10.0.0.3:es0 --client c1=10.0.0.3"
        )
        chosen = ["--dataset", "digits", "--rounds", "2", "--seed", "5", "--learning-rate", "0.25"]
        assert main(["deploy", "init", "--out", str(out), *words.split(), *chosen]) == 0
        assert "10.0.0.3" in capsys.readouterr().out
        site = load_site(out / "site.toml")
        assert (site.rounds, site.seed, site.dataset) == (2, 5, "digits")
        assert TaskFile.load(out / "hosts" / "10.0.0.3" / "task.json") == TaskFile(
            dataset="digits", model="mlp", learning_rate=0.25, seed=5
        )
        site.check_scenario(load_scenario(out / "hosts" / "10.0.0.3" / "scenario.json"))

    def test_the_same_from_a_file_with_a_scenario(self, tmp_path: Path) -> None:
        scenario = scenario_of(three_hosts())
        save_scenario(scenario, tmp_path / "s.json")
        site = three_hosts(dataset="digits", scenario=str(tmp_path / "s.json"))
        (tmp_path / "site.toml").write_text(to_toml(site))
        out = tmp_path / "site"
        assert (
            main(["deploy", "init", "--out", str(out), "--from", str(tmp_path / "site.toml")]) == 0
        )
        assert load_scenario(out / "hosts" / "10.0.0.1" / "scenario.json").sha256 == scenario.sha256

    @pytest.mark.parametrize(
        "words",
        [
            "--cloud h --edge e=h --client c=h --policy nonsense",
            "--cloud h --edge e=h --client c=h --design X",
            "--cloud h --edge e=h --client c=h --dataset nonsense",
            "--cloud h --edge e=h --client c=h --design F",
            "--cloud h --edge e --client c=h",
            "--cloud h --edge e=h",
            "--edge e=h --client c=h",
            "--from nonsense.toml",
            "--from site.toml --rounds 3",
        ],
    )
    def test_a_mistake_is_one_line(
        self, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["deploy", "init", "--out", str(tmp_path / "site"), *words.split()]) == 2
        error = capsys.readouterr().err
        assert error.startswith("stagewise: ") and error.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_without_the_extra(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("stagewise.cli.deploy_init_command.find_spec", lambda name: None)
        words = ["--cloud", "h", "--edge", "e=h", "--client", "c=h"]
        assert main(["deploy", "init", "--out", str(tmp_path / "site"), *words]) == 2
        assert "stagewise-hfl[deploy]" in capsys.readouterr().err

    def test_the_drawn_scenario_has_the_sites_names_and_links(self) -> None:
        site = three_hosts(dataset="digits")
        scenario, _ = site_scenario(site)
        site.check_scenario(scenario)
        assert site_of(scenario).clients == tuple(
            ClientSite(id=client.id, host="10.0.0.3", edges=client.edges) for client in site.clients
        )
