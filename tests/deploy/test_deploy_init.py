import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import random_scenario
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.world.scenario_file import load_scenario, save_scenario

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from deploy_cases import wait_until
from test_site import site_of, three_hosts

from stagewise.deploy import init as deploy_init
from stagewise.deploy.init import init_site
from stagewise.deploy.places import parse_clients, parse_cloud, parse_edges
from stagewise.deploy.run_script import run_script
from stagewise.deploy.site import ClientSite, Cloud, EdgeSite, Site, load_site, to_toml
from stagewise.deploy.site_scenario import _renamed, read_cloud_folder, site_scenario
from stagewise.deploy.task import TaskFile
from stagewise.world.scenario import Scenario

TASK = TaskFile(dataset="digits", model="mlp", learning_rate=0.1)
EDGES = (EdgeSite(id="es0"), EdgeSite(id="es1"))


def scenario_of(site: Site) -> Scenario:
    clients, edges = len(site.clients), len(site.edges)
    return _renamed(random_scenario(0, clients, edges, isolated=0.0), site)


@pytest.fixture(scope="module", params=["H", "F"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three machines, written."""
    site = three_hosts() if request.param == "H" else three_hosts(design="F", edges=EDGES)
    out = tmp_path_factory.mktemp("init") / "site"
    init_site(site, scenario_of(site), TASK, out)
    return out


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


CLOUD_FILES = {"run.sh", "site.toml", "scenario.json", "task.json"} | {
    f"cloud/{name}" for name in ("ca.pem", "server.pem", "server.key", "superlink.secret")
}


def edge_files(edge: str, *clients: str) -> set[str]:
    names = ["ca.pem", "server.pem", "server.key", "superlink.secret", "cloud.key", "node.secret"]
    return {f"edge-{edge}/{name}" for name in [*names, *(f"nodes/{c}.pub" for c in clients)]}


def client_files(client: str, *servers: str) -> set[str]:
    names = ["ca.pem", "node.secret", *(f"{server}.key" for server in servers)]
    return {f"client-{client}/{name}" for name in names}


class TestFolders:
    def test_a_machine_has_what_runs_on_it_and_nothing_else(self, written: Path) -> None:
        hosts = {folder.name: contents(folder) for folder in (written / "hosts").iterdir()}
        both = {"run.sh", "scenario.json", "task.json"}
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


STUB = """#!/bin/bash
# In place of every program: writes down how it was called, and stays, or ends.
name=$(basename "$0")
[[ $1 == -m ]] && name=$2
printf '%s\\n' "${*@Q}" >>"$CALLS/$name"
case $name in
    stagewise.deploy.apps.register) exit 0 ;;
    stagewise) until [[ -s $CALLS/up ]]; do sleep 0.05; done; exit 7 ;;
    flower-supernode) exit 1 ;;
esac
trap 'echo ended >>"$CALLS/ended"; exit' TERM
echo up >>"$CALLS/up"
while true; do sleep 0.05; done
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the stubs on the PATH write down their calls."""
    programs, record = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    record.mkdir()
    for name in ("python", "flower-supernode", "stagewise"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(record))
    return record


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def programs(script: Path) -> list[tuple[str, list[str]]]:
    """The programs that a script runs, with their arguments."""
    found = []
    for line in script.read_text().replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        words = words[2:] if words[:1] == ["keep"] else words
        if words[:2] == ["python", "-m"]:
            found.append((words[2], words[3:]))
        elif words[:1] in (["flower-supernode"], ["stagewise"]):
            found.append((words[0], words[1:]))
    return found


def copied(written: Path, host: str, tmp_path: Path) -> Path:
    """The machine's folder, moved to the machine."""
    return Path(shutil.copytree(written / "hosts" / host, tmp_path / "a folder"))


@pytest.mark.processes
class TestScript:
    @pytest.mark.processes
    def test_the_cloud_ends_with_its_coordinator_and_ends_all(
        self, written: Path, calls: Path, tmp_path: Path
    ) -> None:
        folder = copied(written, "10.0.0.1", tmp_path)
        done = subprocess.run([folder / "run.sh"], timeout=60, check=False)
        assert done.returncode == 7
        assert lines(calls / "stagewise") == ["'deploy' 'up' '--site' '.' '--out' 'run'"]
        assert len(lines(calls / "up")) == len(lines(calls / "ended")) == 1

    @pytest.mark.processes
    def test_nodes_that_end_are_started_again_and_a_signal_ends_all(
        self, written: Path, calls: Path, tmp_path: Path
    ) -> None:
        folder = copied(written, "10.0.0.3", tmp_path)
        design = load_site(written / "site.toml").design
        nodes = {"H": 3, "F": 2}[design]
        script = subprocess.Popen([folder / "run.sh"], cwd="/")
        try:
            wait_until(lambda: len(lines(calls / "up")) == 2)
            wait_until(lambda: len(lines(calls / "flower-supernode")) >= 2 * nodes)
            script.send_signal(signal.SIGTERM)
            assert script.wait(30) == 143
        finally:
            script.kill()
        assert len(lines(calls / "ended")) == 2

    def test_every_file_a_command_names_is_there(self, written: Path) -> None:
        made_there = {"superlink.db"}
        for folder in (written / "hosts").iterdir():
            for word in shlex.split((folder / "run.sh").read_text(), comments=True):
                name = word.partition("=")[2] if word.endswith(".pub") else word
                if name.startswith(("cloud/", "edge-", "client-")) and "/" in name:
                    assert (folder / name).is_file() or Path(name).name in made_there

    def test_the_programs_understand_their_arguments(
        self, written: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
        from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

        from stagewise.deploy.apps import client_app, edge_app, register

        commands = [
            command for script in written.glob("hosts/*/run.sh") for command in programs(script)
        ]
        called = {name for name, _ in commands}
        for words in (words for name, words in commands if name == "stagewise.deploy.guard"):
            given = _parse_args_run_superlink().parse_args(words)
            assert given.enable_supernode_auth and not given.insecure
            assert given.host.startswith("10.0.0.") and given.isolation == "process"
            assert not given.runtime_dependency_install
        for words in (words for name, words in commands if name == "flower-supernode"):
            node = _parse_args_run_supernode().parse_args(words)
            assert node.host == "127.0.0.1" and not node.insecure
        for program in (client_app, edge_app, register):
            for words in (words for name, words in commands if name == program.__name__):
                monkeypatch.setattr(sys, "argv", [program.__name__, *words])
                program.arguments()
        edges = {edge_app.__name__} if load_site(written / "site.toml").design == "H" else set()
        assert called == edges | {
            "stagewise",
            "stagewise.deploy.guard",
            "flower-supernode",
            client_app.__name__,
            register.__name__,
        }

    def test_each_node_of_a_machine_has_a_port_of_its_own(self) -> None:
        site = three_hosts()
        for host in site.hosts:
            words = shlex.split(run_script(site, host), comments=True)
            ports = [words[place + 1] for place, word in enumerate(words) if word == "--port"]
            assert len(set(ports)) == len(ports)


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
