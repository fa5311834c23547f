"""Seconds of warm rounds of federated averaging in Flower's simulation engine, as a JSON list.

    python benchmarks/flower_round.py CLIENTS STEPS BATCH ROUNDS PROCESSES THREADS

Needs `torch` and `flwr[simulation]`, not stagewise. `benchmarks/training.py` calls it.
"""

import json
import sys
import time
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn.functional import cross_entropy

FOLDER = str(Path(__file__).parent)
CLIENTS, STEPS, BATCH, ROUNDS, PROCESSES, THREADS = map(int, sys.argv[1:])

sys.path.insert(0, FOLDER)
from compared_work import mnist_cnn  # noqa: E402

client_app = ClientApp()
server_app = ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """A client's local steps of plain SGD."""
    sys.path.insert(0, FOLDER)
    from compared_work import images_and_labels, mnist_cnn, samples_of

    torch.set_num_threads(THREADS)
    model = mnist_cnn()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = images_and_labels()
    own = samples_of(int(context.node_config["partition-id"]), 10 * BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        samples = own[torch.randperm(len(own))[:BATCH]]
        optimizer.zero_grad()
        cross_entropy(model(images[samples]), labels[samples]).backward()
        optimizer.step()
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(own)}),
    }
    return Message(content=RecordDict(content), reply_to=message)


class TimedAveraging(FedAvg):
    """Federated averaging that notes when a round begins and ends."""

    def configure_train(self, *arguments, **named):
        self.began = time.perf_counter()
        return super().configure_train(*arguments, **named)

    def aggregate_train(self, *arguments, **named):
        result = super().aggregate_train(*arguments, **named)
        seconds.append(time.perf_counter() - self.began)
        return result


seconds: list[float] = []


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds, every client in each."""
    strategy = TimedAveraging(
        fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=CLIENTS
    )
    initial = ArrayRecord(mnist_cnn().state_dict())
    strategy.start(grid=grid, initial_arrays=initial, num_rounds=ROUNDS + 1)


if __name__ == "__main__":
    run_simulation(
        server_app,
        client_app,
        num_supernodes=CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": PROCESSES, "include_dashboard": False},
        },
    )
    print(json.dumps(seconds[1:]))
