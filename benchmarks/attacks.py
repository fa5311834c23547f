"""What attackers cost: the final accuracy of runs on MNIST-5k, attack by attack and rule by rule.

    python benchmarks/attacks.py [--seeds 3] [--first-seed 0] [--rounds 30] [--systems even,paper]
        [--shares one,0.2,0.3] [--aggregators mean,trimmed-mean] [--attacks scaled,sign-flipped]
        [--json FILE]

`even`: 40 clients at 2 edges, each with samples of all labels, and all that are online train. `paper`:
the default scenario, 93 clients with one to three labels each, of which the pool chooses about five for
each edge. Attackers are drawn by the seed; one alone is the client that trains in most rounds without
attackers. The accuracy is the mean of the last five rounds. Every run is compared with that of the same
seed and `mean` without attackers. `honest rejected`: updates of others that were rejected.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stagewise
from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.robust.rules import AGGREGATORS, judges
from stagewise.runs.directory import RunDirectory
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


class Found(NamedTuple):
    """What became of a run."""

    accuracy: float
    """The mean of the last rounds; 0.1 where training diverged."""
    rejected: int
    """Updates of honest clients that were rejected."""
    busiest: int
    """The client that trained in most rounds."""


def attacked(
    name: str, seed: int, rounds: int, aggregator: str, attack: str, attackers: list[int]
) -> Found:
    """A run with these attackers."""
    scenario, policy, _ = system(name, seed)
    options: dict[str, Any] = {"aggregator": aggregator, "rounds": rounds, "seed": seed}
    with tempfile.TemporaryDirectory() as folder, attacking(ATTACKS[attack], attackers):
        try:
            run = stagewise.simulate(scenario, policy=policy, out=f"{folder}/run", **options)
        except StagewiseError:
            return Found(0.1, 0, 0)
        events = RunDirectory.open(Path(folder) / "run").events()
    ids = run.scenario.clients.ids
    wrong = {ids[client] for client in attackers}
    rejected = [e for e in events if e.kind == "rejected" and e.client and e.client not in wrong]
    served = Counter(client for decision in run.decisions for client in decision.assignment)
    busiest = run.scenario.clients.index[served.most_common(1)[0][0]]
    last = [record.accuracy or 0.0 for record in run.records[-LAST:]]
    return Found(statistics.mean(last), len(rejected), busiest)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--systems", default="even,paper")
    parser.add_argument("--shares", default="one,0.2,0.3")
    parser.add_argument("--aggregators", default=",".join(filter(judges, AGGREGATORS)))
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.systems.split(","):
        clients = system(name, 0)[2]
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        baseline = {
            seed: attacked(name, seed, given.rounds, "mean", "scaled", []) for seed in seeds
        }
        cells = [("none", "0")]
        cells += [(a, s) for a in given.attacks.split(",") for s in given.shares.split(",")]
        for aggregator in given.aggregators.split(","):
            for attack, share in cells:
                found = []
                for seed in seeds:
                    attackers = [baseline[seed].busiest]
                    if share != "one":
                        drawn = generator(seed, "attackers", 0).permutation(clients)
                        attackers = drawn[: round(float(share) * clients)].tolist()
                    if not attackers and aggregator == "mean":
                        found.append(baseline[seed])
                        continue
                    kind = attack if attackers else "scaled"
                    found.append(attacked(name, seed, given.rounds, aggregator, kind, attackers))
                accuracy = [run.accuracy for run in found]
                lost = 100 * (np.array([baseline[seed].accuracy for seed in seeds]) - accuracy)
                rejected = [run.rejected for run in found]
                row = {"system": name, "aggregator": aggregator, "attack": attack, "share": share}
                row |= {"accuracy": accuracy, "points lost": lost.tolist()}
                rows.append(row | {"honest rejected": rejected})
                print(
                    f"{name:6} {aggregator:13} {attack:14} {share:4} accuracy "
                    f"{np.mean(accuracy):.3f}  lost {lost.mean():5.1f} ({lost.min():.1f} to "
                    f"{lost.max():.1f}) points, honest rejected {rejected}",
                    flush=True,
                )
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
