"""What balance over rounds saves: `pool-balanced` over `pool-flexible`, cost to an accuracy on MNIST.

    python benchmarks/label_balance.py [--seeds 2] [--first-seed 9604] [--settings NAME ...]
                                       [--dtype bfloat16] [--rounds 80]

Six settings in the calibrated regime: p near 1, Markov sessions, phones of a trace, Table I, and two
where delay alone counts, the mesh network and the EUA window; accuracies are those on 2,000 test images.
MNIST, the trace and the delays of the mesh are read from STAGEWISE_DATA.
"""

import argparse
from typing import Any

import numpy as np

from stagewise.runs.target import rounds_to_target
from stagewise_experiments.measures.training import measure_training
from stagewise_experiments.setting import ParticipationSetting, ScenarioSetting, Setting
from stagewise_experiments.statistics import estimate

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
    "mesh": {"scenario": ScenarioSetting(kind="nycmesh", weights="delay", data_min=1500)},
    "EUA window, delay": {"scenario": ScenarioSetting(kind="eua", weights="delay")},
}


def costs(
    policy: str, seed: int, setting: dict[str, Any]
) -> tuple[float, list[int | None], list[float | None]]:
    """What a round costs, and the rounds and the cost to each target; None where it was not reached."""
    cell = Setting(
        measure="training",
        policy=policy,
        seed=seed,
        target_accuracy=TARGETS[-1],
        test_samples=2000,
        **setting,
    )
    rounds = measure_training(cell)["rounds"]
    objective = [one["objective"] for one in rounds]
    spent = np.cumsum(objective)
    accuracies = [one["accuracy"] for one in rounds]
    needed = [rounds_to_target(accuracies, target) for target in TARGETS]
    paid = [None if count is None else float(spent[count - 1]) for count in needed]
    return float(np.mean(objective)), needed, paid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=9604)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=80)
    arguments = parser.parse_args()
    ratios: dict[float, list[float]] = {target: [] for target in TARGETS}
    more = {"dtype": arguments.dtype, "rounds": arguments.rounds}
    for name in arguments.settings:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            ours, plain = (
                costs(policy, seed, {**SETTINGS[name], **more})
                for policy in ("pool-balanced", "pool-flexible")
            )
            print(f"{name}, seed {seed}: a round costs {ours[0] / plain[0]:.3f}", flush=True)
            for target, *rounds, paid, before in zip(
                TARGETS, ours[1], plain[1], ours[2], plain[2], strict=True
            ):
                if paid is None or before is None:
                    continue
                ratios[target].append(paid / before)
                taken = f"{rounds[0]} rounds against {rounds[1]}"
                print(
                    f"{name}, seed {seed}, {target:.0%}: {paid / before:.3f}, {taken}", flush=True
                )
    for target, found in ratios.items():
        over = estimate(np.log(found).tolist())
        if over is not None and over.interval is not None:
            mean, low, high = np.exp([over.mean, *over.interval])
            print(f"{target:.0%}: {mean:.3f} ({low:.3f} to {high:.3f}), {len(found)} runs")


if __name__ == "__main__":
    main()
