"""Quality of decisions against the certified optimum, on the same rounds in one run.

    python benchmarks/quality.py [--scenarios 20] [--rounds 10] [--first-seed 1000] [--json FILE]

For each method: its cost over the optimum (mean, 95th percentile), the share of feasible rounds and the
time of a decision. Rounds whose optimum is not certified within a gap of 1% are counted apart.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import stagewise
from stagewise.exact.solver import solve_exactly
from stagewise.methods.stagewise import StagewisePolicy
from stagewise.policy import decide_with, policy_factory
from stagewise.problem.statement import p0
from stagewise.warm_up import warm_up

CLIENTS, EDGES = 93, 4
SECONDS = 60.0


def measure(scenarios: int, rounds: int, first_seed: int) -> dict[str, dict[str, float]]:
    """Ratios and times of every method, by name; `exact` is the reference itself."""
    warm_up()
    ratios: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    feasible: dict[str, list[bool]] = {}
    gaps, plan_ms = [], []
    for seed in range(first_seed, first_seed + scenarios):
        scenario = stagewise.generate.numeric(CLIENTS, EDGES, seed)
        drawn = stagewise.participation.bernoulli(scenario, rounds, seed)
        plan = stagewise.plan(scenario, method="pool", seed=seed)
        plan_ms.append(plan.plan_ms)
        policies = {
            "pool flexible": StagewisePolicy(plan, "pool", "flexible"),
            "pool strict": StagewisePolicy(plan, "pool", "strict"),
            "repair flexible": StagewisePolicy(plan, "repair", "flexible"),
            "repair strict": StagewisePolicy(plan, "repair", "strict"),
            "local-search": policy_factory("local-search")(scenario, seed=seed, seconds=None),
        }
        for index, round_ in enumerate(drawn):
            optimum = solve_exactly(p0(round_), seed=seed, seconds=SECONDS)
            gaps.append(optimum.gap)
            if optimum.gap > 0.01 or not np.isfinite(optimum.value):
                continue
            for name, policy in policies.items():
                decision = decide_with(policy, round_, index, name)
                feasible.setdefault(name, []).append(decision.feasible)
                times.setdefault(name, []).append(decision.decision_ms)
                if decision.feasible:
                    ratios.setdefault(name, []).append(decision.objective / optimum.value)
        print(f"scenario {seed} done", flush=True)
    table = {
        name: {
            "cost over optimum, mean": float(np.mean(ratios[name])),
            "cost over optimum, 95th percentile": float(np.percentile(ratios[name], 95)),
            "share of feasible rounds": float(np.mean(feasible[name])),
            "decision ms, median": float(np.median(times[name])),
            "decision ms, 99th percentile": float(np.percentile(times[name], 99)),
        }
        for name in ratios
    }
    table["exact"] = {
        "share of rounds within a gap of 1%": float(np.mean(np.array(gaps) <= 0.01)),
        "pool plan ms, median": float(np.median(plan_ms)),
    }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table = measure(arguments.scenarios, arguments.rounds, arguments.first_seed)
    for name, figures in table.items():
        print(name)
        for what, value in figures.items():
            print(f"    {what:<40} {value:>10.4f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
