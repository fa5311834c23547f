"""Draw the README's pictures: a round, and the comparison of `stagewise compare --json`.

stagewise compare demo/s.json --online demo/online.jsonl --workers 2 --json > comparison.json
python docs/pictures.py comparison.json
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import stagewise
from stagewise.comparison import MethodSummary
from stagewise.report.style import style_of

HERE = Path(__file__).parent / "images"
TRAINS, ABSENT, STANDS_IN = "#1b6ca8", "#b0402a", "#e0a030"
IGNORES_KLD = ("client-sel-only", "c2e-assoc-only", "c2e-greedy-assoc", "fedcs")
# Where a label stands, for methods whose neighbours are close: (to the left, points up).
LABELS = {
    "orig-prob-solver": (True, 0),
    "kld-minimization": (True, 4),
    "stagewise-flexible": (True, 9),
    "stagewise-strict": (False, 9),
    "pool-flexible": (False, -9),
    "pool-strict": (False, -3),
    "fedcs": (False, -9),
    "c2e-greedy-assoc": (False, 11),
    "client-sel-only": (False, -6),
    "local-search": (False, 7),
    "exact": (False, -7),
}


def draw_round(scenario: stagewise.Scenario, plan: stagewise.Plan, round_: stagewise.Round) -> None:
    """Who trains where in one round: long-term clients, stand-ins, and those who are away."""
    (decision,) = stagewise.decide(plan, [round_], mode="strict")
    clients, edges = scenario.clients.position_m, scenario.edges.position_m
    assert clients is not None and edges is not None
    serving, planned = decision.edge_of >= 0, plan.edge_of >= 0
    groups = (
        ("idle", ~serving & round_.online, "#c9c9c9", "o"),
        ("offline", ~planned & ~round_.online, "#e4e4e4", "x"),
        ("long-term, absent", planned & ~round_.online, ABSENT, "x"),
        ("long-term, trains", serving & planned, TRAINS, "o"),
        ("stands in", serving & ~planned, STANDS_IN, "o"),
    )
    figure, axes = plt.subplots(figsize=(7.2, 5.0), layout="constrained")
    for client in np.flatnonzero(serving):
        x, y = np.stack([clients[client], edges[decision.edge_of[client]]], axis=1)
        axes.plot(x, y, color="#9db8cc", linewidth=0.9, zorder=1)
    for name, members, colour, marker in groups:
        label = f"{name} ({members.sum()})"
        axes.scatter(*clients[members].T, s=34, c=colour, marker=marker, label=label, zorder=2)
    axes.scatter(*edges.T, s=150, c="black", marker="s", label="edge server", zorder=3)
    axes.set(xlabel="metres east", ylabel="metres north", aspect="equal")
    axes.set_title(f"One round: {len(decision.assignment)} clients at {len(edges)} edges")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=0.8)
    figure.savefig(HERE / "round.png", dpi=130)


def draw_comparison(summaries: list[MethodSummary]) -> None:
    """Cost of a round against the time of its decision, for every method."""
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for summary in summaries:
        style, hollow = style_of(summary.method), summary.method in IGNORES_KLD
        x, y = summary.decision_ms_median, summary.objective
        axes.plot(
            [x], [y], marker=style.marker, ms=1.5 * style.size, color=style.colour, mew=1.5,
            mfc="white" if hollow else style.colour,
        )  # fmt: skip
        left, up = LABELS.get(summary.method, (False, 0))
        axes.annotate(
            f"{summary.method} ({summary.feasible_rounds}/{summary.rounds})",
            (x, y),
            xytext=(-8 if left else 8, up),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8.5,
        )
    axes.set(xscale="log", xlabel="median time of one decision (ms)", ylabel="mean cost of a round")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.2, 12_000)
    title = "Lower is cheaper, left is faster; in brackets: feasible rounds; hollow: no KLD limit"
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25)
    figure.savefig(HERE / "comparison.png", dpi=130)


def main() -> None:
    HERE.mkdir(exist_ok=True)
    scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
    rounds = stagewise.participation.bernoulli(scenario, 30, seed=1)
    draw_round(scenario, stagewise.plan(scenario), rounds[0])
    rows = json.loads(Path(sys.argv[1]).read_text())
    draw_comparison([MethodSummary(**row) for row in rows])


if __name__ == "__main__":
    main()
