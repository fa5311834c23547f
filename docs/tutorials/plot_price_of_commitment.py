"""
The price of commitment
=======================

In the paper a long-term client that is online always trains: clients may rely on it (constraint
12d, ``strict``). The redundancy that a plan buys for bad rounds is then paid in good ones.
``flexible`` may leave a surplus client out. What does the promise cost, and what does it save?
"""

# %%
# Two modes on one plan
# ---------------------

import stagewise

scenario = stagewise.generate.numeric(clients=60, edges=3, seed=0)
rounds = stagewise.participation.bernoulli(scenario, rounds=20, seed=1)
plan = stagewise.plan(scenario)
modes = {
    mode: stagewise.decide(plan, rounds, mode=mode)
    for mode in ("flexible", "strict")
}


def handovers(decisions):
    """How often a client serves another edge than the last one it served."""
    last, changes = {}, 0
    for decision in decisions:
        changes += sum(
            last.get(client, edge) != edge
            for client, edge in decision.assignment.items()
        )
        last |= decision.assignment
    return changes


for mode, decisions in modes.items():
    cost = sum(d.objective for d in decisions) / len(decisions)
    clients = sum(len(d.assignment) for d in decisions) / len(decisions)
    print(
        f"{mode:8}: cost {cost:.3f}, {clients:.1f} clients a round, "
        f"{handovers(decisions)} handovers in 20 rounds"
    )

# %%
# It depends on the risk that a plan may take
# -------------------------------------------
#
# ``kld_risk`` and ``data_risk`` say how likely an edge of the plan may be to miss its limits when
# some of its clients are away. A careful plan has more long-term clients, and ``strict`` pays for
# all of them.

from dataclasses import replace

import matplotlib.pyplot as plt

risks = [0.2, 0.35, 0.5, 0.65, 0.8]
costs = {"flexible": [], "strict": []}
planned = []
for risk in risks:
    limits = replace(scenario.limits, kld_risk=risk, data_risk=risk)
    system = replace(scenario, limits=limits, file_sha256=None)
    careful = stagewise.plan(system, method="local-search", seconds=0.5)
    planned.append(len(careful.assignment))
    drawn = stagewise.participation.bernoulli(system, rounds=20, seed=1)
    for mode, values in costs.items():
        decided = stagewise.decide(careful, drawn, mode=mode)
        values.append(sum(d.objective for d in decided) / len(decided))

figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 3.3), layout="constrained"
)
for (mode, values), colour in zip(
    costs.items(), ["#1b6ca8", "#b0402a"], strict=True
):
    left.plot(risks, values, "o-", color=colour, label=mode)
left.set(
    xlabel="risk the plan may take",
    ylabel="mean cost of a round",
    ylim=(0, None),
)
left.legend(frameon=False)
right.plot(risks, planned, "o-", color="#555555")
right.set(
    xlabel="risk the plan may take", ylabel="long-term clients", ylim=(0, None)
)
plt.show()

# %%
# So: ``flexible`` costs about the same whatever the plan. With ``strict``, choose the risk with
# care, since it is a price and not only a safety margin. :doc:`/quality` has the same with
# certified optima and many scenarios.
