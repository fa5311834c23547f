"""A deployment with faults: processes of every kind are killed and paused in the middle of rounds.

`python benchmarks/deploy_faults.py [--rounds 10] [--clients 8] [--edges 2] [--faults 10]` runs
`stagewise deploy up` on this machine with TLS and node authentication. At random moments it kills or
pauses a process: a client, an edge, the cloud's SuperLink, the supervisor, which are started again, or
the cloud's own, which this program starts again. One of each kind is paused, all others are killed. The
result is compared with what must be: every round complete, every decision true, every update accounted
for, nothing left running. `--record` names a file for it. Linux only. Exit status 1 if anything is
wrong.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
ROUND_S = 600.0


KINDS = ("client", "edge", "superlink", "supervisor", "cloud")


@dataclass(frozen=True)
class Fault:
    """What happens to a process of a kind, how many seconds after the fault before."""

    kind: str
    pause_s: float
    """0: it is killed; else it is stopped for so long, and goes on."""
    after_s: float

    def __str__(self) -> str:
        return f"{self.kind}: " + (f"paused for {self.pause_s:g} s" if self.pause_s else "killed")


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # and end what was started
    rng = random.Random(asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="deploy-faults-"))
    out = folder / "live"
    command = up_command(asked, out)
    print("$", " ".join(command))
    began = time.monotonic()
    log = folder / "up.log"
    process = start(command, log)
    seen = {process.pid}
    injected: list[str] = []
    status: int | None = None
    try:
        wait_until(process, out)
        for fault in draw_faults(asked, rng):
            time.sleep(fault.after_s)
            seen.update(programs(out).values())
            if process.poll() is not None:  # complete, or a failure of its own
                break
            pid = target(process.pid, out, fault.kind, rng)
            if pid is None:
                continue
            injected.append(str(fault))
            print(f"{time.monotonic() - began:6.1f} s: {fault}", flush=True)
            inject(pid, fault.pause_s)
            if fault.kind == "cloud" and not fault.pause_s:
                process.wait()
                process = start(command, log)
                seen.add(process.pid)
                wait_until(process, out)
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(ROUND_S * asked.rounds)
    finally:
        process.kill()
        process.wait()
    took_s = time.monotonic() - began
    print(f"{took_s:6.1f} s: the run ended with status {status} after {len(injected)} faults")
    fates: dict[str, int] = {}
    good = {"the run ended, and by itself only when it was complete": status == 0}
    if status == 0:
        time.sleep(1.0)
        left = [pid for pid in seen if Path(f"/proc/{pid}").exists()]
        fates, facts = verdict(out, asked.rounds, left)
        good |= facts
    else:
        print(log.read_text())
    if asked.record is not None:
        faults = dict(sorted(Counter(injected).items()))
        record = {**vars(asked), "faults": faults, "seconds": round(took_s), "fates": fates}
        asked.record.write_text(json.dumps({**record, "verdict": good}, default=str, indent=1))
    return 0 if all(good.values()) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--edges", type=int, default=2)
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--pause-s", type=float, default=80.0, help="0: kill all, pause none")
    parser.add_argument("--record", type=Path, help="a file for what happened, as JSON")
    parser.add_argument("--every-s", type=float, default=4.0, help="the mean time between two")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
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


def draw_faults(asked: argparse.Namespace, rng: random.Random) -> list[Fault]:
    """One pause of each kind among kills of any, as far as there are so many faults."""
    paused = asked.kinds[: asked.faults] if asked.pause_s else []
    killed = rng.choices(asked.kinds, k=asked.faults - len(paused))
    faults = [(kind, asked.pause_s) for kind in paused] + [(kind, 0.0) for kind in killed]
    rng.shuffle(faults)
    return [Fault(kind, pause_s, rng.uniform(0, 2 * asked.every_s)) for kind, pause_s in faults]


def programs(out: Path) -> dict[str, int]:
    """The processes of the deployment that run now, by name."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        path = out.with_name(f"{out.name}.site") / "site/hosts/127.0.0.1/processes.json"
        known = json.loads(path.read_text())
        found = {name: each["pid"] for name, each in known["programs"].items() if each["pid"]}
        found["supervisor"] = known["pid"]
    return found


def target(cloud: int, out: Path, kind: str, rng: random.Random) -> int | None:
    """A process of a kind."""
    if kind == "cloud":
        return cloud
    pids = [pid for name, pid in sorted(programs(out).items()) if kind in name]
    return rng.choice(pids) if pids else None


def inject(pid: int, pause_s: float) -> None:
    """Kill a process, or stop it and let it go on later; other faults happen meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP if pause_s else signal.SIGKILL)
    if pause_s:
        threading.Timer(pause_s, resume, [pid]).start()


def resume(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)


def wait_until(process: "subprocess.Popen[bytes]", out: Path) -> None:
    """Until the process is in its first round, or has ended."""
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            status = json.loads((out / "status.json").read_text())
            if status["pid"] == process.pid and status["phase"] == "training":
                return
        time.sleep(0.1)


def verdict(out: Path, rounds: int, left: list[int]) -> tuple[dict[str, int], dict[str, bool]]:
    """How many updates ended in each fate, and what must be true."""

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
        "nothing was left running": not left,
    }
    for what, true in good.items():
        print(f"{'yes' if true else 'NO '}  {what}")
    print(f"files: {out.parent}")
    return status["fates"], good


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
