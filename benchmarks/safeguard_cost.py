"""What it costs to judge updates: the same rounds with and without it, by turns in one process.

    python benchmarks/safeguard_cost.py [--rounds 70]

MNIST-5k, 40 clients at 2 edges, who all train. Without it no norms are computed, no biases are looked
at, and nothing is judged or learned; the models must be the same to the bit. Prints processor times and
the median and quartiles of their ratio, round by round.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

from stagewise.deploy.task import TaskFile
from stagewise.model_weights import ModelWeights
from stagewise.robust.safeguards import Safeguards
from stagewise.runs.defence import Defence, updates_seen
from stagewise.simulator.start import default_learning_rate, default_model
from stagewise.training import Trainer, batched_backend, module_backend, trainer
from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits, Scenario

EVEN = Task("mnist5k", 10, (10, 10), (80, 120), sample_bits=28 * 28 * 8, model_bits=698_880)
GROUPS = [np.arange(20), np.arange(20, 40)]
WARM_UP = 2
"""Rounds that are not counted."""
_NONE = np.zeros(64)


def judged(training: Trainer, scenario: Scenario) -> Callable[[int, ModelWeights], ModelWeights]:
    """Rounds as a run has them."""
    defence = Defence(scenario, "mean", 10, training.output_bias)

    def train(index: int, weights: ModelWeights) -> ModelWeights:
        guard = defence.safeguards()
        trained, figures = training.train_round(weights, GROUPS, index, safeguards=guard)
        assert figures.account is not None
        defence.observe(index, updates_seen(figures.account), figures.account.edge_norms)
        return trained

    return train


def unjudged(training: Trainer) -> Callable[[int, ModelWeights], ModelWeights]:
    """The same rounds in which everything counts unseen."""

    def train(index: int, weights: ModelWeights) -> ModelWeights:
        with ExitStack() as stack:
            for module in (trainer, batched_backend, module_backend):
                none = patch.object(
                    module, "update_norms", lambda after, before: _NONE[: len(after)]
                )
                stack.enter_context(none)
            guard = Safeguards("plain-mean")
            trained, figures = training.train_round(weights, GROUPS, index, safeguards=guard)
        assert figures.account is not None and not figures.account.norms.any()
        return trained

    return train


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=70)
    rounds = parser.parse_args().rounds
    scenario = numeric(40, 2, task=EVEN, limits=Limits(kld_max=5.0, data_min=1))
    model = default_model("mnist5k")
    task = TaskFile(dataset="mnist5k", model=model, learning_rate=default_learning_rate(model))
    taken_s: list[list[float]] = [[], []]
    with Trainer(task.task(scenario)) as training:
        weights, ways = training.initial_weights(), (judged(training, scenario), unjudged(training))
        for index in range(rounds):
            models = [weights, weights]
            for way in (0, 1) if index % 2 else (1, 0):
                began = time.process_time()
                models[way] = ways[way](index, weights)
                taken_s[way].append(time.process_time() - began)
            weights = models[0]
            assert all(np.array_equal(weights[name], models[1][name]) for name in weights)
    with_it, without = np.array(taken_s)[:, WARM_UP:]
    low, middle, high = np.quantile(with_it / without, [0.25, 0.5, 0.75])
    print(f"{1e3 * np.median(with_it):.1f} ms a round, without {1e3 * np.median(without):.1f} ms")
    print(f"ratio {middle:.4f}, quartiles {low:.4f} and {high:.4f}, of {len(without)} rounds")


if __name__ == "__main__":
    main()
