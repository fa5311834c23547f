"""Three machines, each a network namespace of its own, run what `deploy init` wrote for them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from deploy_cases import wait_until

from stagewise.cli.main import main
from stagewise.deploy.certificates import make_authority, make_node_key, make_secret
from stagewise.deploy.programs import (
    ENVIRONMENT,
    Command,
    register_command,
    supernode_command,
)

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("processes")]

CLOUD, EDGE, CLIENTS = "10.77.0.1", "10.77.0.2", "10.77.0.3"
PATIENCE_S = 400.0  # for a busy machine; it takes a tenth of it on an idle one
ROUNDS = 1


@dataclass
class Network:
    """Machines by their addresses, on one switch."""

    prefix: str
    namespaces: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def plug_in(self, hosts: Sequence[str]) -> None:
        switch = self._namespace("switch")
        _ip("-n", switch, "link", "add", "name", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number, host in enumerate(hosts):
            name, port = self._namespace(host), f"port{number}"
            _ip("-n", switch, *f"link add {port} type veth peer name eth0 netns {name}".split())
            _ip("-n", switch, *f"link set {port} master bridge up".split())
            _ip("-n", name, *f"addr add {host}/24 dev eth0".split())
            _ip("-n", name, *["link", "set", "eth0", "up"])
            _ip("-n", name, *["link", "set", "lo", "up"])

    def start(self, host: str, command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
        inside = ["ip", "netns", "exec", self.namespaces[host], *map(str, command)]
        environment = os.environ | ENVIRONMENT | {"PATH": f"{_programs()}:{os.environ['PATH']}"}
        with log.open("wb") as stream:
            process = subprocess.Popen(
                inside, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        self.running.append(process)
        return process

    def processes(self, host: str) -> list[int]:
        return [int(word) for word in _ip("netns", "pids", self.namespaces[host]).split()]

    def unplug(self) -> None:
        """End everything that still runs, and take the machines away."""
        for process in self.running:
            process.terminate()
        for process in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for name in self.namespaces.values():
            for pid in _ip("netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _ip("netns", "delete", name)
        for process in self.running:
            process.wait(20)

    def _namespace(self, host: str) -> str:
        name = f"{self.prefix}-{len(self.namespaces)}"
        _ip("netns", "add", name)
        self.namespaces[host] = name
        return name


def _ip(*arguments: str) -> str:
    return subprocess.run(
        ["ip", *arguments], check=True, capture_output=True, text=True, timeout=30
    ).stdout


def _programs() -> Path:
    """Where Flower's and our programs are: beside this Python."""
    return Path(sys.executable).parent


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    if shutil.which("ip") is None:
        pytest.skip("needs network namespaces: there is no `ip`")
    hosts = Network(f"stagewise{os.getpid()}")
    try:
        try:
            hosts.plug_in([CLOUD, EDGE, CLIENTS])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"needs network namespaces: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.unplug()


@dataclass
class ThreeHosts:
    """What was seen of a run on three machines."""

    status: int
    folder: Path
    logs: Path
    strangers: dict[str, tuple[int, str]]
    left_behind: list[int]


@pytest.fixture(scope="module")
def seen(network: Network, tmp_path_factory: pytest.TempPathFactory) -> ThreeHosts:
    folder = tmp_path_factory.mktemp("three")
    words = f"--cloud {CLOUD} --edge es0={EDGE} --client c0,c1={CLIENTS}".split()
    chosen = ["--dataset", "digits", "--rounds", str(ROUNDS)]
    assert main(["deploy", "init", "--out", str(folder / "site"), *words, *chosen]) == 0
    for host in (CLOUD, EDGE, CLIENTS):
        (folder / "site" / "hosts" / host).rename(folder / host)
    shutil.rmtree(folder / "site")  # what the machines have must do

    scripts = {
        host: network.start(host, [folder / host / "run.sh"], folder / f"{host}.log")
        for host in (CLIENTS, EDGE, CLOUD)
    }
    strangers = _strangers(network, folder)
    status = scripts[CLOUD].wait(PATIENCE_S)
    for host in (EDGE, CLIENTS):
        scripts[host].terminate()
        scripts[host].wait(60)
    left = [pid for host in (CLOUD, EDGE, CLIENTS) for pid in network.processes(host)]
    return ThreeHosts(status, folder / CLOUD / "run", folder, strangers, left)


def _strangers(network: Network, folder: Path) -> dict[str, tuple[int, str]]:
    """From the clients' machine: those who must not get in, how they ended and what they printed."""
    own, other = folder / CLIENTS / "client-c0", make_authority(folder / "other")
    stranger = make_node_key(folder / "stranger", "c0")
    secret = make_secret(folder / "stranger" / "node.secret")
    link = f"{EDGE}:9093"
    attempts: dict[str, Command] = {
        "unknown key": supernode_command(
            "c0", link, own / "ca.pem", stranger.private, secret, 9600
        ),
        "other authority": [
            *supernode_command("c0", link, other.public, own / "es0.key", secret, 9601),
            *("--max-retries", "1"),
        ],
        "registers itself": register_command(link, own / "ca.pem", {"c0": stranger.public}),
    }
    # The edge's script says when its SuperLink is up and its nodes are registered.
    log = folder / f"{EDGE}.log"
    wait_until(lambda: "may connect" in log.read_text(), PATIENCE_S)
    logs = {name: folder / f"{name}.log" for name in attempts}
    processes = {
        name: network.start(CLIENTS, command, logs[name]) for name, command in attempts.items()
    }
    return {
        name: (process.wait(PATIENCE_S), logs[name].read_text())
        for name, process in processes.items()
    }


def _lines(path: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_every_round_is_trained_and_every_update_counted(seen: ThreeHosts) -> None:
    assert seen.status == 0, (seen.logs / f"{CLOUD}.log").read_text()
    assert [line["round"] for line in _lines(seen.folder / "rounds.jsonl")] == [*range(ROUNDS)]
    for line in _lines(seen.folder / "live.jsonl"):
        assert line["edges"] == ["es0"]
        updates = line["updates"]
        assert isinstance(updates, list) and updates
        assert {update["fate"] for update in updates} == {"counted"}


def test_the_decisions_pass_the_checker(seen: ThreeHosts) -> None:
    run = seen.folder
    words = [run / "scenario.json", run / "decisions.jsonl", "--online", run / "online.jsonl"]
    assert main(["check", *map(str, words)]) == 0


def test_a_strangers_node_is_refused(seen: ThreeHosts) -> None:
    status, printed = seen.strangers["unknown key"]
    assert status != 0
    assert "Failed to initialize the connection to the SuperLink" in printed


def test_a_certificate_of_another_authority_is_refused(seen: ThreeHosts) -> None:
    status, printed = seen.strangers["other authority"]
    assert status != 0
    assert "certificate verify failed" in printed.replace("CERTIFICATE_VERIFY_FAILED", "").lower()


def test_a_stranger_cannot_register_itself_from_another_machine(seen: ThreeHosts) -> None:
    status, printed = seen.strangers["registers itself"]
    assert status == 2
    assert "403" in printed


def test_the_scripts_leave_no_process_behind(seen: ThreeHosts) -> None:
    assert seen.left_behind == []
