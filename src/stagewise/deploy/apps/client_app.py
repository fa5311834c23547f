"""A client: says who it is, and trains from its edge's model when asked.

`python -m stagewise.deploy.apps.client_app --client c1 --server 10.0.0.2:9093=es0.key
--root-certificates ca.pem --task task.json --scenario scenario.json`, with a `--server` for each of the
client's edges, or for the cloud where there is no layer of edges.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from stagewise.deploy.messages import ClientOrder, ClientReply, model_of, pack, read
from stagewise.deploy.node import ServerAddress, links_to, serve
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

    @app.train()
    def train_model(message: Message, context: Context) -> Message:
        order, weights = read(message.content, ClientOrder), model_of(message.content)
        began = time.perf_counter()
        trained, failure = TrainedModel(), ""
        try:
            if weights is None:
                raise StagewiseError("model: is missing")
            trained = train(order, weights)
        except StagewiseError as error:
            failure = str(error)
        reply = ClientReply(
            client=name,
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
        "--server", required=True, action="append", help="HOST:PORT=KEY of a SuperLink"
    )
    parser.add_argument("--root-certificates", required=True, type=Path, help="ca.pem")
    parser.add_argument("--task", required=True, type=Path, help="task.json")
    parser.add_argument("--scenario", required=True, type=Path, help="scenario.json")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    client = Client(given.client, TaskFile.load(given.task), given.scenario)
    servers = [ServerAddress.parse(text) for text in given.server]
    app = make_app(client.name, client.train)
    serve(links_to(servers, read_bytes(given.root_certificates), app))


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
