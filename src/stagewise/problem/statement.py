"""P0, P1 and P2: each stated once, and evaluated from scratch.

The search works on the compiled form of the same statement (`stagewise.search.instance`), and the
tests compare the two.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from stagewise.problem.evaluation import Evaluation, continuity, evaluate
from stagewise.problem.risk import RiskMeasure
from stagewise.world.costs import UNASSIGNED
from stagewise.world.divergence import KLD_TOLERANCE
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import FloatArray, IntArray, Scenario

Mode = Literal["strict", "flexible"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be decided: in which round, under which constraints."""

    round: Round
    """Who may be selected, over which links, at what costs."""
    risk: RiskMeasure | None = None
    """In P1 the measure that takes the place of the limits themselves."""
    pinned: IntArray | None = None
    """In P2 the edge at which a client must serve (12d), or -1; shape (clients,)."""

    @property
    def scenario(self) -> Scenario:
        return self.round.scenario

    def evaluate(self, edge_of: IntArray) -> Evaluation:
        """The figures of `edge_of`, an edge for each client or -1."""
        return evaluate(self.round, edge_of)

    def objective(self, edge_of: IntArray) -> float:
        """The objective of P0 and P2, and of P1 where there is a risk measure."""
        cost = self.evaluate(edge_of).cost
        if self.risk is None:
            return cost
        return cost - self.scenario.weights.continuity * continuity(self.scenario, edge_of)


def p0(round_: Round) -> Problem:
    """P0: the cheapest assignment of a round's online clients under (9a)-(9f)."""
    return Problem(round_)


def p1(scenario: Scenario, risk: RiskMeasure) -> Problem:
    """P1: the long-term clients, with everybody online, under (11a)-(11e)."""
    return Problem(everybody_online(scenario), risk=risk)


def p2(round_: Round, long_term: IntArray, mode: Mode = "strict") -> Problem:
    """P2: P0 where every online long-term client must serve its edge (12d), unless `flexible`.

    A long-term client whose link to its edge is down is free to serve another one.
    """
    if mode == "flexible":
        return p0(round_)
    return Problem(round_, pinned=still_there(round_, long_term))


def still_there(round_: Round, long_term: IntArray) -> IntArray:
    """The part of a long-term assignment that can serve in a round."""
    planned = np.flatnonzero(long_term != UNASSIGNED)
    link = round_.scenario.links.find(planned, long_term[planned])
    kept = planned[round_.usable[link]]
    edge_of = np.full(len(long_term), UNASSIGNED, dtype=np.int64)
    edge_of[kept] = long_term[kept]
    return edge_of


def edge_risks(risk: RiskMeasure, edge_of: IntArray) -> tuple[FloatArray, FloatArray]:
    """(KLD risk, data risk) of every edge under a long-term assignment."""
    edges = len(risk.scenario.edges)
    serving = np.flatnonzero(edge_of != UNASSIGNED)
    order = np.argsort(edge_of[serving], kind="stable")
    members = np.split(
        serving[order], np.cumsum(np.bincount(edge_of[serving], minlength=edges))[:-1]
    )
    risks = np.array([risk.of(member) for member in members])
    return risks[:, 0], risks[:, 1]


def plan_violations(
    scenario: Scenario, clients: IntArray, kld_risk: FloatArray, data_risk: FloatArray
) -> list[str]:
    """What a plan breaks of (11a), (11b) and (11e), one sentence each, in the order of edges."""
    limits, capacity = scenario.limits, scenario.edges.capacity
    broken = []
    for edge, name in enumerate(scenario.edges.ids):
        if clients[edge] == 0:
            broken.append(f"{name}: no clients")
            continue
        if clients[edge] > capacity[edge]:
            broken.append(f"{name}: clients {clients[edge]} > capacity {capacity[edge]}")
        if kld_risk[edge] > limits.kld_risk + KLD_TOLERANCE:
            broken.append(f"{name}: kld risk {kld_risk[edge]:.6g} > kld_risk {limits.kld_risk:g}")
        if data_risk[edge] > limits.data_risk + KLD_TOLERANCE:
            broken.append(
                f"{name}: data risk {data_risk[edge]:.6g} > data_risk {limits.data_risk:g}"
            )
    return broken
