"""A client: says who it is, and trains from its edge's model when asked.

`python -m stagewise.deploy.apps.client_app --client c1 --node 127.0.0.1:9400 --secret node.secret
--task task.json --scenario scenario.json`, with a `--node` for each of the client's SuperNodes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from stagewise.deploy.executor import serve
from stagewise.deploy.messages import Here, Step, Update, model_of, pack, read
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import read_bytes
from stagewise.training import Weights, train_client
from stagewise.world.scenario_file import load_scenario


class Client:
    """A client of a scenario, with its data read and PyTorch warm."""

    def __init__(self, name: str, task: TaskFile, scenario: Path) -> None:
        world = load_scenario(scenario)
        if name not in world.clients.index:
            raise StagewiseError(f"client = {shown(name)}: must be one of the scenario")
        self.name, self._index = name, world.clients.index[name]
        self.task = task.task(world)
        # What the first training compiles and allocates must not make the first round late.
        state = self.task.builder().state_dict()
        weights = {part: tensor.numpy() for part, tensor in state.items()}
        train_client(self.task, weights, self._index, 0, 0)

    def train(self, step: Step, weights: Weights) -> Weights:
        """The client's model after its local steps (Eq. 1)."""
        return train_client(self.task, weights, self._index, step.round, step.edge_round)


def make_app(name: str, train: Callable[[Step, Weights], Weights]) -> ClientApp:
    """The Flower app of the client `name`, which trains by `train`."""
    app = ClientApp()

    @app.query()
    def who(message: Message, context: Context) -> Message:
        return Message(pack(Here(kind="client", id=name)), reply_to=message)

    @app.train()
    def step(message: Message, context: Context) -> Message:
        asked, weights = read(message.content, Step), model_of(message.content)
        began = time.perf_counter()
        try:
            if asked.client != name:
                raise StagewiseError(f"client = {shown(asked.client)}: this is {shown(name)}")
            if weights is None:
                raise StagewiseError("model: is missing")
            trained, failure = train(asked, weights), ""
        except StagewiseError as error:
            trained, failure = None, str(error)
        update = Update(step=asked, train_s=time.perf_counter() - began, failure=failure)
        return Message(pack(update, trained), reply_to=message)

    return app


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="stagewise-client", description="A client's executor")
    parser.add_argument("--client", required=True, help="its id in the scenario")
    parser.add_argument(
        "--node", required=True, action="append", help="host:port of a SuperNode on this machine"
    )
    parser.add_argument("--secret", required=True, type=Path, help="the SuperNodes' secret")
    parser.add_argument("--task", required=True, type=Path, help="task.json")
    parser.add_argument("--scenario", required=True, type=Path, help="scenario.json")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    client = Client(given.client, TaskFile.load(given.task), given.scenario)
    serve(make_app(client.name, client.train), given.node, read_bytes(given.secret))


if __name__ == "__main__":
    from stagewise.deploy.apps.running import run

    run(main)
