"""What each extra is for, done once: `python extra_promises.py EXTRA`, in an environment with it.

The environment has the package and that extra alone, the current folder is empty, and a promise
returns what was seen.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

EXPERIMENT = """
id = "small"
title = "Small"
paper = ""
about = "What a round costs."
measure = "decisions"
policies = ["local-search", "c2e-greedy-assoc"]
quantities = ["objective"]

[setting.scenario]
clients = 16
edges = 2

[[axes]]
name = "clients"
field = "scenario.clients"
values = [16, 20]
label = "clients"

[profiles.quick]
seeds = 1
setting = { rounds = 2 }

[profiles.full]
seeds = 2
setting = { rounds = 2 }

[[panels]]
form = "sweep"
title = "Cost of a round"
quantity = "objective"
x = "clients"
"""


def stagewise(line: str) -> str:
    """What a command prints."""
    return _output(BIN / "stagewise", *line.split())


def _output(*command: object, cwd: Path | None = None) -> str:
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


@contextmanager
def _started(*command: object) -> Iterator[None]:
    """A program that is ended after the block."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    program = subprocess.Popen([str(part) for part in command], **quiet)
    try:
        yield
    finally:
        program.terminate()
        program.wait(30)


def _simulated(options: str = "") -> None:
    stagewise(f"simulate --dataset digits --rounds 2 --out run {options}")


def simulate() -> str:
    """Training that is taken back and goes on, a report, and an experiment."""
    _simulated()
    stagewise("rollback run --to 0")
    stagewise("resume run")
    stagewise("report run -o report.html --pictures pictures")
    Path("small.toml").write_text(EXPERIMENT)
    stagewise("experiment run small.toml --out results")
    stagewise("experiment report results -o results.html")
    rounds = len(Path("run/rounds.jsonl").read_text().splitlines())
    pictures = len(list(Path("pictures").iterdir()))
    assert rounds == 2 and pictures > 3 and Path("results/small/picture.png").exists()
    return f"{rounds} rounds trained and resumed, a report with {pictures} pictures, an experiment"


def cluster() -> str:
    """The same experiment on a Dask cluster of this machine."""
    Path("small.toml").write_text(EXPERIMENT)
    here = ("--no-dashboard", "--host", "127.0.0.1")
    place = Path("scheduler.json")
    with _started(BIN / "dask", "scheduler", *here, "--port", 0, "--scheduler-file", place):
        while not place.exists():
            time.sleep(0.1)
        address = json.loads(place.read_text())["address"]
        with _started(BIN / "dask", "worker", address, *here, "--nworkers", 2, "--nthreads", 1):
            stagewise(f"experiment run small.toml --cluster {address} --out results")
    table = Path("results/small/table.md").read_text()
    assert "| 20 | local search |" in table, table
    return "an experiment on a scheduler and two workers"


def deploy() -> str:
    """A cloud, two edges and four clients as processes, and the strategy for Flower apps."""
    stagewise("deploy up --local --clients 4 --edges 2 --rounds 1 --out live")
    stagewise("check live/scenario.json live/decisions.jsonl --online live/online.jsonl")
    (line,) = Path("live/live.jsonl").read_text().splitlines()
    hosts = "--cloud 10.0.0.1 --edge es0=10.0.0.2 --client c0,c1=10.0.0.3"
    stagewise(f"deploy init {hosts} --out site")
    program = "from stagewise.flower import StagewiseStrategy, answer_query"
    _output(sys.executable, "-c", program)
    fates = json.loads(line)["fates"]
    return f"a round of 2 edges and 4 clients as processes: {fates['counted']} updates counted"


def _ask(address: str, method: str, path: str, body: object = None) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    for _ in range(600):
        request = urllib.request.Request(address + path, content, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.headers["Retry-After"] is None:
                sys.exit(f"{path}: {error.read().decode()}")
        except OSError:  # not there yet
            pass
        time.sleep(0.2)
    sys.exit(f"{path}: no answer")


def _served(store: str, *options: str) -> str:
    """A round decided over HTTP without PyTorch, and the page."""
    assert importlib.util.find_spec("torch") is None
    stagewise("scenario numeric --clients 24 --edges 2 --seed 0 -o s.json")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with _started(BIN / "stagewise", "serve", "--port", port, "--store", store, *options):
        scenario = Path("s.json").read_bytes()
        sha256 = _ask(address, "POST", "/v1/scenarios", scenario)["sha256"]
        _ask(address, "PUT", "/v1/federations/phones", {"scenario": sha256, "policy": "pool"})
        online = [client["id"] for client in json.loads(scenario)["clients"]]
        asked = {"round": 0, "online": online}
        decision = _ask(address, "POST", "/v1/federations/phones/decisions", asked)
        with urllib.request.urlopen(address) as page:
            assert b"<title>" in page.read()
    assert decision["feasible"], decision
    return f"a round decided over HTTP, {len(decision['assignment'])} of 24 train, and the page"


def serve() -> str:
    """The service on SQLite."""
    return _served("stagewise.db")


def postgresql() -> str:
    """The service on a PostgreSQL server of its own."""
    sys.path.append(str(ROOT / "tests" / "serve"))
    from postgresql_server import new_database, programs, running

    within = programs()
    if within is None:
        return "not tried: there is no PostgreSQL server here"
    with running(within) as server:
        return _served(new_database(server))


def traces() -> str:
    """Spans that arrive at a collector."""
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{collector.server_address[1]}/v1/traces"
        _served("stagewise.db", "--traces", place)
        collector.shutdown()
    arrived = b"".join(bodies)
    assert b"decisions" in arrived, arrived[:1000]
    return f"spans of a round decided over HTTP: {len(arrived)} bytes at a collector"


def tensorboard() -> str:
    """Event files that TensorBoard reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _simulated("--log tensorboard")
    events = EventAccumulator("run/tensorboard")
    events.Reload()
    tags = events.Tags()
    names = tags["scalars"] or tags["tensors"]
    assert "accuracy" in "".join(names), tags
    return f"{len(names)} curves of 2 rounds read back"


def mlflow() -> str:
    """A run that MLflow finds."""
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    _simulated("--log mlflow")
    from mlflow import MlflowClient

    client = MlflowClient()
    experiments = [each.experiment_id for each in client.search_experiments()]
    (found,) = client.search_runs(experiments)
    assert "accuracy" in found.data.metrics, found.data.metrics
    return f"{len(found.data.metrics)} metrics of 2 rounds read back"


def docs() -> str:
    """This checkout's site, without running its tutorials."""
    options = ("--fail-on-warning", "--nitpicky", "--quiet", "-D", "plot_gallery=0")
    folder = Path.cwd()
    _output(
        *(sys.executable, "-m", "sphinx", *options),
        *("-d", folder / "doctrees", ROOT / "docs", folder / "site"),
    )
    return f"a site of {len(list(Path('site').rglob('*.html')))} pages"


PROMISES: dict[str, Callable[[], str]] = {
    "simulate": simulate,
    "cluster": cluster,
    "deploy": deploy,
    "serve": serve,
    "postgresql": postgresql,
    "traces": traces,
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "docs": docs,
}

if __name__ == "__main__":
    print(PROMISES[sys.argv[1]]())
