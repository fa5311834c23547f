"""An assignment evaluated from scratch: every figure of a plan or a decision comes from here."""

from dataclasses import dataclass

import numpy as np

from stagewise.problem.risk_kernels import KLD_TOLERANCE
from stagewise.world.costs import UNASSIGNED, LinkCosts, edge_costs
from stagewise.world.divergence import kl_divergence
from stagewise.world.scenario import FloatArray, IntArray, Scenario


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What an assignment costs and gives to each edge. Arrays have one entry for each edge."""

    delay_s: float
    energy_j: float
    cost: float
    """lambda_t T + lambda_e E."""
    clients: IntArray
    data: IntArray
    kld: FloatArray
    """Infinite for an edge without clients."""
    edge_delay_s: FloatArray


def evaluate(scenario: Scenario, costs: LinkCosts, assignment: IntArray) -> Evaluation:
    """Eqs. 4, 5, 7 and the objective of P0 for `assignment`, an edge for each client or -1."""
    edges = len(scenario.edges)
    spent = edge_costs(scenario, costs, assignment)
    serving = np.flatnonzero(assignment != UNASSIGNED)
    edge = assignment[serving]
    label_sums = np.zeros((edges, scenario.labels), dtype=np.int64)
    np.add.at(label_sums, edge, scenario.clients.label_counts[serving])
    weights = scenario.weights
    return Evaluation(
        delay_s=spent.round_delay_s,
        energy_j=spent.round_energy_j,
        cost=weights.delay * spent.round_delay_s + weights.energy * spent.round_energy_j,
        clients=np.bincount(edge, minlength=edges),
        data=label_sums.sum(axis=1),
        kld=kl_divergence(label_sums, scenario.target),
        edge_delay_s=spent.delay_s,
    )


def continuity(scenario: Scenario, assignment: IntArray) -> float:
    """C of Eq. 10: the geometric mean of the long-term clients' online probabilities; 0 for none."""
    probability = scenario.clients.online_probability[assignment != UNASSIGNED]
    if len(probability) == 0 or (probability == 0).any():
        return 0.0
    return float(np.exp(np.log(probability).mean()))


def round_violations(scenario: Scenario, evaluation: Evaluation) -> list[str]:
    """What an assignment breaks of (9a), (9b) and (9e), one sentence each, in the order of edges."""
    limits = scenario.limits
    broken = []
    # Facts in arrays first: with thousands of edges most have nothing to report.
    short = evaluation.data < limits.data_min
    unbalanced = evaluation.kld > limits.kld_max + KLD_TOLERANCE
    crowded = evaluation.clients > scenario.edges.capacity
    for edge in np.flatnonzero(short | unbalanced | crowded | (evaluation.clients == 0)):
        name = scenario.edges.ids[edge]
        if evaluation.clients[edge] == 0:
            broken.append(f"{name}: no clients")
            continue
        if crowded[edge]:
            broken.append(
                f"{name}: clients {evaluation.clients[edge]} > capacity {scenario.edges.capacity[edge]}"
            )
        if short[edge]:
            broken.append(f"{name}: data {evaluation.data[edge]} < data_min {limits.data_min:g}")
        if unbalanced[edge]:
            broken.append(f"{name}: kld {evaluation.kld[edge]:.6g} > kld_max {limits.kld_max:g}")
    return broken
