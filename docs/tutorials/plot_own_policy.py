"""
A policy of your own that learns
================================

A policy is a class with a ``decide`` method. One that learns has ``observe`` too: after every
round it is told what came of its decision. Here is one that asks the clients first whose last
training lowered their loss the most.
"""

# %%
# The policy
# ----------
#
# ``round_`` is the whole truth about a round. The answer is the edge of each client, or -1.

import numpy as np

import stagewise


class Eager(stagewise.Policy):
    """Edges get those who learned most when they last trained, up to `size`."""

    def __init__(self, clients, size):
        self.size = size
        # Whoever has never trained comes first.
        self.gain = np.full(clients, np.inf)

    def decide(self, round_):
        links = round_.scenario.links
        room = np.minimum(round_.scenario.edges.capacity, self.size)
        edge_of = np.full(len(round_.online), -1)
        usable = np.flatnonzero(round_.usable)
        by_speed = usable[np.argsort(round_.costs.delay_s[usable])]
        gain = self.gain[links.client[by_speed]]
        for link in by_speed[np.argsort(-gain, kind="stable")]:
            client, edge = links.client[link], links.edge[link]
            if edge_of[client] < 0 and room[edge] > 0:
                edge_of[client] = edge
                room[edge] -= 1
        return stagewise.Answer(edge_of)

    def observe(self, outcome):
        told = outcome.clients
        gain = told.loss_before - told.loss_after
        self.gain[told.client] = np.where(
            np.isnan(gain), self.gain[told.client], gain
        )

    def state(self):
        return {"gain": self.gain.copy()}

    def restore(self, state):
        self.gain = np.array(state["gain"])


def eager(scenario, *, seed, seconds):
    return Eager(len(scenario.clients), size=6)


# %%
# Does it keep the contract?
# --------------------------
#
# The conformance kit tries it on rounds of many kinds: links down, nobody online, edges without
# capacity, a restart in the middle. An empty list is good news.

from stagewise.testing import conformance_problems

conformance_problems(eager, seeds=1)

# %%
# What a mistake looks like: without ``state`` and ``restore`` a resumed run would go another way.


class Forgetful(Eager):
    def state(self):
        return {}

    def restore(self, state):
        pass


def forgetful(scenario, *, seed, seconds):
    return Forgetful(len(scenario.clients), size=6)


print(*conformance_problems(forgetful, seeds=1), sep="\n")

# %%
# Train with it
# -------------
#
# Everything that takes the name of a policy takes a function that makes one: ``simulate``,
# ``solve``, ``compare``, the Flower strategy.

runs = {
    "eager": stagewise.simulate(
        dataset="digits", policy=eager, rounds=12, seed=0
    ),
    "pool": stagewise.simulate(
        dataset="digits", policy="pool", rounds=12, seed=0
    ),
    "random-k": stagewise.simulate(
        dataset="digits", policy="random-k+least-delay", rounds=12, seed=0
    ),
}
for name, run in runs.items():
    print(
        f"{name:9} accuracy {run.accuracy:.3f}, "
        f"mean cost of a round {run.rounds['objective'].mean():.2f}, "
        f"feasible rounds {run.rounds['feasible'].mean():.0%}"
    )

# %%

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
for (name, run), colour in zip(
    runs.items(), ["#e0a030", "#1b6ca8", "#999999"], strict=True
):
    axes.plot(
        run.rounds["objective"].cumsum(),
        run.rounds["accuracy"],
        "o-",
        ms=3,
        color=colour,
        label=name,
    )
axes.set(
    xlabel="what the rounds have cost so far",
    ylabel="test accuracy",
    ylim=(0, 1),
)
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# ``eager`` looks at no limit, so most of its rounds are infeasible, and the table says so. A
# wrapper can repair part of that for any policy, yours included: ``simulate(policy=eager,
# remedy="reweight")``.
#
# Give it a name
# --------------
#
# Declared as an entry point of your package, every command knows it:
#
# .. code-block:: toml
#
#    [project.entry-points."stagewise.policies"]
#    eager = "my_package.eager:eager"
#
# All words that a policy may have: :doc:`/policies`. Half a policy, who trains *or* where:
# :ref:`a selector of your own <sphx_glr_gallery_plot_own_selector.py>`.
