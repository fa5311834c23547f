"""Decisions in large systems: cost over the certified bound and over another commit's, times, memory.

    python benchmarks/large_systems.py [--sizes 1000x40 10000x200] [--scenarios 5] [--first-seed 7100]
        [--exact-seconds 60] [--against COMMIT] [--json FILE]

Every scenario is planned and decided in a process of its own, by this tree and then by the other, so
that whatever else the machine does meets both. Costs are of the first round: as drawn, and with new
channels and CPUs. The bound is the better one of what prices prove (`stagewise.bound`) and, up to the
size given by `--exact-up-to`, of what `exact` proves.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1]
Figures = dict[str, Any]


def measure(clients: int, edges: int, seed: int, exact_seconds: float, bounded: bool) -> Figures:
    """The figures of one scenario; runs in any tree that has these names."""
    import stagewise
    from stagewise.exact.solver import solve_exactly
    from stagewise.loading import load
    from stagewise.problem.statement import p0
    from stagewise.warm_up import load_search
    from stagewise.world.fluctuation import fluctuate

    load(load_search)
    small = stagewise.generate.numeric(200, 60, seed)  # loads what only large systems use
    everybody = [np.ones(200, dtype=np.bool_)]
    for mode in ("flexible", "strict"):
        stagewise.decide(stagewise.plan(small), everybody, mode=mode)
    scenario = stagewise.generate.numeric(clients, edges, seed)
    began = time.perf_counter()
    plan = stagewise.plan(scenario, method="pool", seed=seed)
    figures: Figures = {"plan, s": time.perf_counter() - began}
    usual = list(stagewise.participation.bernoulli(scenario, 5 if clients <= 10_000 else 2, seed))
    moved = fluctuate(usual, seed)
    for name, mode, rounds in (
        ("flexible", "flexible", usual),
        ("strict", "strict", usual),
        ("new costs", "flexible", moved),
    ):
        decided = stagewise.decide(plan, rounds, mode=mode)
        figures[f"{name}, ms"] = float(np.median([d.decision_ms for d in decided]))
        figures[f"{name}: cost"] = decided[0].objective
        figures[f"{name}: edges in violation"] = float(
            np.mean([len({text.split(":")[0] for text in d.violations}) for d in decided])
        )
    figures["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if bounded:
        for name, round_ in (("flexible", usual[0]), ("new costs", moved[0])):
            began = time.perf_counter()
            [proven] = stagewise.bound(scenario, [round_], plan)
            figures[f"{name}: bound, s"] = time.perf_counter() - began
            value = proven.value
            if exact_seconds:
                certified = solve_exactly(p0(round_), seed=seed, seconds=exact_seconds)
                figures[f"{name}: exact's gap"] = certified.gap
                figures[f"{name}: over exact's best"] = figures[f"{name}: cost"] / certified.value
                value = max(value, certified.lower_bound)
            figures[f"{name}: over the bound"] = figures[f"{name}: cost"] / value
    return figures


def run(tree: Path, *arguments: object) -> Figures:
    """The same in a process with the sources of `tree`."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def told(values: list[float]) -> str:
    """The mean and the ends."""
    return f"{np.mean(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["300x12", "1000x40", "10000x200"])
    parser.add_argument("--scenarios", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=7100)
    parser.add_argument("--exact-seconds", type=float, default=60.0)
    parser.add_argument("--exact-up-to", type=int, default=1_000, help="clients")
    parser.add_argument("--against")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        clients, edges, seed = map(int, arguments.one[:3])
        seconds, bounded = float(arguments.one[3]), bool(int(arguments.one[4]))
        print(json.dumps(measure(clients, edges, seed, seconds, bounded)))
        return
    rows: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        if arguments.against:
            subprocess.run(
                ["git", "worktree", "add", "-q", "--detach", str(other), arguments.against],
                cwd=HERE,
                check=True,
            )
        try:
            for size in arguments.sizes:
                clients, edges = map(int, size.split("x"))
                seconds = arguments.exact_seconds if clients <= arguments.exact_up_to else 0.0
                found = []
                for seed in range(arguments.first_seed, arguments.first_seed + arguments.scenarios):
                    row = run(HERE, clients, edges, seed, seconds, 1)
                    if arguments.against:
                        before = run(other, clients, edges, seed, 0, 0)
                        for name in ("flexible", "strict", "new costs"):
                            for what in (": cost", ", ms"):
                                ratio = row[f"{name}{what}"] / before[f"{name}{what}"]
                                row[f"{name}{what}, over {arguments.against}"] = ratio
                    found.append(row)
                    print(size, seed, "done", file=sys.stderr, flush=True)
                rows += [{"size": size, **row} for row in found]
                print(f"\n{size}, {len(found)} scenarios: mean (least to largest)")
                for name in found[0]:
                    print(f"  {name}: {told([row[name] for row in found])}", flush=True)
        finally:
            if arguments.against:
                command = ["git", "worktree", "remove", "--force", str(other)]
                subprocess.run(command, cwd=HERE, check=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
