"""Readings of Algs. 2 and 3 beside each other: the tables of docs/model.md.

    python benchmarks/readings.py [rounds plans larger methods] [--regime literal] [--json FILE]

`rounds`: P0 by each reading against the certified optimum of the same rounds. `plans`: P1 against what
annealing finds for it. `larger`: what is left of that where Alg. 3's result is improved by changes of
several clients, too, which Alg. 3 lacks. `methods`: the paper's other methods from one start and from
several, by what each of them minimises. Scenarios are those of Table I with 93 clients and 4 edges, in
either regime of costs (docs/calibration.md), their seeds from 9300 on used for nothing else: the
readings were chosen on others.
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
from larger_changes import LARGER, Descent
from stagewise import Decision
from stagewise.loading import load
from stagewise.search.association import reading_of
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


def larger(cases: Cases) -> Table:
    """P1: the plan's objective over that of annealing, before and after changes of several clients."""
    ratios: dict[str, list[float]] = {name: [] for name in ("Alg. 3", "single changes", *LARGER)}
    shares: dict[str, list[float]] = {name: [] for name in ratios}
    for seed, scenario, _ in cases:
        annealed = stagewise.plan(scenario, method="local-search", seed=seed)
        plan = stagewise.plan(scenario, method=f"paper:{PLAN_READINGS[-1]}", seed=seed)
        if not (plan.feasible and annealed.feasible):
            continue
        descent = Descent(scenario, plan.edge_of, seed, reading_of(PLAN_READINGS[-1]))
        cost = annealed.objective + scenario.weights.continuity * annealed.continuity
        for number, name in enumerate(ratios):
            if number:
                descent.improve(list(LARGER)[: number - 1])
            value = descent.value if number else plan.objective
            ratios[name].append(value / annealed.objective)
            shares[name].append((value - annealed.objective) / cost)
        print(seed, {name: round(found[-1], 4) for name, found in shares.items()}, flush=True)
    return [
        {
            "changes": name,
            "plans": len(ratios[name]),
            **_over("objective over annealing's", ratios[name]),
            **_over("difference to annealing's, in parts of its cost", shares[name]),
        }
        for name in ratios
    ]


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


def _over(what: str, numbers: list[float]) -> dict[str, float | None]:
    """The mean of `numbers` and half its 95% interval, as columns."""
    found = estimate(numbers)
    mean, half = (None, None) if found is None else (found.mean, found.half_width)
    return {what: mean, f"{what}, half its 95% interval": half}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = {"rounds": rounds, "plans": plans, "larger": larger, "methods": methods}
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
