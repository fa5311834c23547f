"""Bounds recomputed from their prices alone.

A bound says that clients, seconds and cuts have prices; it follows that no assignment within the limits
costs less than the cheapest cluster of every edge at these prices, less all prices together.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stagewise.checker.cheapest_cluster import PricedEdge
from stagewise.checker.claims import as_record
from stagewise.checker.equations import edges_gone
from stagewise.errors import shown
from stagewise.world.rounds import numbered

if TYPE_CHECKING:
    from stagewise.bounds import Bound, BoundRecord
    from stagewise.decisions import Decision, DecisionRecord
    from stagewise.world.rounds import OnlineRounds, Round
    from stagewise.world.scenario import Scenario

TOLERANCE = 2e-7
"""Relative: how far a claimed bound may be above the recomputed one, for rounding."""


def check_bounds(
    scenario: "Scenario",
    bounds: "Sequence[Bound | BoundRecord]",
    rounds: "OnlineRounds",
    decisions: "Sequence[Decision | DecisionRecord]" = (),
) -> list[str]:
    """A line for each bound that its prices do not prove, or that a feasible decision is below.

    Parameters
    ----------
    scenario : Scenario
        The system.
    bounds : sequence of Bound or BoundRecord
        Bounds, or what a file says of them.
    rounds : iterable of Round
        Or of who is online in each.
    decisions : sequence of Decision or DecisionRecord
        Decisions of the same rounds, if there are any.

    Examples
    --------
    >>> import stagewise
    >>> scenario = stagewise.generate.numeric(clients=30, edges=2, seed=0)
    >>> rounds = stagewise.participation.bernoulli(scenario, rounds=1)
    >>> [bound] = stagewise.bound(scenario, rounds)
    >>> record = bound.record()
    >>> record.lower_bound *= 1.000001  # one part in a million too high
    >>> [line.split(":")[0] for line in stagewise.check_bounds(scenario, [record], rounds)]
    ['round 0']
    """
    known = {round_.index: round_ for round_ in numbered(scenario, rounds)}
    costs = {record.round: record for record in map(as_record, decisions)}
    lines: list[str] = []
    for given in map(as_record, bounds):
        where = f"round {given.round}"
        if given.round not in known:
            lines.append(f"{where}: there is no such round")
            continue
        lines += [f"{where}: {line}" for line in _check(known[given.round], given)]
        decision = costs.get(given.round)
        if decision is None or not decision.feasible:
            continue
        if given.lower_bound > decision.objective * (1 + TOLERANCE):
            lines.append(
                f"{where}: lower_bound = {given.lower_bound!r}: must be at most what a feasible "
                f"decision costs, {decision.objective!r}"
            )
    return lines


def _check(round_: "Round", record: "BoundRecord") -> list[str]:
    """What is wrong with one bound."""
    wrong = list(_malformed(round_.scenario, record))
    if wrong:
        return wrong
    value = proven_bound(round_, record)
    if record.lower_bound <= value + TOLERANCE * abs(value):
        return []
    return [f"lower_bound = {record.lower_bound!r}: its prices prove {value!r} and no more"]


def _malformed(scenario: "Scenario", record: "BoundRecord") -> Iterable[str]:
    clients, edges = scenario.clients.index, scenario.edges.index
    if math.isnan(record.lower_bound):
        yield f"lower_bound = {record.lower_bound!r}: must be a number"
    for what, prices, ids in (
        ("client_prices", record.client_prices, clients),
        ("delay_prices", record.delay_prices, edges),
    ):
        for name, price in prices.items():
            if name not in ids:
                yield f"{what}[{shown(name)}]: the scenario has no such {what.split('_')[0]}"
            elif not 0 <= price < math.inf:
                yield f"{what}[{shown(name)}] = {price!r}: must be a finite number of at least 0"
    total = sum(record.delay_prices.values())
    if not total <= scenario.weights.delay * (1 + 1e-12):
        yield (
            f"delay_prices: sum to {total!r}: must sum to at most the weight of delay, "
            f"{scenario.weights.delay!r}"
        )
    for number, cut in enumerate(record.cuts):
        where = f"cuts[{number}]"
        items = {*(("client", name) for name in cut.clients), *(("edge", e) for e in cut.edges)}
        if len(items) != 3 or len(cut.clients) + len(cut.edges) != 3:
            yield f"{where}: must be three different clients or edges"
        for kind, name in sorted(items):
            if name not in (clients if kind == "client" else edges):
                yield f"{where}: the scenario has no {kind} {shown(name)}"
        if not 0 <= cut.price < math.inf:
            yield f"{where}.price = {cut.price!r}: must be a finite number of at least 0"


def proven_bound(round_: "Round", record: "BoundRecord") -> float:
    """What the prices of `record` prove; infinite where an edge has no cluster."""
    scenario, gone = round_.scenario, edges_gone(round_)
    edges = [PricedEdge(round_, record, number) for number in range(len(scenario.edges))]
    links = scenario.links
    for client in range(len(scenario.clients)):
        if round_.online[client]:
            for link in range(int(links.start[client]), int(links.start[client + 1])):
                if round_.up is None or round_.up[link]:
                    edges[int(links.edge[link])].add(client, link)
    paid = sum(record.client_prices.values()) + sum(cut.price for cut in record.cuts)
    in_round = (edge for edge in edges if edge.number not in gone)
    return math.fsum(edge.least_price() for edge in in_round) - paid
