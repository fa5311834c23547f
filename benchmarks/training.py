"""Speed of a training round beside a plain loop and other simulators, measured in one run.

    python benchmarks/training.py [--models mnist-cnn,cifar-cnn] [--repetitions 5] [--workers 2]
        [--flower-python PATH] [--pfl-python PATH] [--json FILE]

The plain loop (a deep copy, a module and `torch.optim.SGD` for every client) has as many threads as
there are workers. Repetitions are interleaved, and the first, which compiles and starts workers, is
not counted. Flower and pfl run in environments of their own, given by their interpreters: one with
`torch==2.13.0` and `flwr[simulation]==1.41.0`, one with `torch==2.13.0` and `pfl==0.6.0`.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stagewise.datasets import Dataset, Partition
from stagewise.model_weights import ModelWeights
from stagewise.models import build_model
from stagewise.training import Trainer, TrainingTask
from stagewise.training.network import read_network
from stagewise.world.scenario import IntArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "training"))
from plain_loop import ReferenceLoop

EDGES = 4


class Work(NamedTuple):
    """A round that is timed, and the test images that are evaluated after it."""

    shape: tuple[int, int, int]
    clients: int
    edge_rounds: int
    steps: int
    batch: int
    test_images: int

    @property
    def samples(self) -> int:
        """How many times an image is trained on."""
        return self.clients * self.edge_rounds * self.steps * self.batch

    def __str__(self) -> str:
        rounds = f"{self.clients} clients x {self.edge_rounds} x {self.steps}"
        return f"{rounds} steps of batch {self.batch}"


WORK = {
    "mnist-cnn": Work((1, 28, 28), 40, 3, 5, 32, 10_000),
    "lenet5": Work((1, 28, 28), 40, 3, 5, 32, 10_000),
    "cifar-cnn": Work((3, 32, 32), 16, 1, 5, 32, 10_000),
    "resnet18": Work((3, 32, 32), 4, 1, 5, 32, 200),
}
COMPARED = Work((1, 28, 28), 93, 1, 5, 50, 100)
"""What other simulators do as well, with the MNIST CNN."""


def unknown_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy by another name: the fast path trains with the one it knows only."""
    return cross_entropy(outputs, labels)


def make_task(model: str, work: Work) -> TrainingTask:
    """A task on random images; what they show makes no difference to the time."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (10_000, *work.shape), dtype=np.uint8)
    labels = random.integers(0, 10, 10_000)
    test = slice(work.test_images)
    size = 10 * work.batch
    index = [random.choice(10_000, size, replace=False) for _ in range(work.clients)]
    return TrainingTask(
        Dataset("random", images, labels, images[test], labels[test], 10),
        Partition(size * np.arange(work.clients + 1), np.concatenate(index)),
        model,
        local_steps=work.steps,
        edge_rounds=work.edge_rounds,
        batch_fraction=np.full(work.clients, 0.1),
        learning_rate=0.01,
    )


def multiply_adds(model: str, shape: tuple[int, int, int]) -> float:
    """Multiplications of a training step for one image, those of plain convolutions."""
    module = build_model(model, 10, shape)
    total, first = 0, True

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total, first
        if isinstance(layer, nn.Conv2d | nn.Linear):
            forward = layer.weight[0].numel() * output[0].numel()
            # Forward, gradient of weights, and that of inputs unless they are images.
            total += forward * (2 if first else 3)
            first = False

    for layer in module.modules():
        layer.register_forward_hook(count)
    module.eval()(torch.zeros(1, *shape))
    return total


def peak_multiply_adds(seconds: float = 1.0) -> float:
    """The largest rate of multiplications a second of one core that matrix products reach."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, timed(lambda: left @ right))
    torch.set_num_threads(threads)
    return 1024**3 / best


def timed(action: Callable[[], object]) -> float:
    """Wall seconds of `action`."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def interleaved(actions: dict[str, Callable[[int], object]], repetitions: int) -> dict[str, list]:
    """Seconds of every action by repetition, the first one left out."""
    times: dict[str, list] = {name: [] for name in actions}
    for repetition in range(repetitions + 1):
        for name, action in actions.items():
            taken = timed(partial(action, repetition))
            if repetition:
                times[name].append(taken)
    return times


def trained(
    trainer: Trainer, weights: ModelWeights, groups: list[IntArray], index: int
) -> ModelWeights:
    """The weights after a round."""
    return trainer.train_round(weights, groups, index)[0]


def measure_model(model: str, repetitions: int, workers: int) -> dict[str, float]:
    """Seconds and ratios of a round of `model`."""
    work = WORK[model]
    task = make_task(model, work)
    groups = np.array_split(np.arange(work.clients), EDGES)
    plain = ReferenceLoop(task)
    ways = {"lean": replace(task, loss=unknown_loss)}
    if read_network(task.builder()) is not None:
        ways["fast"] = task
    best = list(ways)[-1]
    ways[f"{best}, bfloat16"] = replace(ways[best], dtype="bfloat16")
    with contextlib.ExitStack() as stack:
        actions = {"plain loop": lambda index: plain.train_round(groups, index)}
        for name, way in ways.items():
            trainer = stack.enter_context(Trainer(way, workers))
            weights = trainer.initial_weights()
            actions[name] = partial(trained, trainer, weights, groups)
        evaluation = f"evaluation of {work.test_images:,} images"
        actions[evaluation] = lambda _: trainer.evaluate(weights)
        times = interleaved(actions, repetitions)
    figures = {}
    for name, taken in times.items():
        figures[f"{name}, seconds"] = min(taken)
        if name in ways:
            ratios = [a / b for a, b in zip(times["plain loop"], taken, strict=True)]
            figures[f"{name}, times faster (least)"] = min(times["plain loop"]) / min(taken)
            figures[f"{name}, times faster (median)"] = statistics.median(ratios)
    rate = work.samples * multiply_adds(model, work.shape) / figures[f"{best}, seconds"]
    figures[f"{best}, share of the matrix-product peak"] = rate / (workers * peak_multiply_adds())
    return figures


def measure_others(
    pythons: dict[str, Path | None], repetitions: int, workers: int
) -> dict[str, float]:
    """Seconds of a warm round of other simulators and of ours on the same work."""
    task = make_task("mnist-cnn", COMPARED)
    groups = [np.arange(COMPARED.clients)]
    with Trainer(task, workers) as trainer:
        weights = trainer.initial_weights()
        times = interleaved(
            {"ours": lambda index: trainer.train_round(weights, groups, index)}, repetitions
        )
    figures = {"ours, seconds": min(times["ours"])}
    ways = {
        "flower": ("flower", workers, 1),
        "pfl in one process": ("pfl", 1, workers),
        f"pfl in {workers} processes": ("pfl", workers, 1),
    }
    for name, (simulator, processes, threads) in ways.items():
        python = pythons[simulator]
        if python is None:
            print(f"{name}: skipped: no --{simulator}-python given")
            continue
        work = [COMPARED.clients, COMPARED.steps, COMPARED.batch, repetitions, processes, threads]
        script = Path(__file__).with_name(f"{simulator}_round.py")
        command = [str(python), str(script), *map(str, work)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: skipped: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
            continue
        seconds = min(json.loads(done.stdout.splitlines()[-1]))
        figures[f"{name}, seconds"] = seconds
        figures[f"ours, times faster than {name}"] = seconds / figures["ours, seconds"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(WORK))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--flower-python", type=Path)
    parser.add_argument("--pfl-python", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.workers)
    figures = {}
    for model in filter(None, arguments.models.split(",")):
        title = f"{model}: {WORK[model]}"
        figures[title] = measure_model(model, arguments.repetitions, arguments.workers)
        show(title, figures[title])
    pythons = {"flower": arguments.flower_python, "pfl": arguments.pfl_python}
    title = f"mnist-cnn: {COMPARED}"
    figures[title] = measure_others(pythons, arguments.repetitions, arguments.workers)
    show(title, figures[title])
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


def show(title: str, figures: dict[str, float]) -> None:
    print(title, flush=True)
    for name, value in figures.items():
        print(f"    {name:<50} {value:>10.3f}", flush=True)


if __name__ == "__main__":
    main()
