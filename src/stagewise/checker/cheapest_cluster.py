"""What the cheapest cluster of one edge costs at given prices.

A linear program over parts of clients (HiGHS, through SciPy) knows (9a) by linear cuts, one for any
distribution P by Gibbs' inequality, each where the solution before breaks (9a). Its reduced costs say
what a set costs more for each client in it; all sets that the sum of these does not exclude are tried
one by one.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from stagewise.checker.cluster_sets import ALL_SEEN, CUT_SHORT, cheapest_set
from stagewise.checker.equations import LIMIT_TOLERANCE, Serving, link_cost
from stagewise.errors import StagewiseError

if TYPE_CHECKING:
    from stagewise.bounds import BoundRecord
    from stagewise.world.rounds import Round
    from stagewise.world.scenario import FloatArray, IntArray

_MIXED = 1e-2  # of the target in P where a label is missing
_LEAST_SHARE = 1e-6  # of the target, in P: any P gives a cut
_MOST_CUTS = 80
_INFEASIBLE = 2  # a status of SciPy's
_FIRST_REACH = 0.02  # how far above the relaxation the cheapest set is looked for, at first
_MARGIN = 1e-9
_MOST_SETS = 2_000_000_000


@dataclass
class _Candidate:
    client: int
    price: float
    delay_s: float
    labels: list[int]


class PricedEdge:
    """One edge: who may serve it, and what its cheapest cluster costs at the prices."""

    def __init__(self, round_: "Round", record: "BoundRecord", number: int) -> None:
        scenario = round_.scenario
        self.round, self.record, self.number = round_, record, number
        self.delay_price = record.delay_prices.get(scenario.edges.ids[number], 0.0)
        self.candidates: list[_Candidate] = []

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
            if state == CUT_SHORT:  # nothing below what was searched before
                return relaxed.value + (reach / 2 if reach > _FIRST_REACH * scale else 0.0)
            if state == ALL_SEEN or math.isfinite(best):
                return float(best)
            reach *= 2


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

    def __init__(self, edge: PricedEdge) -> None:
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
