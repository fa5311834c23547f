"""
A selector of your own, with every associator
=============================================

Most ideas say who should train and leave open at which edge. Such an idea is a *selector*: one
method of a few lines. It then works with every associator, with every data set, and in a
deployment.
"""

# %%
# The selector
# ------------
#
# ``select`` gives the numbers of the clients that train, out of those that can. This one asks
# whoever has trained least often. It learns that from what came of each round (``observe``), and
# what it learned is its ``state``, so that a run can be resumed. It goes into a file, since other
# processes will import it, too.

import importlib
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
(folder / "least_heard.py").write_text(
    '''
import numpy as np
import stagewise


class LeastHeard(stagewise.Selector):
    """Those who have trained least often."""

    def __init__(self, scenario, k=45):
        self.k, self.times = k, np.zeros(len(scenario.clients))

    def select(self, round_):
        clients = stagewise.candidates(round_)
        return clients[np.argsort(self.times[clients], kind="stable")][: self.k]

    def observe(self, outcome):
        self.times = self.times + (outcome.decision.edge_of >= 0)

    def state(self):
        return {"times": self.times}

    def restore(self, state):
        self.times = np.array(state["times"])
'''
)
sys.path.insert(0, str(folder))
LeastHeard = importlib.import_module("least_heard").LeastHeard

# %%
# With every associator
# ---------------------
#
# ``Compose`` makes a policy of a selector and an associator. The same ten rounds of one system with
# each of them: what a round costs, how many rounds keep all limits, how many clients were ever asked.

import numpy as np

import stagewise

scenario = stagewise.generate.numeric(clients=93, edges=4, seed=0)
rounds = stagewise.participation.bernoulli(scenario, rounds=10, seed=1)
found = {}
for name in stagewise.associator_names():
    associator = stagewise.make_associator(name, scenario)
    policy = stagewise.Compose(LeastHeard(scenario), associator)
    decisions = stagewise.solve(scenario, rounds, policy)
    found[name] = [
        np.mean([decision.objective for decision in decisions]),
        sum(decision.feasible for decision in decisions),
        len({c for decision in decisions for c in decision.assignment}),
    ]
    cost, feasible, asked = found[name]
    print(
        f"{name:12} cost {cost:5.2f}  feasible {feasible:2}/10  asked {asked}"
    )

# %%
# Only ``pool`` looks at the limits on data and balance. It places those who were selected, and leaves
# out whom no edge needs.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
by_cost = sorted(found, key=lambda name: found[name][0])
colours = ["#1b6ca8" if found[name][1] else "#bbbbbb" for name in by_cost]
axes.barh(by_cost, [found[name][0] for name in by_cost], color=colours)
for place, name in enumerate(by_cost):
    kept = f"{found[name][1]} of 10 rounds keep all limits"
    axes.annotate(
        kept,
        (found[name][0], place),
        (4, 0),
        textcoords="offset points",
        va="center",
    )
axes.set(
    xlabel="mean cost of a round",
    xlim=(0, 1.45 * max(v[0] for v in found.values())),
)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Does it keep the contract?
# --------------------------
#
# Links that are down, rounds without anybody, edges without capacity, a restart in the middle: an empty
# list says that it copes with all of them.

from stagewise.testing import conformance_problems


def least_heard_nearest(scenario, *, seed, seconds):
    nearest = stagewise.make_associator("nearest", scenario)
    return stagewise.Compose(LeastHeard(scenario), nearest)


conformance_problems(least_heard_nearest, seeds=1)

# %%
# Train with it
# -------------

run = stagewise.simulate(
    dataset="digits", policy=least_heard_nearest, rounds=12, seed=0
)
run.rounds[["accuracy", "objective", "clients", "feasible"]].tail(3)

# %%
# Give it a name, and deploy it
# -----------------------------
#
# Declared as an entry point, the selector has a name that every command knows, with its options:
#
# .. code-block:: toml
#
#    [project.entry-points."stagewise.selectors"]
#    least-heard = "least_heard:LeastHeard"
#
# Here a folder with what ``pip install`` would leave stands in for the installed package. Then a cloud,
# two edges and six clients start as processes on Flower and train two rounds under it.

import os
import subprocess

installed = folder / "least_heard-0.1.dist-info"
installed.mkdir()
(installed / "METADATA").write_text(
    "Metadata-Version: 2.1\nName: least-heard\nVersion: 0.1\n"
)
(installed / "entry_points.txt").write_text(
    "[stagewise.selectors]\nleast-heard = least_heard:LeastHeard\n"
)

path = os.pathsep.join(
    filter(None, [str(folder), os.environ.get("PYTHONPATH")])
)
policy = "least-heard,k=4+balanced"
size = "--clients 6 --edges 2 --rounds 2 --local --out live"
told = subprocess.run(
    [
        sys.executable,
        "-m",
        "stagewise",
        "deploy",
        "up",
        "--policy",
        policy,
        *size.split(),
    ],
    cwd=folder,
    env=os.environ | {"PYTHONPATH": path},
    capture_output=True,
    text=True,
    check=True,
)
print(told.stderr.replace(str(folder), "..."))

# %%
# All selectors and associators that are there, and what each of them needs: :doc:`/selection`.
