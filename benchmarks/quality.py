"""Quality and speed of decisions: every table of docs/quality.md, measured in one run.

    python benchmarks/quality.py [decisions commitment literal] [--json FILE] [--quick]

Without a name all three run, which takes hours: `literal` gives the paper's algorithms ten minutes for
each run. `--quick` is for a look. Compilation is done before anything is timed; times are wall times of
one process. Large systems have a benchmark of their own, `large_systems.py`.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import stagewise
from stagewise import PlanPolicy, Policy, make_policy
from stagewise.exact.solver import Certified, solve_exactly
from stagewise.loading import load
from stagewise.loop import run_rounds
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import p0, p1
from stagewise.search.association import READINGS
from stagewise.search.client_set import improve_client_set, random_client_set
from stagewise.search.instance import build_instance
from stagewise.warm_up import load_search
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import Scenario

CLIENTS, EDGES = 93, 4
PAPER_METHODS = [
    "orig-prob-solver",
    "kld-minimization",
    "client-sel-only",
    "c2e-assoc-only",
    "c2e-greedy-assoc",
    "fedcs",
]
LITERAL = READINGS["back-tracking"]._replace(steps=2**60)
RISK_LIMITS = [0.1, 0.3, 0.5, 0.7, 0.9]
LITERAL_CLIENTS = [75, 90, 105, 120]

Table = list[dict[str, Any]]


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    scenarios: int
    rounds: int
    paper_rounds: int
    """Rounds of each scenario that the paper's methods, which take seconds, decide."""
    commitment_scenarios: int
    literal_seconds: float
    """Where a literal run is stopped."""
    exact_seconds: float
    first_seed: int
    literal_clients: tuple[int, ...] = tuple(LITERAL_CLIENTS)


FULL = Extent(20, 10, 2, 5, 600.0, 60.0, 5000)
QUICK = Extent(2, 5, 1, 1, 5.0, 20.0, 5000)


def decisions(extent: Extent) -> dict[str, Table]:
    """Every method against the certified optimum of the same rounds."""
    ratios: dict[str, list[float]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)
    feasible: dict[str, list[bool]] = defaultdict(list)
    over_paper: list[float] = []
    optima: list[tuple[Certified, float]] = []
    plan_seconds: dict[str, list[float]] = defaultdict(list)
    broken = unproven = 0
    for seed in range(extent.first_seed, extent.first_seed + extent.scenarios):
        scenario = stagewise.generate.numeric(CLIENTS, EDGES, seed)
        policies = _policies(scenario, seed, plan_seconds)
        paper = {name: make_policy(name, scenario, seed) for name in PAPER_METHODS}
        rounds = stagewise.participation.bernoulli(scenario, extent.rounds, seed)
        for index, round_ in enumerate(rounds):
            began = time.perf_counter()
            optimum = solve_exactly(p0(round_), seed=seed, seconds=extent.exact_seconds)
            optima.append((optimum, time.perf_counter() - began))
            some = {**policies, **paper} if index < extent.paper_rounds else policies
            costs = {}
            for name, policy in some.items():
                decision = next(run_rounds(policy, [round_])).decision
                costs[name] = decision.objective
                feasible[name].append(decision.feasible)
                times[name].append(decision.decision_ms)
                if decision.feasible and np.isfinite(optimum.value):
                    ratios[name].append(decision.objective / optimum.value)
                if name == "pool, flexible" and not decision.feasible:
                    broken += 1
                    unproven += not np.isinf(optimum.lower_bound)
            over_paper.append(costs["pool, strict"] / costs["paper + ccu, strict"])
        _report(f"scenario {seed}")
    gaps = np.array([optimum.gap for optimum, _ in optima])
    table: Table = [
        {
            "method": "exact",
            "rounds": len(optima),
            "cost over optimum, mean": 1.0,
            "95th percentile": 1.0,
            "feasible rounds": float(np.mean([np.isfinite(o.value) for o, _ in optima])),
            "decision ms, median": 1000 * float(np.median([seconds for _, seconds in optima])),
            "99th percentile, ms": 1000 * float(np.percentile([s for _, s in optima], 99)),
            "longest, ms": 1000 * max(seconds for _, seconds in optima),
        }
    ]
    table += [
        {
            "method": name,
            "rounds": len(times[name]),
            "cost over optimum, mean": float(np.mean(ratios[name])) if ratios[name] else None,
            "95th percentile": float(np.percentile(ratios[name], 95)) if ratios[name] else None,
            "feasible rounds": float(np.mean(feasible[name])),
            "decision ms, median": float(np.median(times[name])),
            "99th percentile, ms": float(np.percentile(times[name], 99)),
            "longest, ms": max(times[name]),
        }
        for name in times
    ]
    summary: Table = [
        {"what": "rounds certified within 1%", "value": float(np.mean(gaps <= 0.01))},
        {"what": "pool strict over paper + ccu, mean", "value": float(np.mean(over_paper))},
        {"what": "infeasible rounds of pool flexible", "value": broken},
        {"what": "... not proven infeasible by exact", "value": unproven},
    ]
    summary += [
        {"what": f"plan by {name}, s, median", "value": float(np.median(seconds))}
        for name, seconds in plan_seconds.items()
    ]
    return {"Methods against the certified optimum (93 x 4)": table, "In short": summary}


def _policies(
    scenario: Scenario, seed: int, plan_seconds: dict[str, list[float]]
) -> dict[str, Policy]:
    plans = {}
    for method in ("pool", "local-search", "paper"):
        plans[method] = stagewise.plan(scenario, method=method, seed=seed)
        plan_seconds[method].append(plans[method].plan_ms / 1000)
    return {
        "pool, flexible": PlanPolicy(plans["pool"]),
        "pool, strict": PlanPolicy(plans["pool"], mode="strict"),
        "repair, flexible": PlanPolicy(plans["local-search"]),
        "repair, strict": PlanPolicy(plans["local-search"], mode="strict"),
        "paper + ccu, strict": PlanPolicy(plans["paper"], mode="strict"),
        "local-search": make_policy("local-search", scenario, seed),
    }


def commitment(extent: Extent) -> dict[str, Table]:
    """What keeping (12d) costs, and what it is worth, at several risk limits."""
    table = []
    for risk in RISK_LIMITS:
        within, ratio = [], []
        changes: dict[str, list[float]] = defaultdict(list)
        moves: dict[str, list[float]] = defaultdict(list)
        size = []
        for seed in range(extent.first_seed, extent.first_seed + extent.commitment_scenarios):
            scenario = stagewise.generate.numeric(CLIENTS, EDGES, seed)
            limits = replace(scenario.limits, kld_risk=risk, data_risk=risk)
            scenario = replace(scenario, limits=limits)
            plan = stagewise.plan(scenario, method="pool", seed=seed)
            within.append(plan.feasible)
            size.append(int((plan.edge_of != UNASSIGNED).sum()))
            rounds = stagewise.participation.bernoulli(scenario, extent.rounds, seed)
            costs: dict[str, list[float]] = defaultdict(list)
            for mode in ("strict", "flexible"):
                before = None
                for decision in stagewise.decide(plan, rounds, mode=mode):
                    costs[mode].append(decision.objective)
                    if before is not None:
                        changes[mode].append(_newcomers(before, decision.edge_of))
                        moves[mode].append(_handovers(before, decision.edge_of))
                    before = decision.edge_of
            ratio.append(np.mean(costs["strict"]) / np.mean(costs["flexible"]))
        table.append(
            {
                "risk limit": risk,
                "plans within it": float(np.mean(within)),
                "long-term clients": float(np.mean(size)),
                "strict over flexible": float(np.mean(ratio)),
                "new clients a round, strict": float(np.mean(changes["strict"])),
                "... flexible": float(np.mean(changes["flexible"])),
                "handovers a round, strict": float(np.mean(moves["strict"])),
                "... flexible ": float(np.mean(moves["flexible"])),
            }
        )
        _report(f"risk limit {risk}")
    return {"The price of commitment (93 x 4, pool)": table}


def _newcomers(before: Any, now: Any) -> int:
    """Clients that serve now and did not in the round before."""
    return int(((now != UNASSIGNED) & (before == UNASSIGNED)).sum())


def _handovers(before: Any, now: Any) -> int:
    """Clients that serve another edge than in the round before."""
    return int(((now != UNASSIGNED) & (before != UNASSIGNED) & (now != before)).sum())


def literal(extent: Extent) -> dict[str, Table]:
    """The paper's algorithms with all of Alg. 2's back-tracking, beside the pool."""
    table = []
    for clients in extent.literal_clients:
        seed = extent.first_seed
        scenario = stagewise.generate.numeric(clients, EDGES, seed)
        plan = stagewise.plan(scenario, method="pool", seed=seed)
        rounds = stagewise.participation.bernoulli(scenario, 10, seed)
        decided = stagewise.decide(plan, rounds)
        ours_ms = float(np.median([decision.decision_ms for decision in decided]))
        planned = _limited(_literal_plan, (clients, seed), extent.literal_seconds)
        solved = _limited(_literal_decision, (clients, seed), extent.literal_seconds)
        table.append(
            {
                "clients": clients,
                "literal plan, s": planned[0],
                "stopped": planned[1] is None,
                "pool plan, s": plan.plan_ms / 1000,
                "plan, times faster": planned[0] / (plan.plan_ms / 1000),
                "literal decision, s": solved[0],
                "stopped ": solved[1] is None,
                "its cost": solved[1],
                "pool decision, ms": ours_ms,
                "pool cost": decided[0].objective,
                "decision, times faster": 1000 * solved[0] / ours_ms,
            }
        )
        _report(f"literal, {clients} clients")
    return {"The paper's algorithms run literally": table}


def _limited(
    work: Callable[..., float], arguments: tuple[Any, ...], seconds: float
) -> tuple[float, float | None]:
    """(seconds taken, result) of `work` in a process of its own, or (seconds, None) if stopped."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, arguments, sending))
    process.start()
    receiving.recv()  # compiled and ready
    began = time.perf_counter()
    result = receiving.recv() if receiving.poll(seconds) else None
    taken = time.perf_counter() - began
    process.kill()
    process.join()
    return taken, result


def _send(work: Callable[..., float], arguments: tuple[Any, ...], sending: Any) -> None:
    load(load_search)
    sending.send("ready")
    sending.send(work(*arguments))


def _literal_plan(clients: int, seed: int) -> float:
    scenario = stagewise.generate.numeric(clients, EDGES, seed)
    problem = p1(scenario, risk_measure(scenario, "markov", seed))
    return _literal(problem, 2.0, seed)


def _literal_decision(clients: int, seed: int) -> float:
    scenario = stagewise.generate.numeric(clients, EDGES, seed)
    (round_,) = list(stagewise.participation.bernoulli(scenario, 1, seed))
    return _literal(p0(round_), 1.5, seed)


def _literal(problem: Any, coverage: float, seed: int) -> float:
    """Algs. 2 and 3 with no limit to the back-tracking; the value they end with."""
    instance = build_instance(problem)
    data = coverage * EDGES * problem.scenario.limits.data_min
    start = random_client_set(instance, np.random.default_rng(seed), data)
    found = improve_client_set(instance, start, reading=LITERAL)
    return found.value if found.violation == 0 else np.inf


def _report(what: str) -> None:
    print(what, "done", file=sys.stderr, flush=True)


def show(title: str, table: Table) -> None:
    """Print a table as Markdown."""
    columns = list(table[0])
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in table:
        print("| " + " | ".join(_shown(row.get(column)) for column in columns) + " |")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "–" if value is None else str(value)


SECTIONS = {
    "decisions": decisions,
    "commitment": commitment,
    "literal": literal,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="section")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--first-seed", type=int)
    parser.add_argument("--literal-seconds", type=float)
    parser.add_argument("--literal-clients", type=int, nargs="+", default=LITERAL_CLIENTS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    load(load_search)
    extent = QUICK if arguments.quick else FULL
    if arguments.first_seed is not None:
        extent = replace(extent, first_seed=arguments.first_seed)
    if arguments.literal_seconds is not None:
        extent = replace(extent, literal_seconds=arguments.literal_seconds)
    extent = replace(extent, literal_clients=tuple(arguments.literal_clients))
    tables: dict[str, Table] = {}
    for name in arguments.sections or SECTIONS:
        for title, table in SECTIONS[name](extent).items():
            tables[title] = table
            show(title, table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
