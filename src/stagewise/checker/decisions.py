"""Decisions compared with P0's equations: Eqs. 4, 5, 7 and the constraints (9a)-(9f)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stagewise.checker.claims import Broken, Claims, as_record
from stagewise.checker.equations import (
    LIMIT_TOLERANCE,
    EdgeFigures,
    Figures,
    divergence,
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
    _check_edges(scenario, claims, record, true.edges, klds)
    broken = _broken(round_, true, klds)
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
    round_: "Round", true: Figures, klds: list[float | None]
) -> dict[int, dict[str, Broken]]:
    scenario = round_.scenario
    limits, broken = scenario.limits, {}
    gone = _gone(round_)
    for number, edge in enumerate(true.edges):
        if number in gone and not edge.members:  # it is not part of the round
            continue
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


def _gone(round_: "Round") -> set[int]:
    """The edges all of whose links are down."""
    if round_.up is None:
        return set()
    edges = round_.scenario.links.edge.tolist()
    up = {edge for edge, there in zip(edges, round_.up.tolist(), strict=True) if there}
    return set(edges) - up


def _check_bound(claims: Claims, bound: float, objective: float, feasible: bool) -> None:
    """A bound holds for feasible answers: an infeasible one may well cost less."""
    if not math.isfinite(bound):
        claims.untrue(f"lower_bound = {bound!r}: must be a finite number")
    elif feasible and bound > objective * (1 + 1e-9):
        claims.untrue(f"lower_bound = {bound!r}: must be at most the objective, {objective!r}")
