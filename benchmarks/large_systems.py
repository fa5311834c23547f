"""Quality and times by size: decisions beside proven bounds, measured, kept, and written into the docs.

    python benchmarks/large_systems.py decide [--sizes 1000x40 ...] [--scenarios 5] [--plans FOLDER]
    python benchmarks/large_systems.py bound [--sizes 1000x40 ...] [--exact-seconds 60] [--rounds 1]
    python benchmarks/large_systems.py compare --against COMMIT [--sizes 1000x40 ...]
    python benchmarks/large_systems.py page

`decide` plans scenarios that `generate.numeric` draws and decides rounds of them as drawn, strictly, and
with new channels and CPUs; `bound` proves what no decision on the first rounds can cost less than, by
prices and, up to the size given by `--exact-up-to`, by `exact`. Both keep what they find in
docs/large_systems.json; the best bound ever proven of a round stays. Every scenario has a process of its
own. With `--plans` plans are kept in a folder, so that times can be measured apart from making them.
`compare` measures decisions of this tree and of another commit one after the other and keeps nothing.
Each of them but `compare` ends as `page` does: the table of docs/quality.md is written again.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1]
KEPT, PAGE = HERE / "docs" / "large_systems.json", HERE / "docs" / "quality.md"
BEGIN = "<!-- by size: written by benchmarks/large_systems.py, not by hand -->"
END = "<!-- end of the table by size -->"
KINDS = ("flexible", "strict", "new costs")
Record = dict[str, Any]


def rounds_of(scenario: Any, seed: int) -> dict[str, list[Any]]:
    """The rounds of each kind: many where decisions are quick."""
    import stagewise
    from stagewise.world.fluctuation import fluctuate

    clients = len(scenario.clients)
    count = next(
        n
        for most, n in ((1_000, 20), (10_000, 5), (100_000, 2), (None, 1))
        if most is None or clients <= most
    )
    usual = list(stagewise.participation.bernoulli(scenario, count, seed))
    return {"flexible": usual, "strict": usual, "new costs": fluctuate(usual, seed)}


def planned(scenario: Any, seed: int, folder: str) -> tuple[Any, float | None]:
    """The scenario's plan, from `folder` if it is there, and how many seconds it took if it was made."""
    import stagewise

    path = Path(folder, f"{len(scenario.clients)}x{len(scenario.edges)}-{seed}.json")
    if folder and path.exists():
        return stagewise.load_plan(path, scenario), None
    began = time.perf_counter()
    plan = stagewise.plan(scenario, method="pool", seed=seed)
    seconds = time.perf_counter() - began
    if folder:
        path.parent.mkdir(parents=True, exist_ok=True)
        stagewise.save_plan(plan, path)
    return plan, seconds


def decisions(clients: int, edges: int, seed: int, folder: str) -> Record:
    """Costs and times of one scenario; runs in any tree that has these names."""
    import stagewise
    from stagewise.loading import load
    from stagewise.warm_up import load_search

    load(load_search)
    small = stagewise.generate.numeric(200, 60, seed)  # loads what only large systems use
    stagewise.decide(stagewise.plan(small), [np.ones(200, dtype=np.bool_)], mode="strict")
    scenario = stagewise.generate.numeric(clients, edges, seed)
    plan, seconds = planned(scenario, seed, folder)
    found: Record = {"load": os.getloadavg()[0] / (os.cpu_count() or 1)}
    if seconds is not None:
        found["plan_s"] = seconds
    for kind, rounds in rounds_of(scenario, seed).items():
        mode = "strict" if kind == "strict" else "flexible"
        stagewise.decide(plan, rounds[:1], mode=mode)  # whatever is loaded late is loaded now
        part: Record = {"cost": [], "ms": [], "processor_ms": [], "edges_in_violation": 0}
        for round_ in rounds:
            began = time.process_time()
            [decision] = stagewise.decide(plan, [round_], mode=mode)
            part["processor_ms"].append(1e3 * (time.process_time() - began))
            part["ms"].append(decision.decision_ms)
            part["cost"].append(decision.objective)
            broken = {text.split(":")[0] for text in decision.violations}
            part["edges_in_violation"] += len(broken)
        found[kind] = part
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return found


def bounds(clients: int, edges: int, seed: int, folder: str, exact_s: float, rounds: int) -> Record:
    """What is proven of the first rounds of one scenario."""
    import stagewise
    from stagewise.exact.solver import solve_exactly
    from stagewise.problem.statement import p0

    scenario = stagewise.generate.numeric(clients, edges, seed)
    plan, _seconds = planned(scenario, seed, folder)
    found: Record = {}
    for kind, several in rounds_of(scenario, seed).items():
        if kind == "strict":
            continue
        found[kind] = []
        for round_ in several[:rounds]:
            began = time.perf_counter()
            [proven] = stagewise.bound(scenario, [round_], plan)
            one = {"prices": proven.value, "prices_s": time.perf_counter() - began}
            if exact_s:
                certified = solve_exactly(p0(round_), seed=seed, seconds=exact_s)
                one |= {"exact": certified.lower_bound, "exact_best": certified.value}
            found[kind].append(one)
    return found


def run(tree: Path, what: str, *arguments: object) -> Record:
    """The same in a process with the sources of `tree`."""
    done = subprocess.run(
        [sys.executable, __file__, "one", what, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: Record = json.loads(done.stdout.splitlines()[-1])
    return found


def kept() -> Record:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {"decisions": {}, "bounds": {}}


def keep(part: str, size: str, seed: int, found: Record) -> None:
    """Keep what was found of a scenario; a plan's time and a round's best bound stay."""
    everything = kept()
    of_size = everything[part].setdefault(size, {})
    before = of_size.get(str(seed), {})
    if part == "decisions":
        commit = subprocess.run(
            ["git", "-C", str(HERE), "log", "-1", "--abbrev=7", "--format=%h"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        found = {"commit": commit, **found}
        if "plan_s" not in found and "plan_s" in before:
            found["plan_s"] = before["plan_s"]
    else:
        for kind, several in before.items():
            for place, one in enumerate(several):
                if place == len(found[kind]):
                    found[kind].append(one)
                    continue
                new = found[kind][place]
                for name in {"prices", "exact"} & {*new, *one}:
                    new[name] = max(new.get(name, 0.0), one.get(name, 0.0))
                if "exact_best" in one:
                    new["exact_best"] = min(new.get("exact_best", np.inf), one["exact_best"])
    of_size[str(seed)] = found
    KEPT.write_text(json.dumps(everything, indent=1) + "\n")


def over_bounds(everything: Record, size: str, kind: str, names: tuple[str, ...]) -> list[float]:
    """Costs of decisions over the best of the bounds with these names, where there is one."""
    ratios = []
    for seed, several in everything["bounds"].get(size, {}).items():
        decided = everything["decisions"].get(size, {}).get(seed)
        if decided is None:
            continue
        for cost, one in zip(decided[kind]["cost"], several[kind], strict=False):
            proven = max(one.get(name, 0.0) for name in names)
            if proven > 0:
                ratios.append(cost / proven)
            if cost < proven * (1 - 1e-9) and not decided[kind]["edges_in_violation"]:
                raise SystemExit(f"{size}, seed {seed}, {kind}: {cost} is below the bound {proven}")
    return ratios


def told(values: list[float]) -> str:
    """The mean and the ends."""
    if not values:
        return "–"
    return f"{np.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def times(parts: list[Record]) -> str:
    """Of all rounds: the median, the 99th percentile and the longest."""
    ms = [one for part in parts for one in part["ms"]]
    told_ms = [np.median(ms), max(ms)]
    if len(ms) >= 20:
        told_ms.insert(1, np.percentile(ms, 99))
    return " / ".join(f"{one:,.0f}" if one >= 100 else f"{one:.3g}" for one in told_ms)


def table(everything: Record) -> str:
    """The table by size."""
    headings = [
        "clients x edges",
        "scenarios",
        "commit",
        "over what prices prove",
        "over the best bound",
        "ms",
        "new costs: over what prices prove",
        "over the best bound",
        "ms",
        "strict, ms",
        "plan, s",
        "GB",
        "edges in violation",
        "load",
    ]
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    by_clients = sorted(everything["decisions"], key=lambda size: int(size.split("x")[0]))
    for size in by_clients:
        scenarios = list(everything["decisions"][size].values())
        row = [" x ".join(f"{int(one):,}" for one in size.split("x")), str(len(scenarios))]
        row.append(", ".join(sorted({one["commit"] for one in scenarios})))
        for kind in ("flexible", "new costs"):
            row.append(told(over_bounds(everything, size, kind, ("prices",))))
            best = over_bounds(everything, size, kind, ("prices", "exact"))
            proven = len(over_bounds(everything, size, kind, ("exact",)))
            some = f", `exact` in {proven} of {len(best)}" if proven < len(best) else ""
            row.append(told(best) + some if proven else "–")
            row.append(times([one[kind] for one in scenarios]))
        row.append(times([one["strict"] for one in scenarios]))
        plans = [one["plan_s"] for one in scenarios if "plan_s" in one]
        row.append(f"{np.median(plans):.3g}" if plans else "–")
        row.append(f"{max(one['peak_gb'] for one in scenarios):.2g}")
        broken = sum(one[kind]["edges_in_violation"] for one in scenarios for kind in KINDS)
        row.append(str(broken))
        row.append(f"{max(one['load'] for one in scenarios):.1f}")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def write_page() -> None:
    page = PAGE.read_text()
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if len(between.findall(page)) != 1:
        raise SystemExit(f"{PAGE} must have one line {BEGIN} and one line {END} below it")
    PAGE.write_text(between.sub(lambda _: f"{BEGIN}\n\n{table(kept())}\n\n{END}", page))


def compare(arguments: argparse.Namespace) -> None:
    """Decisions of this tree beside those of another commit, scenario by scenario."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        worktree = ["git", "-C", str(HERE), "worktree"]
        subprocess.run(
            [*worktree, "add", "-q", "--detach", str(other), arguments.against], check=True
        )
        try:
            for size, clients, edges, seed in scenarios_of(arguments):
                here, there = (run(t, "decide", clients, edges, seed, "") for t in (HERE, other))
                for kind in KINDS:
                    ratios = np.array(here[kind]["cost"]) / there[kind]["cost"]
                    spent = [np.median(one[kind]["processor_ms"]) for one in (here, there)]
                    told_times = "{:.3g} ms of processor time, {:.3g} before".format(*spent)
                    print(size, seed, kind, f"cost {ratios.mean():.5f}, {told_times}", flush=True)
        finally:
            subprocess.run([*worktree, "remove", "--force", str(other)], check=True)


def scenarios_of(arguments: argparse.Namespace) -> list[tuple[str, int, int, int]]:
    first = arguments.first_seed
    return [
        (size, *map(int, size.split("x")), seed)  # type: ignore[misc]
        for size in arguments.sizes
        for seed in range(first, first + arguments.scenarios)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["decide", "bound", "compare", "page", "one"])
    parser.add_argument("one", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", nargs="+", default=["300x12", "1000x40", "10000x200"])
    parser.add_argument("--scenarios", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=7700)
    parser.add_argument("--plans", default="")
    parser.add_argument("--rounds", type=int, default=1, help="of each kind that have a bound")
    parser.add_argument("--exact-seconds", type=float, default=60.0)
    parser.add_argument("--exact-up-to", type=int, default=1_000, help="clients")
    parser.add_argument("--against")
    arguments = parser.parse_args()
    if arguments.what == "one":
        what, *numbers = arguments.one
        clients, edges, seed = map(int, numbers[:3])
        if what == "decide":
            print(json.dumps(decisions(clients, edges, seed, numbers[3])))
        else:
            exact_s, rounds = float(numbers[4]), int(numbers[5])
            print(json.dumps(bounds(clients, edges, seed, numbers[3], exact_s, rounds)))
        return
    if arguments.what == "compare":
        compare(arguments)
        return
    if arguments.what != "page":
        folder = str(Path(arguments.plans).absolute()) if arguments.plans else ""
        for size, clients, edges, seed in scenarios_of(arguments):
            if arguments.what == "decide":
                keep("decisions", size, seed, run(HERE, "decide", clients, edges, seed, folder))
            else:
                exact_s = arguments.exact_seconds if clients <= arguments.exact_up_to else 0.0
                more = folder, exact_s, arguments.rounds
                keep("bounds", size, seed, run(HERE, "bound", clients, edges, seed, *more))
            print(size, seed, "done", file=sys.stderr, flush=True)
    write_page()


if __name__ == "__main__":
    main()
