"""Rounds of a plain Flower app, and of a deployment of ours beside it: seconds, and their ratio.

`python benchmarks/plain_flower.py [--clients 8] [--edges 2] [--rounds 8] [--repeats 3]` starts Flower's
own `flower-superlink`, a `flower-supernode` for each client and `flwr run` with `plain_app`, federated
averaging of a small network on digits; then `deploy_speed.py` with as many clients and rounds; and so on
in turn. A plain round is one exchange with each client. One of ours is a roll call, a decision, an
exchange with each edge, and for each edge as many exchanges with its clients as there are edge rounds,
over TLS with node authentication.
"""

import argparse
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("clients", 8), ("edges", 2), ("rounds", 8), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    plain, ours = [], []
    for _ in range(asked.repeats):
        plain.append(statistics.median(plain_rounds(asked.clients, asked.rounds)))
        ours.append(our_round(asked.clients, asked.edges, asked.rounds))
        print(f"plain Flower {plain[-1]:.2f} s a round, ours {ours[-1]:.2f} s", flush=True)
    ratios = [mine / theirs for mine, theirs in zip(ours, plain, strict=True)]
    print(json.dumps({"plain_s": plain, "ours_s": ours, "ratio": statistics.median(ratios)}))
    return 0


def our_round(clients: int, edges: int, rounds: int) -> float:
    words = ["--clients", clients, "--edges", edges, "--rounds", rounds]
    command = [sys.executable, HERE / "deploy_speed.py", *words]
    done = subprocess.run([str(w) for w in command], check=True, capture_output=True, text=True)
    [figures] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return float(figures["round_s"])


def plain_rounds(clients: int, rounds: int) -> list[float]:
    """The seconds of each round."""
    folder = Path(tempfile.mkdtemp(prefix="plain-flower-"))
    port = free_port()
    (folder / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    app, times = folder / "app", folder / "times.json"
    shutil.copytree(HERE / "plain_app", app)
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # Flower starts programs of its own by name
    environment = {**os.environ, "PATH": path, "FLWR_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    with ExitStack() as stack:

        def start(name: str, *words: object) -> "subprocess.Popen[bytes]":
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [str(BIN / words[0]), *map(str, words[1:])],
                env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        start("superlink", "flower-superlink", "--insecure", "--port", port)
        for number in range(clients):
            start(
                f"node-{number}", "flower-supernode", "--insecure",
                "--superlink", f"127.0.0.1:{port}", "--port", free_port(),
                "--node-config", f"partition={number} partitions={clients}",
            )  # fmt: skip
        wait_for(port)
        config = f'rounds={rounds} clients={clients} times="{times}"'
        run = start("run", "flwr", "run", app, "--stream", "--run-config", config)
        deadline = time.monotonic() + 900
        while not times.exists() and time.monotonic() < deadline:
            if run.poll() not in (None, 0):
                raise SystemExit((folder / "run.log").read_text())
            time.sleep(0.2)
        time.sleep(0.5)
    begins = json.loads(times.read_text())
    return [end - begin for begin, end in itertools.pairwise(begins)]


def wait_for(port: int, patience_s: float = 120.0) -> None:
    """Until somebody listens there."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit(f"nobody listens on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
