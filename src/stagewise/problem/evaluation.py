"""An assignment evaluated from scratch: every figure of a plan or a decision comes from here."""

from dataclasses import dataclass

import numpy as np

from stagewise.world.costs import UNASSIGNED, edge_costs
from stagewise.world.divergence import exceeds_kld_max, kl_divergence
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, IntArray, Scenario


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
    short: BoolArray
    """Edges of the round that break (9b): too little data."""
    unbalanced: BoolArray
    """Edges of the round that break (9a): too large a divergence, or no data at all."""
    crowded: BoolArray
    """Edges that break (9e): more clients than their capacity."""

    @property
    def failing(self) -> BoolArray:
        """The edges that break (9a) or (9b)."""
        return np.asarray(self.short | self.unbalanced)


def evaluate(round_: Round, edge_of: IntArray) -> Evaluation:
    """Eqs. 4, 5, 7 and the objective of P0 for `edge_of`, an edge for each client or -1."""
    scenario = round_.scenario
    edges, limits, weights = len(scenario.edges), scenario.limits, scenario.weights
    spent = edge_costs(scenario, round_.costs, edge_of)
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    edge = edge_of[serving]
    label_sums = np.zeros((edges, scenario.labels), dtype=np.int64)
    np.add.at(label_sums, edge, scenario.clients.label_counts[serving])
    clients, data = np.bincount(edge, minlength=edges), label_sums.sum(axis=1)
    kld = kl_divergence(label_sums, scenario.target)
    needed = round_.edges_up | (clients > 0)
    return Evaluation(
        delay_s=spent.round_delay_s,
        energy_j=spent.round_energy_j,
        cost=weights.delay * spent.round_delay_s + weights.energy * spent.round_energy_j,
        clients=clients,
        data=data,
        kld=kld,
        edge_delay_s=spent.delay_s,
        short=needed & (data < limits.data_min),
        unbalanced=needed & ((clients == 0) | exceeds_kld_max(kld, limits.kld_max)),
        crowded=clients > scenario.edges.capacity,
    )


def continuity(scenario: Scenario, edge_of: IntArray) -> float:
    """C of Eq. 10: the geometric mean of the long-term clients' online probabilities; 0 for none."""
    probability = scenario.clients.online_probability[edge_of != UNASSIGNED]
    if len(probability) == 0 or (probability == 0).any():
        return 0.0
    return float(np.exp(np.log(probability).mean()))


def round_violations(scenario: Scenario, evaluation: Evaluation) -> list[str]:
    """What an assignment breaks of (9a), (9b) and (9e), one sentence each, in the order of edges."""
    limits = scenario.limits
    broken = []
    for edge in np.flatnonzero(evaluation.failing | evaluation.crowded):
        name = scenario.edges.ids[edge]
        if evaluation.clients[edge] == 0:
            broken.append(f"{name}: no clients")
            continue
        if evaluation.crowded[edge]:
            broken.append(
                f"{name}: clients {evaluation.clients[edge]} > capacity {scenario.edges.capacity[edge]}"
            )
        if evaluation.short[edge]:
            broken.append(f"{name}: data {evaluation.data[edge]} < data_min {limits.data_min:g}")
        if evaluation.unbalanced[edge]:
            broken.append(f"{name}: kld {evaluation.kld[edge]:.6g} > kld_max {limits.kld_max:g}")
    return broken
