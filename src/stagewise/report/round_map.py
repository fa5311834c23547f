"""The map: clients, edges and the links in use in one round."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection

from stagewise.report.style import FAINT, edge_colour
from stagewise.runs.run import Run
from stagewise.world.scenario import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Single points of more clients than this would make the picture's file huge.
_MAX_VECTORS = 3000
_MAX_NAMES = 20
_ANY_EDGE = "#444444"


def has_map(run: Run) -> bool:
    """Whether there is anything to draw: positions, and a round that took place."""
    positions = (run.scenario.clients.position_m, run.scenario.edges.position_m)
    return bool(run.records) and not any(position is None for position in positions)


def round_map(run: Run, axes: "Axes", index: int | None = None) -> None:
    """Who trained at which edge in round `index` (the last one there is, if that comes later)."""
    last = len(run.decisions) - 1
    index = last if index is None else min(index, last)
    scenario, decision = run.scenario, run.decisions[index]
    clients, edges = scenario.clients.position_m, scenario.edges.position_m
    assert clients is not None and edges is not None
    edge_of = np.full(len(clients), -1)
    for client, edge in decision.assignment.items():
        edge_of[scenario.clients.index[client]] = scenario.edges.index[edge]
    online, serving = run.online[index].online, edge_of >= 0
    image = len(clients) > _MAX_VECTORS
    few_edges, nowhere = len(edges) <= _MAX_NAMES, np.zeros((0, 2))
    size = 30 if len(clients) <= 200 else 30 * 200 / len(clients)

    lines = LineCollection(
        list(np.stack([clients[serving], edges[edge_of[serving]]], axis=1)),
        colors=[edge_colour(edge) for edge in edge_of[serving].tolist()],
        linewidths=0.9,
        alpha=0.55,
        zorder=1,
        rasterized=image,
    )
    axes.add_collection(lines)
    idle = online & ~serving
    style: dict[str, Any] = {"s": size, "rasterized": image, "zorder": 2}
    _points(axes, clients[~online], label="offline", c=FAINT, marker="x", lw=0.9, **style)
    _points(axes, clients[idle], label="idle", facecolors="white", edgecolors=FAINT, **style)
    style |= {"s": 1.2 * size, "zorder": 3}
    _points(axes, clients[serving], c=[edge_colour(edge) for edge in edge_of[serving]], **style)
    _points(axes, nowhere, label="trains, in the colour of its edge", c=_ANY_EDGE, s=36)
    style = {"s": 120 if few_edges else 30, "marker": "s", "edgecolors": "black", "zorder": 4}
    _points(axes, edges, c=[edge_colour(edge) for edge in range(len(edges))], **style)
    _points(axes, nowhere, label="edge server", c=_ANY_EDGE, **style)
    if few_edges:
        for name, (x, y) in zip(scenario.edges.ids, edges.tolist(), strict=True):
            axes.annotate(
                name,
                (x, y),
                xytext=(0, 9),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                zorder=5,
                bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
            )
    axes.set(xlabel="metres east", ylabel="metres north", aspect="equal")
    state = "" if decision.feasible else ", infeasible"
    axes.set_title(
        f"round {index + 1}{state}\n{int(serving.sum())} train, {int(idle.sum())} idle, "
        f"{int((~online).sum())} offline"
    )


def _points(axes: "Axes", xy: FloatArray, **style: Any) -> None:
    axes.scatter(xy[:, 0], xy[:, 1], **style)
