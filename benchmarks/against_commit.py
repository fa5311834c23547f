"""Decisions of this tree beside those of another commit: times as ratios, costs as they are.

    python benchmarks/against_commit.py COMMIT [--scenarios 3] [--rounds 30] [--clients 93] [--edges 4]

Both trees run through the commands and their files, which outlive any change inside, with the same
Python and packages; they take turns, so that whatever else the machine does meets both. A first turn
on another scenario compiles and is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parents[1]
PLANNED = {  # plan --method, then decide --method and --mode
    "pool-flexible": ("pool", "pool", "flexible"),
    "pool-strict": ("pool", "pool", "strict"),
    "stagewise-flexible": ("local-search", "repair", "flexible"),
    "stagewise-strict": ("local-search", "repair", "strict"),
}
SOLVED = ["local-search", "c2e-greedy-assoc", "exact"]
Measured = dict[str, list[tuple[float, float]]]
"""(milliseconds, objective) of every plan and of every decision."""


def stagewise(tree: Path, *arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "stagewise", *map(str, arguments)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def measure(tree: Path, folder: Path, scenario: Path, online: Path) -> Measured:
    """One turn of a tree: every plan and every method's decisions."""
    found: Measured = {}
    for planner in ("pool", "local-search"):
        plan = folder / f"{planner}.json"
        stagewise(tree, "plan", scenario, "-o", plan, "--method", planner)
        record = json.loads(plan.read_text())
        found[f"plan {planner}"] = [(record["plan_ms"], record["objective"])]
    decided = folder / "decisions.jsonl"
    for name, (planner, method, mode) in PLANNED.items():
        options = ["--online", online, "-o", decided, "--method", method, "--mode", mode]
        stagewise(tree, "decide", scenario, folder / f"{planner}.json", *options)
        found[name] = _read(decided)
    for method in SOLVED:
        stagewise(tree, "solve", scenario, "--online", online, "-o", decided, "--method", method)
        found[method] = _read(decided)
    return found


def _read(decisions: Path) -> list[tuple[float, float]]:
    records = [json.loads(line) for line in decisions.read_text().splitlines()]
    return [(record["decision_ms"], record["objective"]) for record in records]


def compare(there: Path, arguments: argparse.Namespace) -> None:
    trees = {"this": HERE, "that": there}
    times: dict[str, dict[str, list[float]]] = {tree: defaultdict(list) for tree in trees}
    costs: dict[str, dict[str, list[float]]] = {tree: defaultdict(list) for tree in trees}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario, online = folder / "s.json", folder / "online.jsonl"
        for seed in range(arguments.scenarios + 1):
            size = ["--clients", arguments.clients, "--edges", arguments.edges]
            stagewise(HERE, "scenario", "numeric", *size, "--seed", 7000 + seed, "-o", scenario)
            rounds = arguments.rounds if seed > 0 else 1
            stagewise(HERE, "availability", scenario, "--rounds", rounds, "-o", online)
            for tree, path in trees.items():
                found = measure(path, folder, scenario, online)
                if seed == 0:
                    continue
                for what, pairs in found.items():
                    times[tree][what] += [milliseconds for milliseconds, _ in pairs]
                    costs[tree][what] += [cost for _, cost in pairs]
    print(f"{'':<20} {'ms, median':>12} {'that':>12} {'this / that':>12} {'same costs':>11}")
    for what, values in times["this"].items():
        this, that = statistics.median(values), statistics.median(times["that"][what])
        same = sum(a == b for a, b in zip(costs["this"][what], costs["that"][what], strict=True))
        print(
            f"{what:<20} {this:>12.3f} {that:>12.3f} {this / that:>12.2f} {same:>5}/{len(values)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--scenarios", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clients", type=int, default=93)
    parser.add_argument("--edges", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        there = Path(name) / "tree"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", there, arguments.commit], check=True)
        try:
            compare(there, arguments)
        finally:
            subprocess.run([*git, "remove", "--force", there], check=True)


if __name__ == "__main__":
    main()
