"""How far training with products in bfloat16 is from float32, beside another seed of training.

    STAGEWISE_DATA=... python benchmarks/precision.py [--dataset mnist] [--seeds 5] [--first-seed 0]
        [--rounds 60] [--policies pool-flexible,client-sel-only] [--target 0.9]

On the EUA window, paired: the same scenario, rounds and decisions are trained in float32, in bfloat16,
and in float32 from other first weights and with other batches. Given are differences from the first,
with 95% intervals over policies and seeds: of the last accuracy (mean of three evaluations) in points,
and of the rounds to the target in percent. What another seed changes is the measure for what bfloat16
does.
"""

import argparse
import math
import tempfile
from pathlib import Path

import torch

from stagewise.runs.target import EVALUATIONS
from stagewise_experiments.measures.training import measure_training
from stagewise_experiments.quantities import accuracy_curve, quantity
from stagewise_experiments.setting import ScenarioSetting, Setting
from stagewise_experiments.statistics import estimate

WAYS = {
    "float32": {},
    "bfloat16": {"dtype": "bfloat16"},
    "another seed": {"training_seed": 1_000_000},
}


def figures_of(outputs: dict) -> tuple[float, float]:
    """The last accuracy, and the rounds to the target."""
    last = [accuracy for _, accuracy in accuracy_curve(outputs)[-EVALUATIONS:]]
    rounds = quantity("rounds_to_target").value(outputs)
    return sum(last) / len(last), math.inf if rounds is None else rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--policies", default="pool-flexible,client-sel-only")
    parser.add_argument("--target", type=float, default=0.9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    points: dict[str, list[float]] = {way: [] for way in WAYS if way != "float32"}
    longer: dict[str, list[float]] = {way: [] for way in points}
    with tempfile.TemporaryDirectory() as decisions:
        for policy in arguments.policies.split(","):
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                found = {}
                for way, fields in WAYS.items():
                    setting = Setting(
                        measure="training",
                        policy=policy,
                        seed=seed,
                        scenario=ScenarioSetting(kind="eua"),
                        dataset=arguments.dataset,
                        rounds=arguments.rounds,
                        target_accuracy=arguments.target,
                        stop_at_target=False,
                        test_samples=2000,
                        **fields,
                    )
                    found[way] = figures_of(measure_training(setting, folder=Path(decisions)))
                for way in points:
                    points[way].append(100 * (found[way][0] - found["float32"][0]))
                    if math.isfinite(found[way][1]) and math.isfinite(found["float32"][1]):
                        longer[way].append(math.log(found[way][1] / found["float32"][1]))
                told = ", ".join(
                    f"{w} {100 * a:.2f}% {r:.0f} rounds" for w, (a, r) in found.items()
                )
                print(f"{policy}, seed {seed}: {told}", flush=True)
    for way in points:
        accuracy, rounds = estimate(points[way]), estimate(longer[way])
        print(f"{way}: last accuracy {accuracy.mean:+.2f} points {_interval(accuracy.interval)}")
        spread = math.sqrt(sum(x * x for x in points[way]) / len(points[way]))
        print(f"    in the quadratic mean {spread:.2f} points")
        if longer[way]:
            percent = [math.expm1(end) * 100 for end in rounds.interval or ()]
            print(
                f"    rounds {math.expm1(rounds.mean) * 100:+.1f}% {_interval(percent)} "
                f"in {len(longer[way])} runs"
            )


def _interval(ends) -> str:
    return f"({ends[0]:+.2f} to {ends[1]:+.2f})" if ends else ""


if __name__ == "__main__":
    main()
