"""The example app: what Flower packs of it, a run of its own code, and Flower's simulation if there."""

import importlib.util
import io
import logging
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_grid import FakeGrid, context_of
from flower_clients import Client, a_model, a_scenario, record

from stagewise.cli.main import main
from stagewise.deciding import solve
from stagewise.errors import StagewiseError
from stagewise.flower.query import MESSAGE_TYPE, roll_call_message
from stagewise.world.rounds_file import load_rounds
from stagewise.world.scenario_file import load_scenario, save_scenario

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "flower-app"
CONFIG = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
CLIENTS = CONFIG["clients"]


@pytest.fixture
def app(monkeypatch):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'stagewise-hfl[simulate]'")
    monkeypatch.syspath_prepend(str(APP))
    from stagewise_app import client_app, server_app

    return client_app.app, server_app.app


def test_the_page_on_a_policy_in_a_flower_app_runs(tmp_path, monkeypatch):
    """Its lines as printed, in a ServerApp and a ClientApp in memory."""
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    page = ROOT / "docs" / "how-to" / "policy-in-a-flower-app.md"
    at_server, at_client = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    save_scenario(a_scenario(), "s.json")
    app = ClientApp()
    exec(at_client, {"app": app})
    train = Client(0)

    @app.train()
    def _train(message, context):
        return train(message)

    @app.evaluate()
    def _evaluate(message, context):
        return train(message)

    nodes = {100 + i: partial(app, context=context_of({"client-id": f"c{i}"})) for i in range(10)}
    grid, names = FakeGrid(nodes), {"arrays": record(a_model())}
    server = ServerApp()

    @server.main()
    def _main(grid, context):
        exec(at_server, names | {"grid": grid})

    server(grid, context_of({}))
    rounds = {message.metadata.group_id for message in grid.sent_of("train")}
    assert len(rounds) == 30
    trained = {message.metadata.dst_node_id for message in grid.sent_of("train")}
    assert trained and trained <= set(nodes)


# Flower's own use of a library.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_accepts_the_configuration_and_packs_the_package():
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    config, warnings = load_and_validate(APP / "pyproject.toml")
    assert config["project"]["name"] == "stagewise-app" and warnings == []
    packed = zipfile.ZipFile(io.BytesIO(build_fab_from_disk(APP))).namelist()
    modules = {f"stagewise_app/{path.name}" for path in (APP / "stagewise_app").glob("*.py")}
    assert modules | {"pyproject.toml"} <= set(packed)
    assert {"client_app", "server_app", "task"} <= {Path(name).stem for name in modules}


def run(app, config, spoil=None):
    """The app on a grid in memory."""
    client, server = app

    def node(number):
        def reply(message):
            context = context_of({"partition-id": number, "num-partitions": CLIENTS}, config)
            made = client(message, context)
            if spoil is not None and message.metadata.message_type == "train":
                spoil(number, made)
            return made

        return reply

    grid = FakeGrid({100 + number: node(number) for number in range(CLIENTS)})
    server(grid, context_of({}, config))
    return grid


@pytest.fixture
def accuracies(app, monkeypatch):
    """Of the model before the first round and after each, as the server found them."""
    import torch
    from stagewise_app import server_app, task

    found = []

    def evaluate(*arguments):
        figures = task.evaluate(*arguments)
        found.append(figures["accuracy"])
        return figures

    monkeypatch.setattr(server_app, "evaluate", evaluate)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield found
    torch.set_num_threads(threads)


def test_the_app_learns_and_its_decisions_are_the_policys(app, accuracies, tmp_path):
    config = {**CONFIG, "num-server-rounds": 4, "out": str(tmp_path / "out")}
    grid = run(app, config)
    assert len(accuracies) == 5 and accuracies[0] < 0.2 and accuracies[-1] > 0.55
    out = tmp_path / "out"
    files = [str(out / "scenario.json"), str(out / "decisions.jsonl")]
    assert main(["check", *files, "--online", str(out / "online.jsonl")]) == 0
    scenario = load_scenario(out / "scenario.json")
    rounds = load_rounds(out / "online.jsonl", scenario)
    assert any(not round_.online.all() for round_ in rounds)
    asked: dict[int, set[str]] = {}
    for message in grid.sent_of("train"):
        number = int(message.metadata.group_id.split(".")[0]) - 1
        client = scenario.clients.ids[message.metadata.dst_node_id - 100]
        asked.setdefault(number, set()).add(client)
    direct = solve(scenario, rounds, method="pool-flexible", seed=config["seed"])
    assert asked == {d.round.index: set(d.assignment) for d in direct if d.assignment}
    assert len(grid.sent_of(MESSAGE_TYPE)) == 4 * CLIENTS


def test_the_app_goes_on_with_a_client_that_sends_nonsense(app, accuracies, caplog):
    logging.getLogger("flwr").propagate = True

    def spoil(number, reply):
        if number % 3 == 0:
            name = next(iter(reply.content["arrays"]))
            broken = np.full_like(reply.content["arrays"][name].numpy(), np.nan)
            reply.content["arrays"][name] = type(reply.content["arrays"][name])(broken)

    run(app, {**CONFIG, "num-server-rounds": 2, "away": 0.0, "policy": "fedcs"}, spoil)
    assert len(accuracies) == 3 and np.isfinite(accuracies).all() and accuracies[-1] > accuracies[0]
    assert "rejected" in caplog.text and "not finite" in caplog.text


def test_every_edge_round_has_batches_of_its_own(app):
    from stagewise_app import task
    from stagewise_app.scenario import make_scenario

    data = task.train_data(make_scenario(CONFIG), 0, 0)

    def losses(order):
        return tuple(task.train(task.make_model(0), data, CONFIG, 0, order))

    assert len({losses(order) for order in ("1.0", "1.1", "2.0")}) == 3
    assert losses("1.1") == losses("1.1") and len(losses("1.1")) == CONFIG["local-steps"]


def test_a_node_without_a_name_is_told_what_it_lacks(app):
    with pytest.raises(StagewiseError, match="must have client-id or partition-id"):
        app[0](roll_call_message(7, 1, 5.0), context_of({}, CONFIG))


def test_a_node_that_only_answers_does_not_load_torch_or_the_compiler():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import stagewise_app.client_app\n"
        "assert not {'torch', 'numba', 'scipy', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(APP)], check=True)


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Flower's simulation: pip install 'flwr[simulation]==1.41.0'",
)
@pytest.mark.processes
@pytest.mark.xdist_group("processes")
def test_flowers_simulation_runs_the_app(tmp_path):
    """The two commands of docs/flower-app.md, on a port of their own."""
    port = str(free_port())
    folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    link = subprocess.Popen(
        [
            *("flower-superlink", "--insecure", "--simulation", "--port", port),
            "--disable-runtime-dependency-installation",
            *("--control-api-address", f"127.0.0.1:{free_port()}"),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        done = subprocess.run(
            [
                *("flwr", "run", str(APP), "local", "--stream", "--federation-config"),
                f"num-supernodes={CLIENTS} client-resources-num-cpus=1",
                *("--run-config", f"num-server-rounds=2 out='{tmp_path / 'out'}'"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
        )
    finally:
        link.terminate()
        link.wait(60)
    out = tmp_path / "out"
    assert (out / "decisions.jsonl").exists(), done.stdout + done.stderr
    files = [str(out / "scenario.json"), str(out / "decisions.jsonl")]
    assert main(["check", *files, "--online", str(out / "online.jsonl")]) == 0
    assert "updates are counted" in done.stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(240):
        try:
            socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError("the SuperLink does not answer")
