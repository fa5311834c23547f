"""
Reading the gap to the optimum
==============================

How far is a decision from the best one that exists? Two answers: ``exact`` finds the optimum with
a proof, and ``bound`` proves how cheap a round could be at best, at any size, by prices that
anybody can check.
"""

# %%
# Optimum and decision side by side
# ---------------------------------

import stagewise

scenario = stagewise.generate.numeric(clients=50, edges=3, seed=2)
rounds = stagewise.participation.bernoulli(scenario, rounds=6, seed=3)
plan = stagewise.plan(scenario)
pool = stagewise.decide(plan, rounds)
paper = stagewise.solve(scenario, rounds, "stagewise-paper")
exact = stagewise.solve(scenario, rounds, "exact")

for ours, optimum in zip(pool, exact, strict=True):
    print(
        f"round {ours.round.index}: pool {ours.objective:.4f}, exact {optimum.objective:.4f}, "
        f"proven bound {optimum.lower_bound:.4f}, "
        f"pool above exact {ours.objective / optimum.objective - 1:.2%}"
    )

# %%
# ``lower_bound`` says that no assignment within the limits costs less. Where it equals the
# objective of ``exact`` (to six digits), that is the optimum: a proof for this round and not an
# estimate.

import matplotlib.pyplot as plt
import numpy as np

figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
place = np.arange(len(rounds))
for name, decisions, colour in (
    ("stagewise-paper", paper, "#e0a030"),
    ("pool-flexible", pool, "#1b6ca8"),
):
    over = np.mean(
        [
            d.objective / e.objective - 1
            for d, e in zip(decisions, exact, strict=True)
        ]
    )
    axes.plot(
        place,
        [d.objective for d in decisions],
        "o",
        color=colour,
        label=f"{name}, {over:.1%} above in the mean",
    )
axes.plot(
    place, [d.objective for d in exact], "k_", ms=26, label="certified optimum"
)
axes.set(xlabel="round", ylabel="cost of the round")
axes.set_xticks(place)
axes.set_ylim(0, 1.5 * max(d.objective for d in paper))
axes.legend(frameon=False, loc="upper left")
plt.show()

# %%
# A bound by prices
# -----------------
#
# With hundreds of edges no optimum is known. ``bound`` gives each client and each second a price;
# whatever is within the limits costs at least what follows from the prices.

bounds = stagewise.bound(scenario, rounds, plan)
for bound, optimum in list(zip(bounds, exact, strict=True))[:3]:
    print(
        f"round {bound.round.index}: at least {bound.value:.4f}, optimum {optimum.objective:.4f}"
    )

# %%
# Prices need no trust: ``check_bounds`` recomputes from them alone what they prove. A bound that
# is raised by one part in a thousand is refused.

from dataclasses import replace

print("true bounds:", stagewise.check_bounds(scenario, bounds[:1], rounds[:1]))
raised = [replace(bounds[0], value=1.001 * bounds[0].value)]
print("a raised one:", stagewise.check_bounds(scenario, raised, rounds[:1]))

# %%
# How to read a gap
# -----------------
#
# * *decision over optimum* is what the policy loses: the number to compare policies by;
# * *optimum over bound* is what the proof leaves open, and says nothing of the policy;
# * where a round is infeasible there is no gap: look at ``violations``, or let ``decide(...,
#   prove=True)`` find out whether any assignment keeps the limits.
#
# How far ``pool`` is from the best that is known, instance by instance and release by release:
# :doc:`/quality`.
