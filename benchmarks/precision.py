"""How far training with products in bfloat16 is from float32, beside another seed of training.

    STAGEWISE_DATA=... python benchmarks/precision.py [--dataset mnist] [--seeds 5] [--first-seed 0]
        [--rounds 60] [--policies pool-flexible,client-sel-only] [--target 0.9]

On the EUA window, paired: the same scenario, rounds and decisions are trained in float32, in
bfloat16, and in float32 by another seed of training: other images of clients, first weights and
batches. Given are differences from the first, in the mean over policies, with 95% intervals over
seeds: of the last accuracy (mean of three evaluations) in points, and of the rounds to the target in
percent. What another seed changes is the measure for what bfloat16 does.
"""

import argparse
import math
import tempfile
from pathlib import Path
from statistics import fmean

import torch

from stagewise_experiments.measures.training import measure_training
from stagewise_experiments.quantities import quantity
from stagewise_experiments.setting import ScenarioSetting, Setting
from stagewise_experiments.statistics import estimate

BASE = "float32"
OTHERS = ("bfloat16", "another seed")


def setting_of(way: str, policy: str, seed: int, arguments: argparse.Namespace) -> Setting:
    return Setting(
        measure="training",
        policy=policy,
        seed=seed,
        training_seed=seed + 1_000_000 if way == "another seed" else None,
        dtype="bfloat16" if way == "bfloat16" else "float32",
        scenario=ScenarioSetting(kind="eua"),
        dataset=arguments.dataset,
        rounds=arguments.rounds,
        target_accuracy=arguments.target,
        stop_at_target=False,
        test_samples=2000,
    )


def figures_of(outputs: dict) -> tuple[float, float]:
    """The last accuracy, and the rounds to the target."""
    last, rounds = (quantity(n).value(outputs) for n in ("final_accuracy", "rounds_to_target"))
    return last, math.inf if rounds is None else rounds


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
    points: dict[str, dict[int, list[float]]] = {way: {} for way in OTHERS}
    longer: dict[str, dict[int, list[float]]] = {way: {} for way in OTHERS}
    missed = dict.fromkeys((BASE, *OTHERS), 0)
    with tempfile.TemporaryDirectory() as decisions:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for policy in arguments.policies.split(","):
                found = {}
                for way in (BASE, *OTHERS):
                    setting = setting_of(way, policy, seed, arguments)
                    found[way] = figures_of(measure_training(setting, folder=Path(decisions)))
                    missed[way] += math.isinf(found[way][1])
                accuracy, rounds = found[BASE]
                for way in OTHERS:
                    points[way].setdefault(seed, []).append(100 * (found[way][0] - accuracy))
                    if math.isfinite(found[way][1]) and math.isfinite(rounds):
                        apart = math.log(found[way][1] / rounds)
                        longer[way].setdefault(seed, []).append(apart)
                told = ", ".join(
                    f"{w} {100 * a:.2f}% {r:.0f} rounds" for w, (a, r) in found.items()
                )
                print(f"{policy}, seed {seed}: {told}", flush=True)
    print("target missed:", ", ".join(f"{way} {count}" for way, count in missed.items()))
    for way in OTHERS:
        told = estimate(fmean(values) for values in points[way].values())
        single = [x for values in points[way].values() for x in values]
        spread = math.sqrt(fmean([x * x for x in single]))
        print(f"{way}: last accuracy {told.mean:+.2f} points {_interval(told.interval)}")
        print(f"    of a single run {spread:.2f} points in the quadratic mean")
        told = estimate(fmean(values) for values in longer[way].values())
        if told is not None:
            percent = [100 * math.expm1(end) for end in told.interval or ()]
            print(f"    rounds {100 * math.expm1(told.mean):+.1f}% {_interval(percent)}")


def _interval(ends) -> str:
    return f"({ends[0]:+.2f} to {ends[1]:+.2f})" if ends else ""


if __name__ == "__main__":
    main()
