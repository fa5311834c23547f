"""Decisions held against P0's equations: Eqs. 4, 5, 7 and the constraints (9a)-(9f)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stagewise.check.claims import Broken, Claims
from stagewise.check.equations import (
    LIMIT_TOLERANCE,
    EdgeFigures,
    Figures,
    divergence,
    figures,
    who_serves,
)

if TYPE_CHECKING:
    from stagewise.decisions import DecisionRecord
    from stagewise.world.rounds import Round
    from stagewise.world.scenario import Scenario

_KLD_SLACK = 1e-12  # the terms of a divergence cancel where it is close to 0


def check_decisions(
    scenario: "Scenario", rounds: "Sequence[Round]", records: "Sequence[DecisionRecord]"
) -> list[str]:
    """A line for each thing that is not true of `records`, with the claimed and the true value.

    Every one of `rounds` must be decided exactly once. That a decision is infeasible is no
    falsehood if it says so.
    """
    lines: list[str] = []
    decided: set[int] = set()
    for record in records:
        if not 0 <= record.round < len(rounds):
            lines.append(f"round {record.round}: there are only the rounds 0 to {len(rounds) - 1}")
            continue
        if record.round in decided:
            lines.append(f"round {record.round}: decided more than once")
        decided.add(record.round)
        lines += _check_decision(scenario, rounds[record.round], record)
    lines += [
        f"round {number}: not decided" for number in range(len(rounds)) if number not in decided
    ]
    return lines


def _check_decision(scenario: "Scenario", round_: "Round", record: "DecisionRecord") -> list[str]:
    claims = Claims(f"round {record.round}")
    serving, impossible = who_serves(scenario, record.assignment, round_.online)
    for line in impossible:
        claims.untrue(line)
    true = figures(scenario, serving, round_.cpu_hz, round_.gain)
    claims.closely("objective", record.objective, true.cost)
    claims.closely("delay_s", record.delay_s, true.delay_s)
    claims.closely("energy_j", record.energy_j, true.energy_j)
    target = scenario.target.tolist()
    klds = [divergence(edge.label_sums, target) for edge in true.edges]
    _check_edges(scenario, claims, record, true.edges, klds)
    broken = _broken(scenario, true, klds)
    feasible = not broken and not impossible
    claims.exactly("feasible", record.feasible, feasible)
    claims.violations(record.violations, broken, feasible, scenario.edges.index)
    claims.duration("decision_ms", record.decision_ms)
    if record.lower_bound is not None:
        _check_bound(claims, record.lower_bound, true.cost, feasible)
    return claims.lines


def _check_edges(
    scenario: "Scenario",
    claims: Claims,
    record: "DecisionRecord",
    edges: list[EdgeFigures],
    klds: list[float | None],
) -> None:
    if [edge.id for edge in record.edges] != list(scenario.edges.ids):
        claims.untrue("edges: must be the scenario's edges in their order")
    for claimed in record.edges:
        number = scenario.edges.index.get(claimed.id)
        if number is None:
            continue
        name, true, kld = f"edges[{claimed.id}]", edges[number], klds[number]
        claims.exactly(f"{name}.clients", claimed.clients, len(true.members))
        claims.exactly(f"{name}.data", claimed.data, true.data)
        if claimed.kld is None or kld is None:
            claims.exactly(f"{name}.kld", claimed.kld, kld)
        else:
            claims.closely(f"{name}.kld", claimed.kld, kld, _KLD_SLACK)


def _broken(
    scenario: "Scenario", true: Figures, klds: list[float | None]
) -> dict[int, dict[str, Broken]]:
    limits, broken = scenario.limits, {}
    for number, edge in enumerate(true.edges):
        clients, data, kld = len(edge.members), edge.data, klds[number]
        capacity = int(scenario.edges.capacity[number])
        found: dict[str, Broken] = {}
        if clients == 0:
            found["no clients"] = Broken(0, 1)
        else:
            if clients > capacity:  # (9e)
                found["capacity"] = Broken(clients, capacity)
            if data < limits.data_min:  # (9b)
                found["data"] = Broken(data, limits.data_min)
            if kld is not None and kld > limits.kld_max + LIMIT_TOLERANCE:  # (9a)
                found["kld"] = Broken(kld, limits.kld_max)
        if found:
            broken[number] = found
    return broken


def _check_bound(claims: Claims, bound: float, objective: float, feasible: bool) -> None:
    """A bound holds for feasible answers: an infeasible one may well cost less."""
    if not math.isfinite(bound):
        claims.untrue(f"lower_bound = {bound!r}: must be a finite number")
    elif feasible and bound > objective * (1 + 1e-9):
        claims.untrue(f"lower_bound = {bound!r}: must be at most the objective, {objective!r}")
