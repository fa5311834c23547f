"""A model trained under a policy, until its target or through all rounds."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stagewise
from stagewise import Dataset
from stagewise.randomness import generator
from stagewise.runs.records import RoundRecord
from stagewise.runs.run import RunDiverged
from stagewise_experiments.measures.decided import DecidedRounds
from stagewise_experiments.measures.decisions import finite_or_none
from stagewise_experiments.measures.fairness import clients_trained, worst_tenth
from stagewise_experiments.measures.scenarios import make_rounds, read_dataset
from stagewise_experiments.regimes import REGIMES
from stagewise_experiments.setting import Setting


def measure_training(
    setting: Setting, device: str = "cpu", folder: Path | None = None
) -> dict[str, Any]:
    """Every round as it was trained; `stopped` says why training could not go on, if it diverged."""
    data = read_dataset(setting.dataset, setting.image_size)
    if setting.test_samples is not None:
        data = fewer_test_images(data, setting.test_samples)
    scenario, rounds = make_rounds(setting)
    stopped = None
    with closing(DecidedRounds(setting, scenario, rounds, folder)) as decided:
        try:
            run = stagewise.simulate(
                scenario,
                data,
                decided.policy(),
                setting.rounds,
                setting.seed if setting.training_seed is None else setting.training_seed,
                model=setting.model,
                learning_rate=setting.learning_rate or _learning_rate_of_regime(setting),
                dtype=setting.dtype,
                device=device,
                participation=rounds,
                evaluate_every=setting.evaluate_every,
                # Clients are honest, and nobody may be kept out of rounds that are decided already.
                aggregator="plain-mean",
                quarantine_rounds=0,
                stop_at_accuracy=setting.target_accuracy if setting.stop_at_target else None,
            )
        except RunDiverged as error:
            run, stopped = error.run, str(error)
    # A plan counts from the round it was there for, that in which training diverged included.
    begun = len(run.records) + (stopped is not None)
    return {
        "rounds": [_figures(record, decided.decision_ms(record.round)) for record in run.records],
        "plan_ms": decided.plan_ms(begun),
        "target_accuracy": setting.target_accuracy,
        "samples": len(data.train_labels),
        "clients_trained": clients_trained(run),
        "worst_tenth": worst_tenth(run, data),
        "stopped": stopped,
    }


def _learning_rate_of_regime(setting: Setting) -> float | None:
    return REGIMES[setting.scenario.regime].learning_rates.get(setting.dataset)


def fewer_test_images(data: Dataset, count: int) -> Dataset:
    """The data set with `count` of its test images, as many of each class as can be.

    Of every class some drawn once for all, since those that come first may be easier, as MNIST's are;
    one that has too few leaves its part to the others.
    """
    labels = data.test_labels
    if count >= len(labels):
        return data
    drawn = generator(0, "test images").permutation(len(labels))
    by_label = drawn[np.argsort(labels[drawn], kind="stable")]
    held = np.bincount(labels, minlength=data.classes)
    first = np.cumsum(held) - held
    place = np.arange(len(labels)) - np.repeat(first, held)  # of each image within its class
    # All the first images of classes, then all the second ones, and so on.
    turn = np.lexsort((labels[by_label], place))
    chosen = np.sort(by_label[turn[:count]])
    return replace(data, test_images=data.test_images[chosen], test_labels=labels[chosen])


def _figures(record: RoundRecord, decision_ms: float | None) -> dict[str, Any]:
    return {
        "accuracy": record.accuracy,
        "loss": finite_or_none(record.loss),
        "objective": record.objective,
        "delay_s": record.delay_s,
        "energy_j": record.energy_j,
        "clients": record.clients,
        "feasible": record.feasible,
        "decision_ms": record.decision_ms if decision_ms is None else decision_ms,
    }
