"""What balance over rounds saves: `pool-balanced` over `pool-flexible`, cost to an accuracy on MNIST.

    python benchmarks/label_balance.py [--seeds 2] [--first-seed 9604]

Four settings in the calibrated regime: p near 1, Markov sessions, phones of a trace, systems of Table I;
accuracies are those on 2,000 test images. MNIST and the trace are read from STAGEWISE_DATA.
"""

import argparse
from typing import Any

import numpy as np

from stagewise.runs.target import rounds_to_target
from stagewise_experiments.measures.training import measure_training
from stagewise_experiments.setting import ParticipationSetting, ScenarioSetting, Setting
from stagewise_experiments.statistics import estimate

ROUNDS = 80
TARGETS = (0.9, 0.95)
SETTINGS: dict[str, dict[str, Any]] = {
    "p near 1": {"scenario": ScenarioSetting(p_min=0.9)},
    "Markov sessions": {
        "scenario": ScenarioSetting(kind="eua"),
        "participation": ParticipationSetting(model="markov"),
    },
    "phones": {
        "scenario": ScenarioSetting(clients=150, edges=2),
        "participation": ParticipationSetting(model="trace"),
    },
    "Table I": {},
}


def costs(policy: str, seed: int, setting: dict[str, Any]) -> list[float | None]:
    """What was spent up to each target; None where it was not reached."""
    cell = Setting(
        measure="training",
        policy=policy,
        seed=seed,
        rounds=ROUNDS,
        target_accuracy=TARGETS[-1],
        test_samples=2000,
        **setting,
    )
    rounds = measure_training(cell)["rounds"]
    spent = np.cumsum([one["objective"] for one in rounds])
    accuracies = [one["accuracy"] for one in rounds]
    needed = [rounds_to_target(accuracies, target) for target in TARGETS]
    return [None if count is None else float(spent[count - 1]) for count in needed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=9604)
    arguments = parser.parse_args()
    ratios: dict[float, list[float]] = {target: [] for target in TARGETS}
    for name, setting in SETTINGS.items():
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            pair = [costs(policy, seed, setting) for policy in ("pool-balanced", "pool-flexible")]
            for target, ours, plain in zip(TARGETS, *pair, strict=True):
                if ours is not None and plain is not None:
                    ratios[target].append(ours / plain)
                    print(f"{name}, seed {seed}, {target:.0%}: {ours / plain:.3f}", flush=True)
    for target, found in ratios.items():
        over = estimate(np.log(found).tolist())
        if over is not None and over.interval is not None:
            mean, low, high = np.exp([over.mean, *over.interval])
            print(f"{target:.0%}: {mean:.3f} ({low:.3f} to {high:.3f}), {len(found)} runs")


if __name__ == "__main__":
    main()
