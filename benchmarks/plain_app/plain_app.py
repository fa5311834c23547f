"""Federated averaging of a small network on digits, as a plain Flower app: see plain_flower.py."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

client_app = ClientApp()
server_app = ServerApp()


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


@client_app.train()
def train(message: Message, context: Context) -> Message:
    data = load_digits()
    part = slice(context.node_config["partition"], None, context.node_config["partitions"])
    x = torch.tensor(data.data[part] / 16, dtype=torch.float32)
    y = torch.tensor(data.target[part])
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(15):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    arrays = ArrayRecord(model.state_dict())
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


class Timed(FedAvg):
    """Notes when every round begins."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.begins: list[float] = []

    def configure_train(self, *args: Any, **kwargs: Any) -> Iterable[Message]:
        self.begins.append(time.time())
        return super().configure_train(*args, **kwargs)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = Timed(
        fraction_evaluate=0.0,
        min_train_nodes=config["clients"],
        min_available_nodes=config["clients"],
    )
    arrays = ArrayRecord(network().state_dict())
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=config["rounds"])
    Path(config["times"]).write_text(json.dumps([*strategy.begins, time.time()]))
