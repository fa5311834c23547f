"""How often the long-term clients alone break an edge's limits, counted in drawn rounds."""

from typing import Any

import numpy as np

from stagewise.randomness import generator
from stagewise.world.checks import whole
from stagewise.world.divergence import exceeds_kld_max, kl_divergence
from stagewise.world.scenario import FloatArray, IntArray, Scenario
from stagewise_experiments.measures.planning import make_plan
from stagewise_experiments.measures.scenarios import make_scenario
from stagewise_experiments.setting import Setting

LARGEST_DRAWS = 10_000_000
_DRAWS_AT_ONCE = 10_000


def measure_risk(setting: Setting) -> dict[str, Any]:
    """Shares of (edge, round) pairs that break each limit, over all edges and at the worst one."""
    scenario = make_scenario(setting)
    plan = make_plan(setting, scenario)
    kld, data = violation_shares(scenario, plan.edge_of, setting.draws, setting.seed)
    return {
        "kld_violation": float(kld.mean()),
        "data_violation": float(data.mean()),
        "kld_violation_worst": float(kld.max()),
        "data_violation_worst": float(data.max()),
        "feasible": plan.feasible,
        "plan_ms": plan.plan_ms,
        "clients": len(plan.assignment),
    }


def violation_shares(
    scenario: Scenario, edge_of: IntArray, draws: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The share of `draws` rounds in which an edge breaks `kld_max`, and `data_min`; (edges,) each.

    Every client is online with its own probability, and at each edge those train that `edge_of` sends
    there: nobody stands in for the absent. An edge where nobody is online breaks both limits, as in
    Plan A's own measures of risk.
    """
    whole("draws", draws, 1, LARGEST_DRAWS)
    limits, edges = scenario.limits, len(scenario.edges)
    unbalanced, short = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    for block, start in enumerate(range(0, draws, _DRAWS_AT_ONCE)):
        count = min(_DRAWS_AT_ONCE, draws - start)
        draw = generator(seed, "rounds to count violations in", block).random
        online = draw((count, len(scenario.clients))) < scenario.clients.online_probability
        for edge in range(edges):
            members = np.flatnonzero(edge_of == edge)
            # In floating point the product is fast, and exact below 2**53.
            held = scenario.clients.label_counts[members].astype(np.float64)
            sums = (online[:, members] @ held).astype(np.int64)
            data = sums.sum(axis=1)
            divergence = kl_divergence(sums, scenario.target)
            over = exceeds_kld_max(divergence, limits.kld_max)
            unbalanced[edge] += np.count_nonzero(over | (data == 0))
            short[edge] += np.count_nonzero(data < limits.data_min)
    return unbalanced / draws, short / draws
