"""Bounds recomputed from their prices alone.

A bound says that clients, seconds and cuts have prices; it follows that no assignment within the limits
costs less than the cheapest cluster of every edge at these prices, less all prices together. That
cheapest cluster is found here in two steps. A linear program over parts of clients (HiGHS, through
SciPy) knows (9a) by linear cuts, one for any distribution P by Gibbs' inequality, each where the
solution before breaks (9a). Its reduced costs say what a set costs more for each client in it; all sets
that the sum of these does not exclude are tried one by one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from stagewise.checker.claims import as_record
from stagewise.checker.equations import LIMIT_TOLERANCE, Serving, link_cost
from stagewise.errors import StagewiseError, shown
from stagewise.world.rounds import numbered

if TYPE_CHECKING:
    from stagewise.bounds import Bound, BoundRecord
    from stagewise.decisions import Decision, DecisionRecord
    from stagewise.world.rounds import OnlineRounds, Round
    from stagewise.world.scenario import FloatArray, IntArray, Scenario

TOLERANCE = 2e-7
"""Relative: how far a claimed bound may be above the recomputed one, for rounding."""
_MIXED = 1e-2  # of the target in P where a label is missing
_LEAST_SHARE = 1e-6  # of the target, in P: any P gives a cut
_MOST_CUTS = 80
_INFEASIBLE = 2  # a status of SciPy's
_FIRST_REACH = 0.02  # how far above the relaxation the cheapest set is looked for, at first
_MARGIN = 1e-9
_MOST_SETS = 2_000_000_000


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
    scenario = round_.scenario
    edges = [_Edge(round_, record, number) for number in range(len(scenario.edges))]
    links = scenario.links
    for client in range(len(scenario.clients)):
        if round_.online[client]:
            for link in range(int(links.start[client]), int(links.start[client + 1])):
                if round_.up is None or round_.up[link]:
                    edges[int(links.edge[link])].add(client, link)
    paid = sum(record.client_prices.values()) + sum(cut.price for cut in record.cuts)
    return math.fsum(edge.least_price() for edge in edges) - paid


@dataclass
class _Candidate:
    client: int
    price: float
    delay_s: float
    labels: list[int]


class _Edge:
    """One edge: who may serve it, and what its cheapest cluster costs at the prices."""

    def __init__(self, round_: "Round", record: "BoundRecord", number: int) -> None:
        scenario = round_.scenario
        self.round, self.record, self.number = round_, record, number
        self.delay_price = record.delay_prices.get(scenario.edges.ids[number], 0.0)
        self.candidates: list[_Candidate] = []
        self.reachable = False
        """Whether any link is up, of whoever is online or not: else it is not part of the round."""
        mine = scenario.links.edge == number
        self.reachable = bool((mine if round_.up is None else mine & round_.up).any())

    def add(self, client: int, link: int) -> None:
        """Somebody who may serve here."""
        scenario, ids = self.round.scenario, self.round.scenario.clients.ids
        delay_s, energy_j = link_cost(scenario, Serving(client, self.number, link), self.round)
        price = scenario.weights.energy * scenario.edge_rounds * energy_j
        price += self.record.client_prices.get(ids[client], 0.0)
        labels = scenario.clients.label_counts[client].tolist()
        self.candidates.append(_Candidate(client, price, scenario.edge_rounds * delay_s, labels))

    def least_price(self) -> float:
        """A price that no cluster is below, as close as HiGHS's tolerances allow."""
        scenario, edges = self.round.scenario, self.round.scenario.edges
        if not self.reachable:
            return 0.0
        if not self.candidates:
            return math.inf
        constant = scenario.weights.energy * float(edges.uplink_energy_j[self.number])
        constant += self.delay_price * float(edges.uplink_delay_s[self.number])
        target = scenario.target.tolist()
        labels = np.array([one.labels for one in self.candidates], dtype=float)
        program = _Program(self)
        for missing in range(len(target)):  # what a set without this label would have at best
            others = np.array([0.0 if h == missing else q for h, q in enumerate(target)])
            if others.sum() > 0:
                program.add_cut(labels, others, target, _MIXED)
        relaxed = program.solve()
        for _ in range(_MOST_CUTS):
            if relaxed is None:
                return math.inf
            if not program.add_cut(labels, relaxed.parts @ labels, target, 0.0):
                break
            relaxed = program.solve()
        if relaxed is None:
            return math.inf
        return self._least_of_sets(relaxed, labels.astype(np.int64)) + constant

    def _least_of_sets(self, relaxed: "_Relaxed", labels: "IntArray") -> float:
        """The cheapest cluster among all sets that the relaxation does not exclude."""
        scenario, record = self.round.scenario, self.record
        limits = scenario.limits
        ids, own = scenario.clients.ids, scenario.edges.ids[self.number]
        order = np.argsort(-relaxed.reduced, kind="stable")  # who excludes most comes first
        cut_price = np.array([cut.price for cut in record.cuts])
        at_edge = np.array([own in cut.edges for cut in record.cuts], dtype=np.int64)
        in_cut = np.zeros((len(order), len(record.cuts)), dtype=np.int64)
        for place, n in enumerate(order.tolist()):
            name = ids[self.candidates[n].client]
            in_cut[place] = [name in cut.clients for cut in record.cuts]
        price = np.array([self.candidates[n].price for n in order.tolist()])
        delay = np.array([self.candidates[n].delay_s for n in order.tolist()])
        allowed = limits.kld_max + LIMIT_TOLERANCE
        scale = max(abs(relaxed.value), float(price.max()), 1e-12)
        reach = _FIRST_REACH * scale
        while True:
            best, state = cheapest_set(
                price,
                self.delay_price * delay,
                labels[order],
                in_cut,
                cut_price,
                at_edge,
                relaxed.reduced[order],
                relaxed.value - _MARGIN * scale,
                relaxed.value + reach,
                int(scenario.edges.capacity[self.number]),
                float(limits.data_min),
                allowed,
                np.log(scenario.target),
                _MOST_SETS,
            )
            if state == _CUT_SHORT:  # nothing below what was searched before
                return relaxed.value + (reach / 2 if reach > _FIRST_REACH * scale else 0.0)
            if state == _ALL_SEEN or math.isfinite(best):
                return float(best)
            reach *= 2


_ALL_SEEN, _SOME_EXCLUDED, _CUT_SHORT = 0, 1, 2


@numba.njit(cache=True)
def cheapest_set(  # type: ignore[no-untyped-def]
    price,
    delay,
    labels,
    in_cut,
    cut_price,
    at_edge,
    reduced,
    base,
    cap,
    capacity,
    data_min,
    kld_max,
    log_target,
    most,
):
    """The least price of a cluster of at most `cap`, and whether the cap excluded any set.

    `base` with the positive `reduced` of whoever is in a set, and the negative ones of whoever is not,
    is never above the set's price. Candidates are decided in their order.
    """
    count, kinds = labels.shape
    best, state, seen = np.inf, _ALL_SEEN, 0
    inside = np.zeros(count + 1, dtype=np.int64)  # who is in it, by depth
    limit = np.zeros(count + 1)  # what the relaxation says so far
    sums = np.zeros((count + 1, kinds))
    spent = np.zeros(count + 1)
    slowest = np.zeros(count + 1)
    held = np.zeros(cut_price.shape[0], dtype=np.int64)
    held[:] = at_edge
    start = base
    for n in range(count):
        start += max(0.0, -reduced[n])  # as if nobody were in whom the relaxation wants
    depth, place = 0, 0
    limit[0] = start
    while True:
        if place < count and depth < capacity:
            bound = limit[depth] + reduced[place]
            seen += 1
            if seen > most:
                return best, _CUT_SHORT
            # What is to come can take off no more than the negative ones that are left.
            rest = 0.0
            if reduced[count - 1] < 0:
                for n in range(place + 1, count):
                    rest += min(0.0, reduced[n])
            if bound + rest > min(cap, best):
                state = max(state, _SOME_EXCLUDED)
                place += 1
                continue
            total = 0.0
            for h in range(kinds):
                sums[depth + 1, h] = sums[depth, h] + labels[place, h]
                total += sums[depth + 1, h]
            spent[depth + 1] = spent[depth] + price[place]
            slowest[depth + 1] = max(slowest[depth], delay[place])
            limit[depth + 1] = bound
            inside[depth + 1] = place
            depth += 1
            paid = 0.0
            for k in range(held.shape[0]):
                held[k] += in_cut[place, k]
                if held[k] >= 2:
                    paid += cut_price[k]
            cost = spent[depth] + slowest[depth] + paid
            if cost <= min(cap, best) and total >= data_min:
                kld = 0.0
                if kld_max < np.inf and total > 0:
                    for h in range(kinds):
                        if sums[depth, h] > 0:
                            share = sums[depth, h] / total
                            kld += share * (np.log(share) - log_target[h])
                if (total > 0 or kld_max == np.inf) and kld <= kld_max:
                    best = min(best, cost)
                    place = count  # a larger set is never cheaper
                    continue
            if cost > min(cap, best):
                state = max(state, _SOME_EXCLUDED)
                place = count
                continue
            place += 1
            continue
        if depth == 0:
            return best, state
        place = inside[depth] + 1
        for k in range(held.shape[0]):
            held[k] -= in_cut[inside[depth], k]
        depth -= 1


class _Relaxed(NamedTuple):
    """The linear program's answer."""

    value: float
    parts: "FloatArray"
    """In which parts candidates serve."""
    reduced: "FloatArray"
    """What a set costs more for each that is in it, or, negative, for each that is not."""


class _Program:
    """min sum of prices + delay price * slowest + cuts, over sets with enough data and room.

    Variables: a candidate serves; the slowest of them; a cut is paid. All of them in parts.
    """

    def __init__(self, edge: _Edge) -> None:
        scenario, number = edge.round.scenario, edge.number
        candidates, self.limits = edge.candidates, scenario.limits
        self.count = count = len(candidates)
        place = {scenario.clients.ids[one.client]: n for n, one in enumerate(candidates)}
        own = scenario.edges.ids[number]
        cuts = [
            (cut.price, members, own in cut.edges)
            for cut in edge.record.cuts
            if (members := [place[name] for name in cut.clients if name in place])
            and len(members) + (own in cut.edges) >= 2
        ]
        variables = count + 1 + len(cuts)
        self.cost = np.zeros(variables)
        self.cost[:count] = [one.price for one in candidates]
        self.cost[count] = edge.delay_price
        self.cost[count + 1 :] = [price for price, _, _ in cuts]
        delays = [one.delay_s for one in candidates]
        self.most = upper = np.ones(variables)
        upper[count] = max(delays)
        self.rows: list[dict[int, float]] = []
        self.upper: list[float] = []
        for n, delay in enumerate(delays):
            self._add({n: delay, count: -1.0}, 0.0)
        for k, (_, members, at_edge) in enumerate(cuts):  # two of three or all: it is paid once
            row = dict.fromkeys(members, 0.5) | {count + 1 + k: -1.0}
            self._add(row, 0.5 - 0.5 * at_edge)
        self.data = [float(sum(one.labels)) for one in candidates]
        self._add(dict.fromkeys(range(count), -1.0), -1.0)
        self._add(dict.fromkeys(range(count), 1.0), float(scenario.edges.capacity[number]))
        if self.limits.data_min > 0:
            scale = float(self.limits.data_min)
            self._add({n: -size / scale for n, size in enumerate(self.data)}, -1.0)  # (9b)

    def _add(self, row: dict[int, float], upper: float) -> None:
        self.rows.append(row)
        self.upper.append(upper)

    def add_cut(
        self, labels: "FloatArray", sums: "FloatArray", target: list[float], mixed: float
    ) -> bool:
        """The cut of (9a) by the distribution of `sums`; false where `sums` keep it."""
        if math.isinf(self.limits.kld_max):
            return False
        total = float(sums.sum())
        allowed = self.limits.kld_max + LIMIT_TOLERANCE
        logs = np.zeros(len(target))
        for h, q in enumerate(target):
            share = (1 - mixed) * sums[h] / total + mixed * q
            logs[h] = math.log(max(share / q, _LEAST_SHARE))
        if not float(np.dot(sums, logs)) > allowed * total * (1 + 1e-7):
            return False
        weights = (labels @ logs - allowed * labels.sum(axis=1)) / max(self.data)
        self._add({n: float(weight) for n, weight in enumerate(weights)}, 0.0)
        return True

    def solve(self) -> _Relaxed | None:
        """The optimum over parts of candidates; None where there is none."""
        row = np.repeat(np.arange(len(self.rows)), [len(one) for one in self.rows])
        column = np.concatenate([list(one) for one in self.rows])
        value = np.concatenate([list(one.values()) for one in self.rows])
        matrix = csr_matrix((value, (row, column)), shape=(len(self.rows), len(self.cost)))
        found = linprog(
            self.cost,
            A_ub=matrix,
            b_ub=np.array(self.upper),
            bounds=np.column_stack([np.zeros(len(self.cost)), self.most]),
            method="highs-ds",
        )
        if found.status == _INFEASIBLE:
            return None
        if found.x is None:
            raise StagewiseError(f"the relaxation of an edge was not solved: {found.message}")
        reduced = found.lower.marginals + found.upper.marginals
        return _Relaxed(float(found.fun), found.x[: self.count], reduced[: self.count])
