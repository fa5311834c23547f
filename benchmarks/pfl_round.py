"""Seconds of warm rounds of federated averaging in Apple's pfl, as a JSON list.

    python benchmarks/pfl_round.py CLIENTS STEPS BATCH ROUNDS PROCESSES THREADS

Needs `torch` and `pfl`, not stagewise. Several processes run under `torch.distributed.run`, as in
pfl's documentation, with THREADS each. `benchmarks/training.py` calls it.
"""

import itertools
import json
import os
import subprocess
import sys
import time

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from compared_work import images_and_labels, mnist_cnn, samples_of


class Module(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mnist_cnn()

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(self.layers(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(float(self.loss(images, labels)) * len(labels), len(labels))}


class Stopwatch(TrainingProcessCallback):
    """Notes when every round has ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_central_iteration(self, *arguments, **named) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()


def rounds(clients: int, steps: int, batch: int, count: int, threads: int) -> list[float]:
    """Seconds of `count` rounds after two that warm up; validation users are never visited."""
    torch.set_num_threads(threads)
    images, labels = images_and_labels()

    def dataset_of(client: int) -> Dataset:
        own = samples_of(client, 10 * batch)
        return Dataset((images[own], labels[own]), user_id=str(client))

    users = list(range(clients))
    datasets = {user: dataset_of(user) for user in users}
    data = FederatedDataset(datasets.__getitem__, get_user_sampler("minimize_reuse", users))
    module = Module()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    stopwatch = Stopwatch()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=count + 2,
            evaluation_frequency=10**9,
            train_cohort_size=clients,
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data),
        model,
        NNTrainHyperParams(
            local_num_epochs=None,
            local_learning_rate=0.01,
            local_batch_size=batch,
            local_num_steps=steps,
        ),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[stopwatch],
    )
    ends = stopwatch.times[1:]
    return [end - begin for begin, end in itertools.pairwise(ends)]


def main() -> None:
    *work, processes, threads = map(int, sys.argv[1:])
    if processes > 1 and "LOCAL_RANK" not in os.environ:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        sys.exit(subprocess.run([*command, *sys.argv], check=False).returncode)
    seconds = rounds(*work, threads)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(json.dumps(seconds))


if __name__ == "__main__":
    main()
