"""What attackers cost: the final accuracy of runs on MNIST-5k, attack by attack and rule by rule.

    python benchmarks/attacks.py [--seeds 3] [--rounds 30] [--systems even,paper] [--shares one,0.2,0.3]
        [--aggregators mean,trimmed-mean] [--attacks scaled,sign-flipped] [--json FILE]

`even`: 40 clients at 2 edges, each with samples of all labels, and all that are online train. `paper`:
the default scenario, 93 clients with one to three labels each, of which the pool chooses about five for
each edge. Attackers are drawn by the seed; the accuracy is the mean of the last five rounds. Every run
is compared with that of the same seed and the plain mean without attackers.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

import stagewise
from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.robust.rules import AGGREGATORS
from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits, Scenario

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from attacks import ATTACKS, attacking

EVEN = Task("mnist5k", 10, (10, 10), (80, 120), sample_bits=28 * 28 * 8, model_bits=698_880)
LAST = 5


def system(name: str, seed: int) -> tuple[Scenario | None, str, int]:
    """A scenario (None: the default), the policy that decides in it, and its clients."""
    if name == "paper":
        return None, "pool", 93
    limits = Limits(kld_max=5.0, data_min=1)
    return numeric(40, 2, seed, task=EVEN, limits=limits), "random-k,k=40+nearest", 40


def accuracy(name: str, seed: int, rounds: int, aggregator: str, attack: str, count: int) -> float:
    """The mean of the last rounds' accuracies; 0.1 where training diverged."""
    scenario, policy, clients = system(name, seed)
    chosen = generator(seed, "attackers", 0).permutation(clients)[:count].tolist()
    options: dict[str, Any] = {"aggregator": aggregator, "rounds": rounds, "seed": seed}
    try:
        with attacking(ATTACKS[attack], chosen):
            run = stagewise.simulate(scenario, policy=policy, **options)
    except StagewiseError:
        return 0.1
    return statistics.mean(record.accuracy or 0.0 for record in run.records[-LAST:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--systems", default="even,paper")
    parser.add_argument("--shares", default="one,0.2,0.3")
    parser.add_argument("--aggregators", default=",".join(AGGREGATORS))
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.systems.split(","):
        clients = system(name, 0)[2]
        cells = [("none", "0")]
        cells += [(a, s) for a in given.attacks.split(",") for s in given.shares.split(",")]
        plain: list[float] = []
        for aggregator in given.aggregators.split(","):
            for attack, share in cells:
                count = 1 if share == "one" else round(float(share) * clients)
                found = [
                    accuracy(
                        name, seed, given.rounds, aggregator, attack if count else "scaled", count
                    )
                    for seed in range(given.seeds)
                ]
                plain = plain or found
                lost = 100 * (np.array(plain) - np.array(found))
                row = {"system": name, "aggregator": aggregator, "attack": attack, "share": share}
                rows.append(row | {"accuracy": found, "points lost": lost.tolist()})
                print(
                    f"{name:6} {aggregator:13} {attack:14} {share:4} accuracy {np.mean(found):.3f}  "
                    f"lost {lost.mean():5.1f} ({lost.min():.1f} to {lost.max():.1f}) points",
                    flush=True,
                )
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
