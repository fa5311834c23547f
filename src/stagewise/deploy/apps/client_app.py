"""A client: says who it is, and trains from its edge's model when asked.

`python -m stagewise.deploy.apps.client_app --client c1 --node 127.0.0.1:9400 --secret node.secret
--task task.json --scenario scenario.json`, with a `--node` for each of the client's SuperNodes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from stagewise.deploy.executor import serve
from stagewise.deploy.messages import ClientOrder, ClientReply, RollCallReply, model_of, pack, read
from stagewise.deploy.task import TaskFile
from stagewise.errors import StagewiseError, shown
from stagewise.files import read_bytes
from stagewise.model_weights import ModelWeights
from stagewise.training import train_client
from stagewise.world.scenario_file import load_scenario


class TrainedModel(NamedTuple):
    """A client's model after its local steps, and the losses of its first and last batch."""

    weights: ModelWeights | None = None
    loss_before: float | None = None
    loss_after: float | None = None


Train = Callable[[ClientOrder, ModelWeights], TrainedModel]


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

    def train(self, order: ClientOrder, weights: ModelWeights) -> TrainedModel:
        """The client's model after its local steps (Eq. 1)."""
        place = order.round, order.edge_round
        trained, figures = train_client(self.task, weights, self._index, *place)
        return TrainedModel(trained, figures.loss_before.item(), figures.loss_after.item())


def make_app(name: str, train: Train) -> ClientApp:
    """The Flower app of the client `name`, which trains by `train`."""
    app = ClientApp()

    @app.query()
    def answer_roll_call(message: Message, context: Context) -> Message:
        return Message(pack(RollCallReply(id=name)), reply_to=message)

    @app.train()
    def train_model(message: Message, context: Context) -> Message:
        order, weights = read(message.content, ClientOrder), model_of(message.content)
        began = time.perf_counter()
        trained, failure = TrainedModel(), ""
        try:
            if order.client != name:
                raise StagewiseError(f"client = {shown(order.client)}: this is {shown(name)}")
            if weights is None:
                raise StagewiseError("model: is missing")
            trained = train(order, weights)
        except StagewiseError as error:
            failure = str(error)
        reply = ClientReply(
            order=order,
            train_s=time.perf_counter() - began,
            loss_before=trained.loss_before,
            loss_after=trained.loss_after,
            failure=failure,
        )
        return Message(pack(reply, trained.weights), reply_to=message)

    return app


def arguments() -> argparse.Namespace:
    """The options on the command line."""
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
