"""P0, P1 and P2: each stated once, and evaluated from scratch.

The search works on the compiled form of the same statement (`stagewise.search.instance`), and the
tests hold the two against each other.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stagewise.problem.evaluation import Evaluation, continuity, evaluate, round_violations
from stagewise.problem.risk import RiskMeasure
from stagewise.problem.risk_kernels import KLD_TOLERANCE
from stagewise.world.costs import UNASSIGNED, LinkCosts
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, IntArray, Scenario

Mode = Literal["strict", "flexible"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be decided: over which clients, at what costs, under which constraints."""

    scenario: Scenario
    costs: LinkCosts
    allowed: BoolArray
    """The clients that may be selected; shape (clients,)."""
    risk: RiskMeasure | None = None
    """In P1 the measure that takes the place of the limits themselves."""
    pinned: IntArray | None = None
    """In P2 the edge at which a client must serve (12d), or -1; shape (clients,)."""

    def evaluate(self, assignment: IntArray) -> Evaluation:
        """The figures of `assignment`, an edge for each client or -1."""
        return evaluate(self.scenario, self.costs, assignment)

    def objective(self, assignment: IntArray) -> float:
        """The objective of P0 and P2, and of P1 where there is a risk measure."""
        cost = self.evaluate(assignment).cost
        if self.risk is None:
            return cost
        return cost - self.scenario.weights.continuity * continuity(self.scenario, assignment)

    def violations(self, assignment: IntArray) -> list[str]:
        """Every constraint that `assignment` breaks, one sentence each."""
        scenario = self.scenario
        broken = [
            f"{scenario.clients.ids[client]}: serves but may not"
            for client in np.flatnonzero((assignment != UNASSIGNED) & ~self.allowed)
        ]
        if self.pinned is not None:
            broken += [
                f"{scenario.clients.ids[client]}: must serve {scenario.edges.ids[self.pinned[client]]}"
                for client in np.flatnonzero(
                    (self.pinned != UNASSIGNED) & (assignment != self.pinned)
                )
            ]
        evaluation = self.evaluate(assignment)
        if self.risk is None:
            return broken + round_violations(scenario, evaluation)
        return broken + plan_violations(
            scenario, evaluation.clients, *edge_risks(self.risk, assignment)
        )


def p0(round_: Round) -> Problem:
    """P0: the cheapest assignment of a round's online clients under (9a)-(9f)."""
    return Problem(round_.scenario, round_.costs, allowed=round_.online)


def p1(scenario: Scenario, risk: RiskMeasure) -> Problem:
    """P1: the long-term clients, with everybody online, under (11a)-(11e)."""
    everybody = np.ones(len(scenario.clients), dtype=np.bool_)
    return Problem(scenario, scenario.costs, allowed=everybody, risk=risk)


def p2(round_: Round, long_term: IntArray, mode: Mode = "strict") -> Problem:
    """P2: P0 where every online long-term client must serve its edge (12d), unless `flexible`."""
    problem = p0(round_)
    if mode == "flexible":
        return problem
    return replace(problem, pinned=np.where(round_.online, long_term, UNASSIGNED))


def edge_risks(risk: RiskMeasure, assignment: IntArray) -> tuple[FloatArray, FloatArray]:
    """(KLD risk, data risk) of every edge under a long-term assignment."""
    edges = len(risk.scenario.edges)
    serving = np.flatnonzero(assignment != UNASSIGNED)
    order = np.argsort(assignment[serving], kind="stable")
    members = np.split(
        serving[order], np.cumsum(np.bincount(assignment[serving], minlength=edges))[:-1]
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
