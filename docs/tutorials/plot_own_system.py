"""
Your own system, from three tables
==================================

Real systems have delays and joules that were measured, not channel gains. Three tables are
enough: clients, edges, and the links between them. Each is a pandas data frame, a list of dicts,
or a CSV file.
"""

# %%
# The tables
# ----------
#
# Nine devices of a building and two edge servers. ``label_0`` and ``label_1`` are how many
# samples of each label a device holds; ``delay_s`` and ``energy_j`` are those of one edge round:
# the local steps and the upload.

import pandas as pd

import stagewise

clients = pd.DataFrame(
    [
        ("phone-a", 0.6, 120, 30),
        ("phone-b", 0.7, 90, 100),
        ("phone-c", 0.5, 20, 140),
        ("laptop-a", 0.8, 200, 60),
        ("laptop-b", 0.9, 60, 220),
        ("camera", 1.0, 10, 170),
        ("kiosk", 1.0, 150, 90),
        ("tablet", 0.7, 80, 100),
        ("hub", 0.95, 40, 110),
    ],
    columns=["id", "online_probability", "label_0", "label_1"],
)
edges = pd.DataFrame(
    [("hall", 6, 0.2, 0.1), ("roof", 6, 0.4, 0.1)],
    columns=["id", "capacity", "uplink_delay_s", "uplink_energy_j"],
)
links = pd.DataFrame(
    [
        (name, edge, 0.3 + 0.1 * n, 1.0 + 0.2 * (n % 4))
        for n, name in enumerate(clients["id"])
        for edge in (["hall", "roof"] if n % 3 else ["hall"])
    ],
    columns=["client", "edge", "delay_s", "energy_j"],
)
links.head()

# %%
# A pair that is in no row cannot serve: the phone ``phone-a`` reaches the hall only.
#
# What every edge must have
# -------------------------
#
# In each round an edge must see at least 300 samples, and its labels may diverge from an even mix
# by at most 0.16 (in nats).

limits = stagewise.Limits(data_min=300, kld_max=0.16)
weights = stagewise.Weights(delay=1.0, energy=0.2)
scenario = stagewise.Scenario.from_tables(
    clients, edges, links, limits=limits, weights=weights
)
scenario

# %%
# A mistake is one line that names the table, the row, the column, the value and the rule:

wrong = clients.assign(online_probability=clients["online_probability"] * 1.2)
try:
    stagewise.Scenario.from_tables(wrong, edges, links, limits=limits)
except stagewise.StagewiseError as error:
    print(error)

# %%
# Who trains tonight?
# -------------------
#
# A round may be a list of the ids that are online.

plan = stagewise.plan(scenario)
everybody = list(clients["id"])
rounds = [
    [name for name in everybody if name != "phone-c"],
    ["laptop-a", "laptop-b", "camera", "kiosk", "hub"],
    ["camera", "kiosk", "hub"],
]
decisions = stagewise.decide(plan, rounds)
for decision in decisions:
    print(f"round {decision.round.index}: {decision.assignment}")
    print(
        f"  cost {decision.objective:.2f}, feasible: {decision.feasible}",
        *decision.violations,
        sep="\n  ",
    )

# %%
# With three devices no assignment keeps the limits. Such a round still gets the best answer that
# was found, and says what it breaks; nothing is hidden and training may go on.
#
# Data and balance of each edge
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 3.2), layout="constrained"
)
place = np.arange(len(decisions))
for offset, (edge, colour) in enumerate(
    zip(scenario.edges.ids, ["#1b6ca8", "#e0a030"], strict=True)
):
    kld = [d.evaluation.kld[offset] for d in decisions]
    left.bar(
        place + 0.4 * offset,
        [d.evaluation.data[offset] for d in decisions],
        0.36,
        color=colour,
        label=edge,
    )
    right.bar(
        place + 0.4 * offset,
        np.where(np.isfinite(kld), kld, 0),
        0.36,
        color=colour,
        label=edge,
    )
left.axhline(limits.data_min, color="black", linestyle=":")
left.set(xlabel="round", ylabel="samples", title="data (at least the line)")
right.axhline(limits.kld_max, color="black", linestyle=":")
right.set(xlabel="round", ylabel="nats", title="divergence (at most the line)")
for axes in (left, right):
    axes.set_xticks(place + 0.2, place)
left.legend(frameon=False)
plt.show()

# %%
# Keep it
# -------
#
# The scenario is one JSON file that the commands read, and that programs in any language can
# write:
# :doc:`/reference/files`.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "building.json"
    stagewise.save_scenario(scenario, file)
    print(file.read_text()[:120], "...")

# %%
# From CSV files: ``stagewise scenario table --clients c.csv --edges e.csv --links l.csv
# --data-min 300 -o s.json``. All columns are in :doc:`/scenarios`.
