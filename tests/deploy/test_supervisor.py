"""The supervisor of a machine: programs start again when they end, and end with it, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deploy_cases import wait_until

from stagewise.deploy.layout import PROGRAMS
from stagewise.deploy.programs import Program, save_programs
from stagewise.deploy.supervisor import load_processes

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs signals"),
    pytest.mark.processes,
]

STAYS = ["bash", "-c", "while true; do sleep 0.05; done"]
STUBBORN = ["bash", "-c", "trap '' TERM; touch trapped; while true; do sleep 0.05; done"]


def program(name: str, command: list[str], main: bool = False) -> Program:
    return Program(name=name, about="a test's", command=command, main=main)


class Machine:
    """A supervisor in a folder of its own; what it says is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, folder / "said"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *programs: Program) -> "subprocess.Popen[bytes]":
        self.list(*programs)
        command = [sys.executable, "-m", "stagewise.deploy.apps.host", str(self.folder)]
        with self.said.open("ab") as stream:
            self.process = subprocess.Popen(command, stderr=stream, cwd=self.folder)
        return self.process

    def list(self, *programs: Program) -> None:
        save_programs(programs, self.folder / PROGRAMS)

    def pids(self) -> dict[str, int]:
        found = load_processes(self.folder)
        return {name: each.pid for name, each in found.items() if each.pid is not None}

    def wait_for(self, *names: str) -> dict[str, int]:
        wait_until(lambda: self.pids().keys() == set(names))
        return self.pids()


@pytest.fixture
def machine(tmp_path: Path):
    machine = Machine(tmp_path)
    yield machine
    if machine.process is not None:
        machine.process.kill()
        machine.process.wait()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.fault("A process of a site is killed (-9)", "it is started again, and it is said")
def test_who_is_killed_is_started_again_and_it_is_said(machine):
    machine.start(program("a", STAYS), program("b", STAYS))
    first = machine.wait_for("a", "b")
    os.kill(first["a"], signal.SIGKILL)
    wait_until(lambda: machine.pids().get("a", first["a"]) != first["a"])
    second = machine.wait_for("a", "b")
    assert second["b"] == first["b"]
    (line,) = machine.said.read_text().splitlines()
    log = machine.folder / "logs" / "a.log"
    assert line == f"a ended by signal 9 ({log}); it is started again in 0.5 s"
    assert load_processes(machine.folder)["a"].starts == 2


@pytest.mark.fault("A process ends again and again", "it is started at longer and longer intervals")
def test_who_ends_again_and_again_is_started_at_longer_and_longer_intervals(machine):
    machine.start(program("a", ["bash", "-c", "echo started; exit 3"]))
    wait_until(lambda: machine.said.read_text().count("\n") == 4)
    waits = [line.split(" in ")[1] for line in machine.said.read_text().splitlines()]
    assert waits == ["0.5 s", "2 s", "4 s", "8 s"]
    found = load_processes(machine.folder)["a"]
    assert (found.failures, found.ended, found.pid) == (4, "with status 3", None)
    assert Path(found.log).read_text() == "started\n" * 4


def test_a_command_that_does_not_exist_is_a_failed_start_and_the_others_go_on(machine):
    process = machine.start(program("a", ["no-such-command"]), program("b", STAYS))
    wait_until(lambda: machine.said.exists() and machine.said.read_text().count("\n") == 2)
    assert process.poll() is None
    assert machine.pids().keys() == {"b"}
    log, why = machine.folder / "logs" / "a.log", "no-such-command: No such file or directory"
    assert machine.said.read_text().splitlines() == [
        f"a ended before it started: {why} ({log}); it is started again in {pause} s"
        for pause in ("0.5", "2")
    ]
    found = load_processes(machine.folder)["a"]
    assert (found.starts, found.failures, found.pid) == (2, 2, None)
    machine.list(program("a", STAYS), program("b", STAYS))
    machine.wait_for("a", "b")


def test_it_ends_with_its_main_program_and_its_status(machine):
    until_up = ["bash", "-c", "until [[ -e trapped ]]; do sleep 0.05; done; exit 7"]
    process = machine.start(program("stubborn", STUBBORN), program("main", until_up, main=True))
    pids = machine.wait_for("stubborn", "main")
    assert process.wait(30) == 7
    assert not alive(pids["stubborn"])
    assert machine.pids() == {}


def test_a_main_program_that_is_killed_is_started_again(machine):
    machine.start(program("main", STAYS, main=True))
    first = machine.wait_for("main")["main"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: machine.pids().get("main", first) != first)
    assert machine.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_also_those_who_do_not_want_to(machine, number):
    process = machine.start(program("stubborn", STUBBORN), program("a", STAYS))
    pids = machine.wait_for("stubborn", "a")
    wait_until((machine.folder / "trapped").exists)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert not any(alive(pid) for pid in pids.values())


@pytest.mark.fault("The supervisor is killed (-9)", "all it started ends with it")
def test_nobody_survives_a_supervisor_that_is_killed(machine):
    if sys.platform != "linux":
        pytest.skip("only Linux tells processes of their parent's death")
    process = machine.start(program("stubborn", STUBBORN), program("a", STAYS))
    pids = machine.wait_for("stubborn", "a")
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in pids.values()))
    # And another can be started in its place.
    process.wait()
    machine.start(program("a", STAYS))
    wait_until(lambda: machine.pids().get("a", pids["a"]) != pids["a"])


@pytest.mark.fault("A site is started twice", "the second start is refused")
def test_a_second_one_in_the_same_folder_is_refused(machine):
    machine.start(program("a", STAYS))
    machine.wait_for("a")
    command = [sys.executable, "-m", "stagewise.deploy.apps.host", str(machine.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "another process is running it" in done.stderr


@pytest.mark.parametrize("asked", [True, False])
def test_a_list_that_changed_is_read_again(machine, asked):
    process = machine.start(program("a", STAYS), program("b", STAYS))
    pids = machine.wait_for("a", "b")
    machine.list(program("b", STAYS), program("c", STAYS))
    if asked:
        process.send_signal(signal.SIGHUP)
    assert machine.wait_for("b", "c")["b"] == pids["b"]
    assert not alive(pids["a"])
    (machine.folder / PROGRAMS).write_text("no JSON")
    wait_until(lambda: "programs.json" in machine.said.read_text())
    assert machine.pids().keys() == {"b", "c"}


def test_its_record_is_whole_at_any_time(machine):
    machine.start(program("a", ["bash", "-c", "exit 1"]))
    path, end = machine.folder / "processes.json", time.monotonic() + 2.0
    wait_until(path.exists)
    while time.monotonic() < end:
        assert json.loads(path.read_text())["format"] == "stagewise-processes/1"
