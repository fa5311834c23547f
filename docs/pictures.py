"""Draw the README's picture of a round: python docs/pictures.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import stagewise

HERE = Path(__file__).parent / "images"
TRAINS, ABSENT, STANDS_IN = "#1b6ca8", "#b0402a", "#e0a030"


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


def main() -> None:
    HERE.mkdir(exist_ok=True)
    scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
    rounds = stagewise.participation.bernoulli(scenario, 30, seed=1)
    draw_round(scenario, stagewise.plan(scenario), rounds[0])


if __name__ == "__main__":
    main()
