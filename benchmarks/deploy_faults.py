"""A deployment with faults: clients and an edge are killed in the middle of rounds.

`python benchmarks/deploy_faults.py [--rounds 10] [--clients 8] [--edges 2] [--kill-cloud]` runs
`stagewise deploy up` on this machine with TLS and node authentication. At random moments it kills two
clients and one edge that are training just then (and, if asked, the cloud's process, which is then
started again). The result is compared with what must be: every round complete, every decision true,
every update accounted for. Linux only: it looks into /proc for the processes to kill. Exit status 1 if
anything is wrong.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
ROUND_S = 600.0


@dataclass(frozen=True)
class Kill:
    """What is to be killed, in which round, and how many seconds after its training began."""

    kind: str
    """client, edge or cloud."""
    round: int
    after_s: float


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # and end what was started
    rng = random.Random(asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="deploy-faults-"))
    out = folder / "live"
    command = up_command(asked, out)
    print("$", " ".join(command))
    kills = draw_kills(asked, rng)
    for kill in kills:
        print(
            f"to be killed: a {kill.kind}, round {kill.round}, {kill.after_s:.1f} s into training"
        )
    began = time.monotonic()
    log = folder / "up.log"
    gone: list[str] = []
    process = start(command, log)
    try:
        for kill in kills:
            if not wait_until(process, out, kill.round):
                break
            time.sleep(kill.after_s)
            if kill.kind == "cloud":
                process.kill()
                process.wait()
                print(f"{time.monotonic() - began:6.1f} s: killed the cloud, and started it again")
                process = start(command, log)
                continue
            name = draw_target(out, kill.kind, rng, gone)
            gone.append(name)
            ended = kill_processes(process.pid, name)
            print(f"{time.monotonic() - began:6.1f} s: killed {name}: {len(ended)} processes")
        status = process.wait(ROUND_S * asked.rounds)
    finally:
        process.kill()
        process.wait()
    print(f"{time.monotonic() - began:6.1f} s: the run ended with status {status}")
    if status != 0:
        print(log.read_text())
        return 1
    return verdict(out, asked.rounds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--edges", type=int, default=2)
    parser.add_argument("--kill-clients", type=int, default=2)
    parser.add_argument("--kill-edges", type=int, default=1)
    parser.add_argument("--kill-cloud", action="store_true")
    parser.add_argument("--design", default="H")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--policy", default="pool")
    parser.add_argument("--remedy", default="lend")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def up_command(asked: argparse.Namespace, out: Path) -> list[str]:
    options = ("clients", "edges", "rounds", "design", "dataset", "policy", "remedy")
    words = [word for name in options for word in (f"--{name}", str(getattr(asked, name)))]
    return [str(BIN / "stagewise"), "deploy", "up", "--local", "--out", str(out), *words]


def draw_kills(asked: argparse.Namespace, rng: random.Random) -> list[Kill]:
    kinds = ["client"] * asked.kill_clients + ["edge"] * asked.kill_edges
    kinds += ["cloud"] if asked.kill_cloud else []
    kills = [Kill(kind, rng.randrange(1, asked.rounds - 1), rng.uniform(0, 8)) for kind in kinds]
    return sorted(kills, key=lambda kill: (kill.round, kill.after_s))


def draw_target(out: Path, kind: str, rng: random.Random, gone: list[str]) -> str:
    """A client or an edge that is training now, and was not killed before."""
    groups = json.loads((out / "status.json").read_text())["groups"]
    names = sorted(groups) if kind == "edge" else sorted(itertools.chain(*groups.values()))
    return rng.choice([name for name in names if name not in gone])


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)


def wait_until(process: "subprocess.Popen[bytes]", out: Path, round_index: int) -> bool:
    """Until the round is being trained, or over; false if the run ended before."""
    give_up = time.monotonic() + ROUND_S * (round_index + 2)
    while process.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(OSError, ValueError):
            status = json.loads((out / "status.json").read_text())
            training = status["round"] == round_index and status["phase"] == "training"
            if (training and status["pid"] == process.pid) or status["round"] > round_index:
                return True
        time.sleep(0.1)
    return False


def kill_processes(parent: int, name: str) -> list[int]:
    """Kill every process of a client or an edge at once, as a power cut would."""
    gone = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            if belongs(words, name):
                os.kill(int(folder.name), signal.SIGKILL)
                gone.append(int(folder.name))
    return gone


def belongs(words: list[str], name: str) -> bool:
    pairs = set(itertools.pairwise(words))
    own = {("--client", name), ("--edge", name), ("--node-config", f'id="{name}"')}
    databases = [Path(value) for option, value in pairs if option == "--database"]
    return bool(pairs & own) or any(path.parent.name == f"edge-{name}" for path in databases)


def verdict(out: Path, rounds: int) -> int:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([str(BIN / "stagewise"), *words], capture_output=True, text=True)

    print(run("deploy", "status", str(out)).stdout)
    check = run(
        "check",
        str(out / "scenario.json"),
        str(out / "decisions.jsonl"),
        "--online",
        str(out / "online.jsonl"),
    )
    print("check:", check.stdout.strip(), check.stderr.strip())
    status = json.loads(run("deploy", "status", str(out), "--json").stdout)
    good = {
        f"all {rounds} rounds complete": status["complete"] == rounds,
        "every decision passes the check": check.returncode == 0,
        "every update has one fate": status["adds_up"],
        "fates sum to what was asked": sum(status["fates"].values()) == status["asked"],
        "no link was used that was down": links_were_up(out),
    }
    for what, true in good.items():
        print(f"{'yes' if true else 'NO '}  {what}")
    print(f"files: {out.parent}")
    return 0 if all(good.values()) else 1


def links_were_up(out: Path) -> bool:
    """Whether each client trained only where it had answered from."""
    return all(
        update["edge"] in line["reached"].get(update["client"], [])
        and update["edge"] in line["edges"]
        for line in map(json.loads, (out / "live.jsonl").read_text().splitlines())
        for update in line["updates"]
    )


if __name__ == "__main__":
    sys.exit(main())
