"""
Every picture of a run
======================

Each picture that ``stagewise report`` puts on its page, drawn by itself on axes of your own, with the
lines that draw it. Methods have the same colour in all of them, and colours can be told apart with
any colour vision.
"""

# %%
# Two runs
# --------
#
# Any runs will do, of the simulator or of a deployment: ``stagewise.load_run(folder)`` reads one.

import matplotlib.pyplot as plt

import stagewise
from stagewise.report import figures
from stagewise.report.round_map import round_map

runs = [
    stagewise.simulate(dataset="digits", policy=policy, rounds=12, seed=0)
    for policy in ("pool", "fedcs")
]
pool = runs[0]

# %%
# Accuracy by round
# -----------------

figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
figures.accuracy_by_round(runs, axes)
plt.show()

# %%
# Accuracy by cost
# ----------------
#
# Further left is cheaper: the same accuracy for less delay and energy.

figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
figures.accuracy_by_cost(runs, axes)
plt.show()

# %%
# What a round costs
# ------------------
#
# Any figure that ``run.rounds`` has a column for; the whiskers span nine rounds out of ten.

figure, panels = plt.subplots(
    1, 3, sharey=True, figsize=(7.5, 2), layout="constrained"
)
columns = {
    "delay_s": "delay (s)",
    "energy_j": "energy (J)",
    "objective": "cost",
}
for axes, (column, label) in zip(panels, columns.items(), strict=True):
    figures.mean_bars(runs, axes, column, label)
plt.show()

# %%
# Time to decide
# --------------
#
# A dot is a decision, the line their median, a diamond the time of a plan.

figure, axes = plt.subplots(figsize=(7.5, 2.2), layout="constrained")
figures.decision_times(runs, axes)
plt.show()

# %%
# Balance of the edges' data
# --------------------------
#
# The divergence of each edge's labels from the target, by round, below the limit or not.

figure, axes = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
figures.kld_by_round(pool, axes)
plt.show()

# %%
# Who trained how often
# ---------------------
#
# A client is a step; grey is how often it was online.

figure, axes = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
figures.service_counts(pool, axes)
plt.show()

# %%
# Who trained where
# -----------------
#
# A round on the map: the last one, or that of an ``index``.

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
round_map(pool, axes, index=4)
axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
plt.show()

# %%
# All of them
# -----------
#
# ``save_pictures`` writes them as PNG or SVG, as ``stagewise report --pictures`` does.

import tempfile

from stagewise.report.pictures import save_pictures

written = save_pictures(runs, tempfile.mkdtemp(), "svg")
[path.name for path in written]

# %%
# Pictures of experiments
# -----------------------
#
# An experiment's file says how its numbers are drawn: as curves, bars, a sweep or a matrix, with
# the paper's numbers beside ours. :doc:`The results </results/README>` show all four, and
# :doc:`plot_dask_sweep` and :doc:`plot_paper_figure` draw one each. ``stagewise serve`` draws the
# same figures of a running federation, :doc:`in the browser </serve>`.
