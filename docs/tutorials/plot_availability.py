"""
Who will be online: traces, forecasts, what if
==============================================

Rounds can be drawn, replayed from a trace of real devices, or given by hand. A forecast learns
from the rounds that have passed. And because a round is a value, any "what if" is one more round.
"""

# %%
# Three kinds of coming and going
# -------------------------------
#
# *Bernoulli*: every round is drawn by itself. *Markov*: whoever is online tends to stay. *Trace*:
# devices change at the times that a file says. Here the trace is made up: half of the phones charge
# at night, the others at noon.

import json
import tempfile
from pathlib import Path

import numpy as np

import stagewise

scenario = stagewise.generate.numeric(clients=40, edges=2, seed=0)
hour, day = 3600, 24 * 3600
devices = {}
for phone in range(20):
    begin = (22 if phone % 2 else 11) * hour + 300 * phone
    changes = [[0, "UN_AVL"]]
    for night in range(4):
        changes += [
            [night * day + begin, "AVL_TRAIN"],
            [night * day + begin + 8 * hour, "UN_AVL"],
        ]
    devices[f"phone-{phone}"] = {"states_2": changes}
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "trace.json"
    file.write_text(json.dumps({"devices": devices}))
    trace = stagewise.load_trace(file)

draw = stagewise.participation
worlds = {
    "Bernoulli": draw.bernoulli(scenario, rounds=96, seed=1),
    "Markov, sessions of 8 rounds": draw.markov(
        scenario, rounds=96, seed=1, mean_session=8
    ),
    "trace, a round every 45 minutes": draw.trace(
        scenario, trace, rounds=96, round_seconds=2700
    ),
}

# %%

import matplotlib.pyplot as plt

figure, panels = plt.subplots(
    3, sharex=True, figsize=(7.5, 5.4), layout="constrained"
)
for axes, (name, rounds) in zip(panels, worlds.items(), strict=True):
    axes.imshow(
        np.array([r.online for r in rounds]).T,
        aspect="auto",
        cmap="Blues",
        interpolation="nearest",
    )
    axes.set(title=name, ylabel="client")
panels[-1].set_xlabel("round (blue: online)")
plt.show()

# %%
# Forecasts
# ---------
#
# ``rolling`` is Eq. 6 of the paper, one number for all rounds to come. ``markov`` looks at who is
# online now, ``time-of-day`` at the clock, ``mixture`` weighs all three by how right they were.
# The Brier score is the mean squared error of the probabilities; lower is better.

names = ["rolling", "markov", "time-of-day", "mixture"]
scores = {}
for world, rounds in worlds.items():
    prior = scenario.clients.online_probability
    scores[world] = []
    for name in names:
        forecast = stagewise.make_forecast(name, prior, round_seconds=2700)
        errors = []
        for round_ in rounds:
            errors.append(
                np.mean((forecast.probabilities() - round_.online) ** 2)
            )
            forecast.observe(round_.online)
        scores[world].append(np.mean(errors[32:]))  # after a day

figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
for offset, (world, values) in enumerate(scores.items()):
    axes.bar(
        np.arange(4) + 0.27 * offset,
        values,
        0.25,
        label=world,
        color=["#b5b5b5", "#1b6ca8", "#e0a030"][offset],
    )
axes.set_xticks(np.arange(4) + 0.27, names)
axes.set(ylabel="Brier score, one round ahead")
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# With real phones ``markov`` is best by far, and ``time-of-day`` is no better than Eq. 6:
# :doc:`/availability` has that measurement, and says that better forecasts did not make cheaper
# rounds.
#
# Plan by a forecast
# ------------------

rounds = worlds["Markov, sessions of 8 rounds"]
forecast = stagewise.make_forecast(
    "markov", scenario.clients.online_probability
)
for round_ in rounds[:48]:
    forecast.observe(round_.online)
expected = forecast.mean_probability(horizon=10)
plan = stagewise.plan(
    scenario.as_of(online_probability=expected),
    method="local-search",
    seconds=0.5,
)
print(plan)

# %%
# In a run, ``simulate --replan-every 10 --forecast markov`` does this beside the training.
#
# What if?
# --------
#
# What if one edge is out? What if everybody comes? What if the links of an edge become twice as
# slow?

from dataclasses import replace

policy_plan = stagewise.plan(scenario)
usual = rounds[50]
links, costs = scenario.links, usual.costs
cases = {
    "as it is": usual,
    f"{scenario.edges.ids[0]} is out": replace(usual, up=links.edge != 0),
    "everybody online": replace(usual, online=np.ones(40, dtype=bool)),
    f"{scenario.edges.ids[1]} twice as slow": replace(
        usual,
        delay_s=np.where(links.edge == 1, 2.0, 1.0) * costs.delay_s,
        energy_j=costs.energy_j,
    ),
}
for name, round_ in cases.items():
    [decision] = stagewise.decide(policy_plan, [round_])
    print(
        f"{name:20} {len(decision.assignment):3} train, cost {decision.objective:.3f}, "
        f"feasible: {decision.feasible}"
    )

# %%
# An edge that is out is no part of the round: it needs no data and costs nothing. ``stagewise
# serve`` has the same on a page, with the certified optimum beside it.
