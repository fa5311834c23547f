"""What a deployment on this machine takes: time to connect, time of a round, processes, memory.

`python benchmarks/deploy_speed.py [--clients 8] [--edges 2] [--rounds 8]` runs `stagewise deploy up
--local` and samples its processes from /proc twice a second (Linux only). Memory is the sum of the
proportional set sizes: what several processes share counts once. The figures are printed as JSON.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BIN = Path(sys.executable).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("clients", 8), ("edges", 2), ("rounds", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--design", default="H")
    parser.add_argument("--dataset", default="digits")
    asked = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="deploy-speed-")) / "live"
    words = [word for name, value in vars(asked).items() for word in (f"--{name}", str(value))]
    command = [str(BIN / "stagewise"), "deploy", "up", "--local", "--out", str(out), *words]
    began = time.monotonic()
    found: dict[str, float] = {}
    most = {"processes": 0, "memory_mb": 0.0}
    # Line by line as it comes: "connected" is what the start-up ends with.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=read, args=(process.stdout, began, found), daemon=True)
        reader.start()
        while process.poll() is None:
            pids = family(process.pid)
            most["processes"] = max(most["processes"], len(pids))
            most["memory_mb"] = max(most["memory_mb"], sum(map(proportional_mb, pids)))
            time.sleep(0.5)
    took_s = time.monotonic() - began
    live = [json.loads(line) for line in (out / "live.jsonl").read_text().splitlines()]
    walls = [line["poll_s"] + line["delay_s"] for line in live]
    figures = {
        "status": process.returncode,
        "connected_s": round(found.get("connected", float("nan")), 1),
        "rounds": len(live),
        "round_s": round(statistics.median(walls), 2),
        "poll_s": round(statistics.median(line["poll_s"] for line in live), 2),
        "training_s": round(statistics.median(line["delay_s"] for line in live), 2),
        "whole_run_s": round(took_s, 1),
        **{name: round(value) for name, value in most.items()},
        "fates": {
            fate: sum(line["fates"].get(fate, 0) for line in live) for fate in live[0]["fates"]
        },
    }
    print(json.dumps(figures))
    print(f"files: {out.parent}")
    return process.returncode


def read(stream: "subprocess.IO[bytes]", began: float, found: dict[str, float]) -> None:  # type: ignore[name-defined]
    for line in stream:
        text = line.decode(errors="replace").rstrip()
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr)
        if text.startswith("connected"):
            found.setdefault("connected", time.monotonic() - began)


def family(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if words[0] != "Z":
                parents[int(folder.name)] = int(words[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def proportional_mb(pid: int) -> float:
    """A process's share of the memory it uses, in MB."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(text.split("\nPss:")[1].split()[0]) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
