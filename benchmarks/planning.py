"""Speed of planning and deciding at the paper's size, as ratios measured side by side in one run.

    python benchmarks/planning.py [--scenarios 3] [--rounds 10] [--json FILE]

Compilation is done before anything is timed. Every time is wall time of one process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import stagewise
from stagewise.loading import load
from stagewise.problem.statement import p0
from stagewise.search.annealing import anneal
from stagewise.search.instance import build_instance, unassigned
from stagewise.search.random_bits import bits_from
from stagewise.search.state import new_state
from stagewise.warm_up import load_search
from stagewise.world.rounds import Round

CLIENTS, EDGES = 93, 4


def moves_per_second(round_: Round, moves: int = 2_000_000) -> float:
    """How many moves the annealing kernel tries in a second, temperatures as in a search."""
    instance = build_instance(p0(round_))
    state = new_state(instance)
    scale = instance.price_scale
    began = time.perf_counter()
    anneal(
        instance,
        state,
        np.arange(EDGES),
        moves,
        0.4 * scale,
        0.01 * scale,
        20 * scale,
        1.0,
        bits_from(1),
        unassigned(CLIENTS),
        np.empty(CLIENTS, dtype=np.int64),
    )
    return moves / (time.perf_counter() - began)


def start_up_seconds() -> float:
    """The wall time of `stagewise --help` in a process of its own, the median of five."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "stagewise", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(scenarios: int, rounds: int) -> dict[str, float]:
    """Every figure of the table, by name."""
    load(load_search)
    speeds, plans = [], {"local-search": [], "paper": []}
    decisions: dict[str, list[stagewise.Decision]] = {}
    for seed in range(scenarios):
        scenario = stagewise.generate.numeric(CLIENTS, EDGES, seed)
        drawn = stagewise.participation.bernoulli(scenario, rounds, seed)
        speeds.append(moves_per_second(drawn[0]))
        for planner, method in (("local-search", "repair"), ("paper", "ccu")):
            plan = stagewise.plan(scenario, method=planner, seed=seed)
            plans[planner].append(plan.plan_ms)
            for mode in ("strict", "flexible"):
                decisions.setdefault(f"{method} {mode}", []).extend(
                    stagewise.decide(plan, drawn, method=method, mode=mode)
                )
        for method in ("orig-prob-solver", "local-search"):
            decisions.setdefault(method, []).extend(
                stagewise.solve(scenario, drawn, method=method, seed=seed)
            )
    figures = {"moves tried per second": statistics.median(speeds)}
    for planner, times in plans.items():
        figures[f"plan {planner}, ms"] = statistics.median(times)
    reference = statistics.median(d.decision_ms for d in decisions["orig-prob-solver"])
    reference_cost = statistics.mean(d.objective for d in decisions["orig-prob-solver"])
    for method, made in decisions.items():
        median = statistics.median(d.decision_ms for d in made)
        figures[f"{method}, median ms"] = median
        figures[f"{method}, 99th percentile ms"] = float(
            np.percentile([d.decision_ms for d in made], 99)
        )
        figures[f"{method}, times faster than orig-prob-solver"] = reference / median
        figures[f"{method}, cost over orig-prob-solver's"] = (
            statistics.mean(d.objective for d in made) / reference_cost
        )
        figures[f"{method}, share of feasible rounds"] = statistics.mean(d.feasible for d in made)
    figures["stagewise --help, seconds"] = start_up_seconds()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(
        f"{CLIENTS} clients x {EDGES} edges, {arguments.scenarios} scenarios x {arguments.rounds} rounds"
    )
    figures = measure(arguments.scenarios, arguments.rounds)
    for name, value in figures.items():
        print(f"{name:<60} {value:>14,.3f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
