"""Small experiments, and stand-ins for what workers do, which other processes can import."""

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stagewise import Answer, Outcome, Policy, Round, Scenario
from stagewise_experiments.experiment import Experiment
from stagewise_experiments.machine import this_machine

SMALL = """
id = "small"
title = "Two methods on a small system"
paper = ""
about = "What the engine does with cells."
measure = "decisions"
policies = ["c2e-assoc-only", "client-sel-only"]
quantities = ["objective"]

[setting]
rounds = 2

[setting.scenario]
clients = 12
edges = 2
data_min = 500
kld_max = 0.8

[[axes]]
name = "p"
field = "scenario.p_min"
values = [0.5, 0.9]
label = "least online probability"

[[panels]]
form = "sweep"
title = "cost"
quantity = "objective"
x = "p"

[profiles.quick]
seeds = 2

[profiles.full]
seeds = 3
first_seed = 10
values.p = [0.25, 0.5]
setting.rounds = 3
setting.scenario.clients = 15
"""

FOLDER_VARIABLE = "EXPERIMENT_CASES_FOLDER"
"""Where stand-ins for work leave their traces."""


def small(**changes: Any) -> Experiment:
    import tomllib

    fields = tomllib.loads(SMALL) | changes
    return msgspec.convert(fields, Experiment)


def write_small(folder: Path, text: str = SMALL, name: str = "small") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


class ThreadWorkers:
    """Workers in this process, which cannot break."""

    def __init__(self, count: int = 1) -> None:
        self.count = self.window = count
        self.executor: Executor = ThreadPoolExecutor(count)

    def restart(self) -> None:
        raise AssertionError("a thread pool does not break")

    def stop(self) -> None:
        self.executor.shutdown()


def traced(request: dict[str, Any]) -> dict[str, Any]:
    """Leave a trace of the cell, and give its seed."""
    setting = request["setting"]
    name = f"{setting['policy']} {setting['scenario']['p_min']} {setting['seed']}"
    with (Path(os.environ[FOLDER_VARIABLE]) / "began").open("a") as file:
        file.write(f"{name}\n")
    return report(setting["seed"])


def six_and_no_more(request: dict[str, Any]) -> dict[str, Any]:
    """Six cells end; who has another works on it until it is killed."""
    done = traced(request)
    while len(began(Path(os.environ[FOLDER_VARIABLE]))) > 6:
        time.sleep(0.1)
    return done


def fatal_for_seed_1(request: dict[str, Any]) -> dict[str, Any]:
    """A cell that takes its worker with it, every time."""
    done = traced(request)
    if request["setting"]["seed"] == 1:
        os._exit(1)
    return done


def fatal_for_seed_1_later(request: dict[str, Any]) -> dict[str, Any]:
    """The same once the others have had time to go to another worker, and to end there.

    Dask blames a death on whatever was handed to the worker, also on what only waited there.
    """
    if request["setting"]["seed"] == 1:
        time.sleep(2)
    return fatal_for_seed_1(request)


def killed_once(request: dict[str, Any]) -> dict[str, Any]:
    """The first cell's worker is killed from outside; the cell itself is well."""
    done = traced(request)
    mark = Path(os.environ[FOLDER_VARIABLE]) / "killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
    return done


def threads_of_worker(request: dict[str, Any]) -> dict[str, Any]:
    """How many threads the arithmetic of a worker has."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return report([pool["num_threads"] for pool in threadpool_info()])


class _Learner(Policy):
    """Everybody serves where they can, but for some that depend on the model's loss."""

    def __init__(self) -> None:
        self.loss = 0.0

    def decide(self, round_: Round) -> Answer:
        links, room = round_.scenario.links, round_.scenario.edges.capacity.copy()
        answer = np.full(len(round_.online), -1)
        for link in np.flatnonzero(round_.usable).tolist():
            client, edge = links.client[link], links.edge[link]
            if answer[client] < 0 and room[edge] > 0:
                answer[client] = edge
                room[edge] -= 1
        rest = np.flatnonzero(answer >= 0)[: int(1e4 * self.loss) % 5]
        answer[rest] = -1
        return Answer(answer)

    def observe(self, outcome: Outcome) -> None:
        self.loss = outcome.loss or 0.0


def learner(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    return _Learner()


def report(value: Any) -> dict[str, Any]:
    machine = msgspec.to_builtins(this_machine())
    return {"outputs": {"value": value}, "error": None, "seconds": 1.0, "machine": machine}


def import_path() -> str:
    """Where other processes find this module, and whatever this process was told to look for."""
    return os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def began(folder: Path) -> list[str]:
    """The cells that began, as often as they did."""
    path = folder / "began"
    return path.read_text().splitlines() if path.exists() else []


def process_id(request: dict[str, Any]) -> dict[str, Any]:
    """Which worker has the cell, once two have had one."""
    folder = Path(os.environ[FOLDER_VARIABLE]) / "workers"
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.02)
    return report(os.getpid())
