"""
Which policy should I use?
==========================

Nearly always ``pool``, the default. This page compares it with the others on one small system,
and says when another one is the right choice.
"""

# %%
# Everybody on the same rounds
# ----------------------------
#
# ``compare`` lets policies decide the same rounds and recomputes what each of them costs.

import stagewise

scenario = stagewise.generate.numeric(clients=40, edges=3, seed=4)
rounds = stagewise.participation.bernoulli(scenario, rounds=8, seed=1)
methods = """exact pool-flexible pool-strict local-search stagewise-paper
    kld-minimization fedcs oort+nearest random-k+least-delay""".split()
compared = stagewise.compare(scenario, rounds, methods=methods)
found = {summary.method: summary for summary in compared}

best = found["exact"].objective
print(f"{'':22} cost/optimum  feasible  clients  median ms")
for name, each in found.items():
    share = each.feasible_rounds / each.rounds
    print(
        f"{name:22} {each.objective / best:12.3f} {share:9.0%} {each.clients:8.1f} "
        f"{each.decision_ms_median:10.1f}"
    )

# %%
# ``exact`` is the certified optimum. Methods that keep no limit on balance (``fedcs``, selectors
# with a plain associator) are drawn hollow: what they cost is not the price of a round within the
# limits.

import matplotlib.pyplot as plt

ordered = sorted(found.values(), key=lambda each: -each.objective)
figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
for place, each in enumerate(ordered):
    keeps = each.feasible_rounds == each.rounds
    colour = "#1b6ca8" if keeps else "#b0402a"
    axes.barh(
        place,
        each.objective / best,
        color=colour if keeps else "none",
        edgecolor=colour,
    )
    text = f" {each.objective / best:.2f}, {each.decision_ms_median:.1f} ms"
    axes.text(each.objective / best, place, text, va="center")
axes.axvline(1, color="black", linestyle=":", linewidth=1)
axes.set_yticks(range(len(ordered)), [each.method for each in ordered])
axes.set(
    xlabel="cost over the optimum, median time of a decision",
    xlim=(0, 1.25 * ordered[0].objective / best),
)
axes.set_title("Filled: within every limit in every round. Hollow: not.")
plt.show()

# %%
# Which one
# ---------
#
# .. list-table::
#    :header-rows: 1
#
#    * - you
#      - use
#    * - want cheap rounds that keep the limits, in milliseconds
#      - ``pool`` (short for ``pool-flexible``)
#    * - must let every planned client train when it is there, as in the paper
#      - ``pool-strict``, and read :ref:`what that costs <sphx_glr_gallery_plot_price_of_commitment.py>`
#    * - want fewer rounds to a target
#      - ``pool-to-target``: rounds cost the same, and fewer are needed
#    * - want a proof, and have a second a round
#      - ``exact``, or ``decide --prove`` for rounds that stay infeasible
#    * - have no plan, or a system that changes completely from round to round
#      - ``local-search``
#    * - compare with the paper
#      - ``stagewise-paper`` and its six benchmarks
#    * - have clients whose losses should decide
#      - ``oort,k=30+pool``, ``power-of-choice,k=30+pool`` and others: :doc:`/selection`. ``k`` must
#        leave ``pool`` a choice: with the default, 12 here, no round keeps the limits, with 30 all do
#    * - know better
#      - :ref:`a policy of your own <sphx_glr_gallery_plot_own_policy.py>`
#
# One small system proves nothing; :doc:`/comparison` has twenty scenarios with intervals,
# :doc:`/quality` the score card by release.
