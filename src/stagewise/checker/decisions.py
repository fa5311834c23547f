"""Decisions compared with P0's equations: Eqs. 4, 5, 7 and the constraints (9a)-(9f)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stagewise.checker.claims import Broken, Claims, as_record, broken_limits
from stagewise.checker.equations import (
    LIMIT_TOLERANCE,
    Figures,
    divergence,
    edges_gone,
    figures,
    who_serves,
)
from stagewise.world.rounds import numbered

if TYPE_CHECKING:
    from stagewise.decisions import Decision, DecisionRecord
    from stagewise.world.rounds import OnlineRounds, Round
    from stagewise.world.scenario import Scenario

_KLD_SLACK = 1e-12  # the terms of a divergence cancel where it is close to 0


def check(
    scenario: "Scenario",
    decisions: "Sequence[Decision | DecisionRecord]",
    rounds: "OnlineRounds",
) -> list[str]:
    """A line for each thing that is not true of `decisions`, with the claimed and the true value.

    Parameters
    ----------
    scenario : Scenario
        The system.
    decisions : sequence of Decision or DecisionRecord
        Decisions, or what a file says of them. That one is infeasible is no falsehood if it says so.
    rounds : iterable of Round
        Or of who is online in each. Each must be decided exactly once.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=2)
    >>> stagewise.check(scenario, stagewise.solve(scenario, rounds, "fedcs"), rounds)
    []
    """
    records: list[DecisionRecord] = [as_record(decision) for decision in decisions]
    lines: list[str] = []
    decided: set[int] = set()
    known = {round_.index: round_ for round_ in numbered(scenario, rounds)}
    for record in records:
        if record.round not in known:
            first, last = min(known, default=0), max(known, default=-1)
            lines.append(
                f"round {record.round}: there are only the {len(known)} rounds {first} to {last}"
            )
            continue
        if record.round in decided:
            lines.append(f"round {record.round}: decided more than once")
        decided.add(record.round)
        lines += _check_decision(scenario, known[record.round], record)
    lines += [f"round {number}: not decided" for number in known if number not in decided]
    return lines


def _check_decision(scenario: "Scenario", round_: "Round", record: "DecisionRecord") -> list[str]:
    claims = Claims(f"round {record.round}")
    serving, impossible = who_serves(scenario, record.assignment, round_)
    for line in impossible:
        claims.untrue(line)
    true = figures(scenario, serving, round_)
    claims.closely("objective", record.objective, true.cost)
    claims.closely("delay_s", record.delay_s, true.delay_s)
    claims.closely("energy_j", record.energy_j, true.energy_j)
    target = scenario.target.tolist()
    klds = [divergence(edge.label_sums, target) for edge in true.edges]
    for claimed, name, number in claims.edges(record.edges, scenario.edges.index):
        edge, kld = true.edges[number], klds[number]
        claims.exactly(f"{name}.clients", claimed.clients, len(edge.members))
        claims.exactly(f"{name}.data", claimed.data, edge.data)
        if claimed.kld is None or kld is None:
            claims.exactly(f"{name}.kld", claimed.kld, kld)
        else:
            claims.closely(f"{name}.kld", claimed.kld, kld, _KLD_SLACK)
    broken = _broken(round_, true, klds)
    feasible = claims.feasibility(record, broken, not impossible, scenario.edges.index)
    claims.duration("decision_ms", record.decision_ms)
    if record.lower_bound is not None:
        _check_bound(claims, record.lower_bound, true.cost, feasible)
    return claims.lines


def _broken(
    round_: "Round", true: Figures, klds: list[float | None]
) -> dict[int, dict[str, Broken]]:
    limits, capacity = round_.scenario.limits, round_.scenario.edges.capacity.tolist()
    gone, broken = edges_gone(round_), {}
    for number, (edge, known) in enumerate(zip(true.edges, klds, strict=True)):
        if number in gone and not edge.members:  # it is not part of the round
            continue
        data, kld = edge.data, known or 0.0
        broken[number] = broken_limits(
            len(edge.members),
            capacity[number],
            ("data", data < limits.data_min, data, limits.data_min),  # (9b)
            ("kld", kld > limits.kld_max + LIMIT_TOLERANCE, kld, limits.kld_max),  # (9a)
        )
    return broken


def _check_bound(claims: Claims, bound: float, objective: float, feasible: bool) -> None:
    """A bound holds for feasible answers: an infeasible one may well cost less."""
    if not math.isfinite(bound):
        claims.untrue(f"lower_bound = {bound!r}: must be a finite number")
    elif feasible and bound > objective * (1 + 1e-9):
        claims.untrue(f"lower_bound = {bound!r}: must be at most the objective, {objective!r}")
