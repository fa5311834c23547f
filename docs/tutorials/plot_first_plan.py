"""
A first plan in five lines
==========================

A federation of 93 clients and 4 edge servers, where nobody is sure to be online: who should train
where, round after round?
"""

# %%
# The five lines
# --------------
#
# A *scenario* is the system: who holds which data, who reaches which edge at what cost, and what
# every edge must have in a round. Here it is drawn by the paper's parameters.

import stagewise

scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
plan = stagewise.plan(scenario)
rounds = stagewise.participation.bernoulli(scenario, rounds=30, seed=1)
decisions = stagewise.decide(plan, rounds)
problems = stagewise.check(scenario, decisions, rounds)

print(plan)
print(decisions[0])
print(f"{len(problems)} things that are not true")

# %%
# **Plan A** chose the long-term clients once, by who will probably be there. **Plan B** decided
# each round in milliseconds, for those who came. ``check`` computed every figure again, from the paper's
# equations, with none of the code that made them.
#
# What a decision says
# --------------------

first = decisions[0]
print(
    f"{rounds[0].online.sum()} of 93 clients are online, {len(first.assignment)} train"
)
print(f"cost {first.objective:.3f} = delay and energy by their weights")
print(
    f"delay {first.delay_s:.2f} s, energy {first.energy_j:.2f} J, decided in {first.decision_ms:.1f} ms"
)
print(f"within every limit: {first.feasible}")
print(dict(list(first.assignment.items())[:5]), "...")

# %%
# A picture of the round
# ----------------------
#
# Crosses are long-term clients who are away; others stand in for them.

import matplotlib.pyplot as plt
import numpy as np

clients, edges = scenario.clients.position_m, scenario.edges.position_m
serving, planned, online = (
    first.edge_of >= 0,
    plan.edge_of >= 0,
    rounds[0].online,
)

figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
for client in np.flatnonzero(serving):
    axes.plot(
        *np.stack([clients[client], edges[first.edge_of[client]]], axis=1),
        c="#9db8cc",
        lw=1,
    )
for label, members, colour, marker in [
    ("offline", ~online & ~planned, "#d0d0d0", "x"),
    ("online, not needed", online & ~serving, "#b5b5b5", "o"),
    ("planned, away", planned & ~online, "#b0402a", "x"),
    ("planned, trains", planned & serving, "#1b6ca8", "o"),
    ("stands in", serving & ~planned, "#e0a030", "o"),
]:
    axes.scatter(
        *clients[members].T,
        s=36,
        c=colour,
        marker=marker,
        label=f"{label} ({members.sum()})",
    )
axes.scatter(*edges.T, s=150, c="black", marker="s", label="edge server")
axes.set(
    xlabel="metres east",
    ylabel="metres north",
    aspect="equal",
    title="Round 0",
)
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %%
# All thirty rounds
# -----------------

figure, (above, below) = plt.subplots(
    2, sharex=True, figsize=(7.5, 4), layout="constrained"
)
above.bar(range(30), [d.objective for d in decisions], color="#1b6ca8")
above.set(ylabel="cost of the round")
below.bar(range(30), [len(d.assignment) for d in decisions], color="#e0a030")
below.set(xlabel="round", ylabel="clients that train")
plt.show()

# %%
# The same at the command line
# ----------------------------
#
# .. code-block:: sh
#
#    stagewise scenario numeric --clients 93 --edges 4 --seed 0 -o s.json
#    stagewise availability s.json --rounds 30 --seed 1 -o online.jsonl
#    stagewise plan s.json -o plan.json
#    stagewise decide s.json plan.json --online online.jsonl -o decisions.jsonl
#    stagewise check s.json decisions.jsonl --online online.jsonl
#
# Next: :ref:`your own system <sphx_glr_gallery_plot_own_system.py>` instead of a drawn one.
