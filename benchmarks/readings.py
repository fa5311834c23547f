"""Readings of Algs. 2 and 3 beside each other: the tables of docs/model.md.

    python benchmarks/readings.py [rounds plans methods] [--regime literal] [--scenarios 8] [--json FILE]

`rounds`: P0 by each reading against the certified optimum of the same rounds. `plans`: P1 against what
annealing finds for it. `methods`: the paper's other methods from one start and from several, by what
each of them minimises. Scenarios are those of Table I with 93 clients and 4 edges, in either regime of
costs (docs/calibration.md), their seeds from 9300 on used for nothing else: the readings were chosen on
others.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stagewise
from stagewise import Decision
from stagewise.loading import load
from stagewise.warm_up import load_association, load_search
from stagewise_experiments.measures.scenarios import make_scenario
from stagewise_experiments.regimes import REGIMES
from stagewise_experiments.setting import make_setting
from stagewise_experiments.statistics import estimate

FIRST_SEED = 9300
ROUNDS = 2
READINGS = [
    "back-tracking",
    "back-tracking,steps=2000",
    "back-tracking,steps=20000",
    "marked-pairs",
    "from-scratch,penalty=0,starts=1",
    "from-scratch,starts=1",
    "from-scratch",
    "re-association,starts=1",
    "re-association,starts=3",
    "re-association",
    "re-association,starts=12",
]
PLAN_READINGS = [
    "back-tracking",
    "from-scratch,penalty=20,starts=1",
    "re-association,penalty=20,starts=1",
    "re-association,penalty=20,starts=4",
    "re-association,penalty=20,starts=12",
]
MINIMISED: dict[str, Callable[[Decision], float]] = {
    "kld-minimization": lambda decision: float(np.mean(decision.evaluation.kld)),
    "client-sel-only": lambda decision: decision.objective,
    "c2e-greedy-assoc": lambda decision: decision.objective,
    "fedcs": lambda decision: -float(decision.evaluation.clients.sum()),
}
LONGEST_S = 20.0
"""What a decision or a plan may take; a reading that needs longer counts as it then stands."""

Table = list[dict[str, Any]]
Cases = list[tuple[int, stagewise.Scenario, list[stagewise.Round]]]
"""Of each scenario its seed and its rounds."""


def rounds(cases: Cases) -> Table:
    """P0: cost over the certified optimum, by reading."""
    optima = [d.objective for _, s, drawn in cases for d in stagewise.solve(s, drawn, "exact")]
    table = []
    for reading in READINGS:
        name = f"orig-prob-solver:{reading}"
        decisions = [d for _, s, drawn in cases for d in _solve(s, drawn, name)]
        ratios = [
            d.objective / best for d, best in zip(decisions, optima, strict=True) if d.feasible
        ]
        table.append(
            {
                "reading": reading,
                "rounds": len(decisions),
                **_over("cost over optimum", ratios),
                "feasible": statistics.mean(d.feasible for d in decisions),
                "ms, median": statistics.median(d.decision_ms for d in decisions),
                "ms, largest": max(d.decision_ms for d in decisions),
            }
        )
        print(table[-1], flush=True)
    return table


def plans(cases: Cases) -> Table:
    """P1: the plan's objective over that of annealing, by reading."""
    made = [
        (scenario, seed, stagewise.plan(scenario, method="local-search", seed=seed))
        for seed, scenario, _ in cases
    ]
    table = []
    for reading in PLAN_READINGS:
        ratios, seconds, feasible = [], [], []
        for scenario, seed, annealed in made:
            began = time.perf_counter()
            plan = stagewise.plan(scenario, method=f"paper:{reading}", seed=seed, seconds=LONGEST_S)
            seconds.append(time.perf_counter() - began)
            feasible.append(plan.feasible)
            if plan.feasible and annealed.feasible:
                ratios.append(plan.objective / annealed.objective)
        table.append(
            {
                "reading": reading,
                "plans": len(made),
                **_over("objective over annealing's", ratios),
                "within the risk limits": statistics.mean(feasible),
                "s, median": statistics.median(seconds),
            }
        )
        print(table[-1], flush=True)
    return table


def methods(cases: Cases) -> Table:
    """What each of the paper's other methods minimises, by the number of starts."""
    table = []
    for method, minimised in MINIMISED.items():
        for starts in (1, 3, 6):
            name = f"{method}:re-association,starts={starts}"
            decisions = [d for _, s, drawn in cases for d in _solve(s, drawn, name)]
            table.append(
                {
                    "method": method,
                    "starts": starts,
                    "minimised": statistics.mean(minimised(d) for d in decisions),
                    "ms, median": statistics.median(d.decision_ms for d in decisions),
                }
            )
            print(table[-1], flush=True)
    return table


def _cases(scenarios: int, regime: str) -> Cases:
    cases = []
    for seed in range(FIRST_SEED, FIRST_SEED + scenarios):
        fields = {"seed": seed, "scenario": {"clients": 93, "edges": 4, "regime": regime}}
        common = {"measure": "decisions", "policy": "exact"}
        scenario = make_scenario(make_setting(fields | common, "readings.py"))
        rounds = stagewise.participation.bernoulli(scenario, ROUNDS, seed)
        cases.append((seed, scenario, rounds))
    return cases


def _solve(scenario: stagewise.Scenario, drawn: list[stagewise.Round], name: str) -> list[Decision]:
    return stagewise.solve(scenario, drawn, name, seconds=LONGEST_S)


def _over(what: str, ratios: list[float]) -> dict[str, float | None]:
    """The mean of `ratios` and half its 95% interval, as columns."""
    found = estimate(ratios)
    mean, half = (None, None) if found is None else (found.mean, found.half_width)
    return {what: mean, "95% interval, half": half}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = {"rounds": rounds, "plans": plans, "methods": methods}
    parser.add_argument("tables", nargs="*", default=list(tables), choices=list(tables))
    parser.add_argument("--regime", default="literal", choices=list(REGIMES))
    parser.add_argument("--scenarios", type=int, default=8)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    load(load_search, load_association)
    cases = _cases(arguments.scenarios, arguments.regime)
    found = {name: tables[name](cases) for name in arguments.tables}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
