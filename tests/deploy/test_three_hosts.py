"""Three machines, each a network namespace of its own, run what `deploy init` wrote for them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("flwr", reason="the deploy extra is not installed")

from deploy_cases import wait_until

from stagewise.cli.main import main
from stagewise.deploy.layout import PROGRAMS
from stagewise.deploy.limits import load_refused
from stagewise.deploy.programs import ENVIRONMENT, load_programs, save_programs
from stagewise.deploy.supervisor import load_processes

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("processes")]

CLOUD, EDGE, CLIENTS = "10.77.0.1", "10.77.0.2", "10.77.0.3"
RecordProperty = Callable[[str, object], None]
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
    attacks: dict[str, str | int]
    grown_mb: dict[str, float]
    """By how much processes grew while they were attacked."""
    left_behind: list[int]


@pytest.fixture(scope="module")
def seen(network: Network, tmp_path_factory: pytest.TempPathFactory) -> ThreeHosts:
    folder = tmp_path_factory.mktemp("three")
    words = f"--cloud {CLOUD} --edge es0={EDGE} --client c0,c1,c2={CLIENTS}".split()
    chosen = ["--dataset", "digits", "--rounds", str(ROUNDS)]
    assert main(["deploy", "init", "--out", str(folder / "site"), *words, *chosen]) == 0
    for host in (CLOUD, EDGE, CLIENTS):
        (folder / "site" / "hosts" / host).rename(folder / host)
    shutil.rmtree(folder / "site")  # what the machines have must do

    # One client comes later: its key is with the attacker until then. Rounds begin once it is there,
    # for whoever has its key is taken for it.
    programs = load_programs(folder / CLIENTS / PROGRAMS)
    save_programs(
        [each for each in programs if each.name != "client-c2"], folder / CLIENTS / PROGRAMS
    )
    scripts = {
        host: network.start(host, [folder / host / "run.sh"], folder / f"{host}.log")
        for host in (CLIENTS, EDGE)
    }
    attacks, grown_mb = _attack(network, folder)
    save_programs(programs, folder / CLIENTS / PROGRAMS)
    scripts[CLIENTS].send_signal(signal.SIGHUP)
    _wait_for_client(folder, "client-c2")
    scripts[CLOUD] = network.start(CLOUD, [folder / CLOUD / "run.sh"], folder / f"{CLOUD}.log")
    status = scripts[CLOUD].wait(PATIENCE_S)
    scripts[EDGE].kill()  # what it has started must end all the same
    scripts[EDGE].wait()
    scripts[CLIENTS].terminate()
    scripts[CLIENTS].wait(60)
    wait_until(lambda: not network.processes(EDGE))
    left = [pid for host in (CLOUD, EDGE, CLIENTS) for pid in network.processes(host)]
    return ThreeHosts(status, folder / CLOUD / "run", folder, attacks, grown_mb, left)


def _attack(network: Network, folder: Path) -> tuple[dict[str, str | int], dict[str, float]]:
    """From the clients' machine, at an edge: what came of each attack, and how much programs grew."""
    wait_until(lambda: "edge-es0" in load_processes(folder / EDGE), PATIENCE_S)
    _wait_for_client(folder, "client-c0")
    pids = {
        name: each.pid
        for name, each in load_processes(folder / EDGE).items()
        if each.pid is not None
    }
    before = {name: _memory_mb(pid) for name, pid in pids.items()}
    role, attacker = folder / CLIENTS / "client-c2", Path(__file__).with_name("attacker.py")
    words = [
        f"{EDGE}:9093",
        role / "ca.pem",
        "--key",
        role / "es0.key",
        "--folder",
        folder / "evil",
    ]
    out = folder / "attacker.log"
    assert network.start(CLIENTS, [sys.executable, attacker, *words], out).wait(PATIENCE_S) == 0
    grown = {name: _memory_mb(pid) - before[name] for name, pid in pids.items()}
    return msgspec.json.decode(out.read_bytes().splitlines()[-1]), grown


def _wait_for_client(folder: Path, name: str) -> None:
    """Until it is connected with its edge."""
    log = folder / CLIENTS / "logs" / f"{name}.log"
    wait_until(lambda: log.exists() and "connected" in log.read_text(), PATIENCE_S)


def _memory_mb(pid: int) -> float:
    """The most memory that a process ever had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


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


@pytest.mark.fault(
    "From another machine: an unknown key, another authority, requests to list nodes and stop runs, "
    "answers and orders in another's name, a replay",
    "each is refused, and the run goes on",
)
@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        ("unknown key", "401: signed with a key that is not known"),
        ("other authority", "certificate"),
        ("lists nodes", "403: only nodes are answered from other machines"),
        ("stops a run", "403: only nodes are answered from other machines"),
        ("answers as another", "403: sends in the name of another"),
        ("sends an order", "403: sends an order, as only the server may"),
        ("replays", "401: a request that was sent before"),
    ],
)
def test_an_attack_from_another_machine(
    seen: ThreeHosts, attack: str, answer: str, record_property: RecordProperty
) -> None:
    record_property("seen", f"{attack}: {seen.attacks[attack]}")
    assert seen.attacks[attack] == answer


def test_a_node_with_a_key_of_its_own_connects(seen: ThreeHosts) -> None:
    """The attacks use a key that is good."""
    assert seen.attacks["connects"] == "done"


@pytest.mark.fault(
    "2 GB of bodies without a key, from another machine", "no process grows by 100 MB"
)
def test_two_gigabytes_without_a_key_are_not_taken(
    seen: ThreeHosts, record_property: RecordProperty
) -> None:
    """They may be read, and are thrown away: no program grows by them."""
    record_property("seen", f"the largest growth: {max(seen.grown_mb.values()):.1f} MB")
    assert max(seen.grown_mb.values()) < 100


@pytest.mark.fault("What a server refuses", "is named in its log and counted")
def test_what_is_refused_is_said(seen: ThreeHosts) -> None:
    log = (seen.logs / EDGE / "logs" / "edge-es0.log").read_text()
    assert f"refused: c2 at {CLIENTS}: sends in the name of another" in log
    assert f"refused: a stranger at {CLIENTS}: signed with a key that is not known" in log
    counted = load_refused(seen.logs / EDGE / "edge-es0")
    assert counted["c2: sends in the name of another"] == 1
    assert counted["c2: sends an order, as only the server may"] == 1


@pytest.mark.fault(
    "`run.sh` of an edge's machine is killed (-9)", "nothing it started is left running"
)
def test_the_scripts_leave_no_process_behind(seen: ThreeHosts) -> None:
    assert seen.left_behind == []
