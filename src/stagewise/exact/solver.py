"""P0 (or P2) to proven optimality: incumbent, bound, and what closes the gap between them.

The problem is split by the round's delay into *scopes*. In each one column generation gives a bound.
With few edges, every cluster that a better choice could use is enumerated and a search over these
settles the scope; where they are too many, the scope is split again. With many edges the clusters whose
reduced costs are within some slack are given to branch and bound: a choice with any other cluster costs
more than the bound and the slack together. The bound is the least one of all scopes.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from stagewise.exact.columns import (
    Columns,
    columns_of,
    distinct,
    edge_of,
    join,
    select,
    with_columns,
)
from stagewise.exact.cuts import NO_CUTS
from stagewise.exact.generation import Generation, generate
from stagewise.exact.packing import Budget, pack
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import (
    Priced,
    Scope,
    least_delay,
    least_energy_cost,
    near_columns,
    selectable_columns,
)
from stagewise.exact.rounding import around, dive, improve, neighbours, overlaps
from stagewise.exact.search_threads import SearchThreads
from stagewise.exact.selection import select_disjoint
from stagewise.problem.statement import Problem
from stagewise.randomness import generator, integer_seed
from stagewise.search.instance import Instance, build_instance, unassigned
from stagewise.search.local_search import Effort, Found, local_search
from stagewise.world.scenario import FloatArray, IntArray

GAP = 1e-3
_FEW_EDGES = 8  # so many can be searched completely
_LOOKS = 100_000_000  # of a search that is not the last resort
_FIRST_ROUNDING = 0.4  # of the time may pass before the master is rounded, solved or not
_FIRST_SEARCH = 0.05  # of the time for the first local search
_MOVES_PER_SECOND = 1_000_000
_MOVES_PER_CLIENT = 500  # for each edge; a handful of clients does not need more
_FIRST_MOVES = 10_000  # of each of a few edges: rounding the master's solution finds better
_SCOPE_MOVES, _SCOPE_MOVES_OF_AN_EDGE = 2_000_000, 5_000
_LONG = 0.04  # of the cost: a delay so far above the least possible is worth a search of its own
_WORTH = 5e-4  # of the cost: a delay that, excluded from a scope, raises its bound enough
_FIRST_BRANCHING, _BRANCHING = 0.4, 0.6  # of the time left for one branch and bound
_FIRST_SELECTABLE, _SELECTABLE = 60, 150  # clusters of an edge for branch and bound
_LARGEST_WHOLE = 60  # edges of a system that branch and bound can do something for as a whole
_ROUNDING = 1e-9
_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class _Open:
    """A scope that is not settled."""

    scope: Scope
    prices: Prices | None = None
    """Good ones to begin with."""
    priced: Priced | None = None
    """The best ones, once its master is solved; only with many edges."""
    cuts: IntArray = field(default_factory=lambda: NO_CUTS.items)
    slack: float = 0.0
    """Of the clusters that branch and bound has had."""


@dataclass(frozen=True, eq=False)
class Certified:
    """The best assignment found, and what is proven of it."""

    assignment: IntArray
    value: float
    """Its cost; infinite where it breaks a limit."""
    lower_bound: float
    """No assignment within the limits costs less; infinite where there is none."""

    @property
    def gap(self) -> float:
        """How far the cost may be above the optimum, relative to the cost."""
        return relative_gap(self.value, self.lower_bound)


def relative_gap(value: float, lower_bound: float) -> float:
    """How far `value` may be above the optimum, relative to it; 0 where nothing is feasible."""
    if not np.isfinite(value):
        return 0.0 if np.isinf(lower_bound) else np.inf
    return max(0.0, 1.0 - lower_bound / value) if value > 0 else 0.0


Log = Callable[[str, float, float], None]


def solve_exactly(
    problem: Problem,
    *,
    seed: int = 0,
    seconds: float | None = None,
    gap: float = GAP,
    log: Log | None = None,
    threads: int | None = None,
) -> Certified:
    """The optimum of `problem` within the relative `gap`, or what is proven after `seconds`.

    `log` is called with what has just been done, the cost of the best assignment and the bound. The
    number of `threads` (default: one for each core) makes no difference to the result.
    """
    with SearchThreads(seconds, threads) as search_threads:
        proof = _Proof(problem, seed, gap, log, search_threads)
        proof.find_incumbent()
        proof.run()
        return proof.result()


class _Proof:
    def __init__(
        self, problem: Problem, seed: int, gap: float, log: Log | None, threads: SearchThreads
    ) -> None:
        self.problem = problem
        self.instance: Instance = build_instance(problem)
        self.seed = seed
        self.gap = gap
        self.log = log
        self.threads = threads
        self.edges = len(self.instance.capacity)
        self.best = Found(unassigned(len(self.instance.lock)), np.inf, np.inf)
        self.upper = np.inf
        self.lower = 0.0
        self.energy_cost = 0.0
        """What the energy of a round costs at the least."""
        self.waiting: list[tuple[float, int, _Open]] = []
        """Scopes to work at, with their bounds and numbers."""
        self.scopes = 0
        self.settled = np.inf
        """The least bound of the scopes that nothing more is to be done about."""
        self.rounded = False
        """Whether a master's solution has been rounded yet."""
        self.columns: Columns | None = None
        """The clusters that masters have found useful."""

    @cached_property
    def overlap(self) -> csr_matrix:
        return overlaps(self.instance)

    def find_incumbent(self) -> None:
        """An assignment to begin with, by local search."""
        effort = Effort(runs=1, moves_per_edge=_FIRST_MOVES) if self.few else Effort()
        moves = min(effort.moves_per_edge, _MOVES_PER_CLIENT * len(self.instance.lock))
        left = self.threads.seconds_left
        if np.isfinite(left):
            affordable = int(_FIRST_SEARCH * left * _MOVES_PER_SECOND / (effort.runs * self.edges))
            moves = min(moves, max(affordable, 500))
        effort = replace(effort, moves_per_edge=moves)
        self._accept(
            local_search(self.instance, self.problem.pinned, seed=self.seed, effort=effort)
        )
        self._report("local search")

    def run(self) -> None:
        """Work at the scope with the least bound, until the gap is closed or the time is over."""
        instance = self.instance
        least = 0.0
        if instance.delay_weight > 0:
            least = least_delay(instance, self.threads)
            self.energy_cost = least_energy_cost(instance, self.threads)
        bound = instance.delay_weight * least + self.energy_cost
        self._push(bound, _Open(Scope(least_delay=least)))
        self._update_lower(np.inf)
        if np.isfinite(bound):
            self._search_shorter_delays(least)
        while self.waiting and not self._closed() and not self.threads.out_of_time:
            bound, _, open_ = heapq.heappop(self.waiting)
            if open_.priced is None:
                self._work_at(self._without_long_delays(open_.scope), bound, open_.prices)
            else:
                self._branch(open_, bound)

    def _without_long_delays(self, scope: Scope) -> Scope:
        """A scope without the delays that a better assignment cannot have."""
        weight = self.instance.delay_weight
        if weight == 0:
            return scope
        longest = (self.upper - self.energy_cost) / weight * (1 + _ROUNDING)
        return Scope(scope.least_delay, min(scope.delay_limit, longest))

    def _search_shorter_delays(self, least: float) -> None:
        """Where delay is much of the cost: halve the delays in question, searching fast links alone."""
        weight = self.instance.delay_weight
        delays = np.unique(_link_delays(self.instance))
        failed = least * (1 - _TOLERANCE)
        present = self.problem.evaluate(self.best.assignment).delay_s
        if not weight * (present - failed) >= _LONG * self.upper:
            return
        while not self._closed() and not self.threads.spent(_FIRST_ROUNDING):
            present = self.problem.evaluate(self.best.assignment).delay_s
            if weight * (present - failed) < self.gap * self.upper:
                break
            between = delays[(delays > failed) & (delays < present * (1 - _TOLERANCE))]
            if len(between) == 0:
                break
            limit = float(between[len(between) // 2])
            if not self._search_fast_links(limit):
                failed = limit
        self._report("fast links")

    def result(self) -> Certified:
        lower = min(self.lower, self.upper) if np.isfinite(self.upper) else self.lower
        return Certified(self.best.assignment, self.upper, lower)

    def _work_at(self, scope: Scope, bound: float, prices: Prices | None) -> None:
        """Raise the bound of a scope, look for better assignments in it, then settle or split it."""
        generation, bound = self._generate(scope, bound, prices, cut=not self.few)
        if generation is None or self._cannot_improve(bound) or self.threads.out_of_time:
            self._settle(np.inf if generation is None else bound)
            return
        first = not self.rounded
        self._round(scope, generation)
        if not self.few:
            self._divide(scope, bound, generation, first=first)
            return
        parts = self._parts(scope, generation)
        if not self._cannot_improve(bound) and self._search(scope, generation, last=False):
            bound = self.upper
        elif not self._cannot_improve(bound) and not parts:
            again, bound = self._generate(scope, bound, generation.best.prices, cut=True)
            if again is None or self._search(scope, again, last=True):
                bound = self.upper
        if self._cannot_improve(bound) or not parts:
            self._settle(bound)
            return
        self._push_parts(parts, bound, generation)

    def _generate(
        self, scope: Scope, bound: float, prices: Prices | None, *, cut: bool
    ) -> tuple[Generation | None, float]:
        """Column generation, whose clusters are kept, and the bound that is at least `bound`."""

        def progress(value: float) -> bool:
            nonlocal bound
            bound = max(bound, value)
            self._update_lower(bound)
            self._report("column generation")
            hurry = not self.rounded and self.threads.spent(_FIRST_ROUNDING)
            return hurry or self._cannot_improve(bound)

        generation = generate(
            self.instance,
            scope,
            self._columns_within(scope),
            self.threads,
            prices=prices,
            cut=cut,
            progress=progress,
        )
        if generation is not None:
            self._keep(generation.columns)
        return generation, bound

    def _divide(self, scope: Scope, bound: float, generation: Generation, *, first: bool) -> None:
        """Many edges: split a scope where that raises its bound, or leave it to branch and bound."""
        cuts = NO_CUTS.items
        if generation.solution is not None:
            cut_prices = generation.solution.prices.cuts
            cuts = cut_prices.items[cut_prices.price > 0]
        open_ = _Open(scope, None, generation.best, cuts)
        if first:
            near, _ = near_columns(
                self.instance, scope, generation.best, self.upper - bound, self.threads, few=False
            )
            self._report(f"{len(near)} clusters")
            self._improve(near)
            _, proven = self._select(open_, bound, _FIRST_SELECTABLE, _FIRST_BRANCHING)
            bound = max(bound, proven)
        if self._cannot_improve(bound) or self.threads.out_of_time:
            self._settle(bound)
            return
        parts = self._parts(scope, generation)
        if len(parts) == 2:
            rise = self.instance.delay_weight * (parts[1].least_delay - scope.least_delay)
            parts = parts if rise > _WORTH * self.upper else []
        if parts:
            self._push_parts(parts, bound, generation)
        else:
            self._push(bound, open_)
            self._update_lower(np.inf)

    def _push_parts(self, parts: list[Scope], bound: float, generation: Generation) -> None:
        for part in parts:
            least = max(bound, self.instance.delay_weight * part.least_delay)
            self._push(least, _Open(part, generation.best.prices))
        self._update_lower(np.inf)

    def _branch(self, open_: _Open, bound: float) -> None:
        """Give a scope to branch and bound, and again as long as more clusters raise its bound."""
        slack, proven = self._select(open_, bound, _SELECTABLE, _BRANCHING)
        proven = max(bound, proven)
        if self._cannot_improve(proven) or proven <= bound * (1 + _ROUNDING):
            self._settle(proven)
            return
        self._push(proven, replace(open_, slack=slack))
        self._update_lower(np.inf)

    def _select(
        self, open_: _Open, bound: float, clusters: int, share: float
    ) -> tuple[float, float]:
        """Branch and bound over so many `clusters` of an edge, for a `share` of the time.

        Returns the slack that the clusters are within and what is proven of the scope.
        """
        priced = open_.priced
        assert priced is not None
        if self.edges > _LARGEST_WHOLE:
            return 0.0, bound
        near, slack = selectable_columns(
            self.instance,
            open_.scope,
            priced,
            self.upper - priced.bound,
            clusters * self.edges,
            self.threads,
        )
        if slack <= open_.slack:
            return slack, bound
        present = columns_of(self.instance, self.best.assignment)
        at_hand = np.zeros(0, dtype=np.int64)
        if np.isfinite(self.upper) and present.delay.max() <= open_.scope.delay_limit:
            near, at_hand = with_columns(near, present)
        self._report(f"{len(near)} clusters")
        found = select_disjoint(
            self.instance,
            near,
            open_.scope.least_delay,
            at_hand,
            self.threads,
            seconds=share * self.threads.seconds_left,
            gap=0.5 * self.gap,
            cuts=open_.cuts,
        )
        if found.rows is not None:
            self._accept_columns(select(near, found.rows))
        self._report("branch and bound")
        return slack, min(found.bound, priced.bound + slack)

    def _cannot_improve(self, bound: float) -> bool:
        """Whether a scope with this bound has nothing better to offer than the gap allows."""
        return bound >= self.upper * (1 - self.gap)

    def _closed(self) -> bool:
        return self._cannot_improve(self.lower)

    @property
    def few(self) -> bool:
        """Whether the edges are so few that their clusters can be searched completely."""
        return self.edges <= _FEW_EDGES

    def _push(self, bound: float, open_: _Open) -> None:
        heapq.heappush(self.waiting, (bound, self.scopes, open_))
        self.scopes += 1

    def _settle(self, bound: float) -> None:
        self.settled = min(self.settled, bound)
        self._update_lower(np.inf)

    def _update_lower(self, present: float) -> None:
        """The bound is the least of all scopes: settled, waiting, and the `present` one."""
        waiting = self.waiting[0][0] if self.waiting else np.inf
        self.lower = max(self.lower, min(self.settled, waiting, present))

    def _columns_within(self, scope: Scope) -> Columns | None:
        """The clusters at hand for a scope, the best assignment's among them."""
        parts = [] if self.columns is None else [self.columns]
        if np.isfinite(self.upper):
            parts.append(columns_of(self.instance, self.best.assignment))
        if not parts:
            return None
        columns = join(parts)
        return select(columns, columns.delay <= scope.delay_limit)

    def _keep(self, columns: Columns) -> None:
        """Remember `columns` for other scopes."""
        self.columns = distinct(columns if self.columns is None else join([self.columns, columns]))

    def _parts(self, scope: Scope, generation: Generation) -> list[Scope]:
        """A faster and a slower part of a scope, between the delays that the master mixes.

        The same scope again where its master was to be rounded before it was solved; nothing where
        there is nothing between.
        """
        solution, instance = generation.solution, self.instance
        if generation.stopped and not generation.converged:
            return [scope]
        if solution is None or not generation.converged or instance.delay_weight <= 0:
            return []
        slowest = float(generation.columns.delay[: len(solution.use)][solution.use > 1e-6].max())
        middle = max(solution.delay, 0.5 * (solution.delay + slowest))
        delays = _link_delays(instance)
        faster, slower = delays[delays <= middle * (1 + _TOLERANCE)], delays[delays > middle]
        slower = slower[slower > faster.max(initial=0.0)]
        if len(faster) == 0 or len(slower) == 0:
            return []
        fast, slow = float(faster.max()), float(slower.min())
        if fast < scope.least_delay or slow > scope.delay_limit:
            return []
        return [Scope(scope.least_delay, fast), Scope(slow, scope.delay_limit)]

    def _round(self, scope: Scope, generation: Generation) -> None:
        """Make assignments of the master's solution."""
        self.rounded = True
        if generation.solution is None:
            return
        if np.isfinite(scope.delay_limit):
            self._search_fast_links(scope.delay_limit)
        if self.few:
            self._pack(scope, generation.columns, generation.best, _LOOKS)
        else:
            self._accept_columns(dive(self.instance, scope, generation, self.threads))
        self._report("rounding")

    def _search_fast_links(self, delay_limit: float) -> bool:
        """Local search among the links that are fast enough; whether it found something better."""
        scenario = self.problem.scenario
        delay = scenario.edge_rounds * self.problem.round.costs.delay_s
        fast = delay + scenario.edges.uplink_delay_s[scenario.links.edge] <= delay_limit
        effort = Effort(
            runs=1, moves_per_edge=min(_SCOPE_MOVES_OF_AN_EDGE, _SCOPE_MOVES // self.edges)
        )
        return self._accept(
            local_search(
                build_instance(self.problem, usable=fast),
                self.problem.pinned,
                seed=integer_seed(self.seed, "fast links", self.scopes),
                effort=effort,
            )
        )

    def _search(self, scope: Scope, generation: Generation, *, last: bool) -> bool:
        """Search all clusters within the gap; true where this settles the scope."""
        slack = self.upper - generation.bound
        near, complete = near_columns(
            self.instance, scope, generation.best, slack, self.threads, few=True, last=last
        )
        self._report(f"{len(near)} clusters")
        return self._pack(scope, near, generation.best, None if last else _LOOKS) and complete

    def _pack(self, scope: Scope, columns: Columns, priced: Priced, looks: int | None) -> bool:
        """Improve the incumbent from `columns`; true where the search saw every choice below it."""
        reduced = columns.reduced_costs(self.instance, priced.least, priced.prices)
        packing = pack(
            self.instance,
            columns,
            reduced,
            priced.bound,
            self.upper * (1 - _TOLERANCE),
            Budget(self.threads.deadline, looks=looks),
            least_delay=scope.least_delay,
        )
        if packing.rows is not None:
            self._accept_columns(select(columns, packing.rows))
        return packing.complete

    def _improve(self, columns: Columns) -> None:
        """Choose again for a few edges at a time, until no neighbourhood gives anything better."""
        if not np.isfinite(self.upper):
            return
        rng = generator(self.seed, "neighbourhoods", self.scopes)
        incumbent = columns_of(self.instance, self.best.assignment)
        failures = 0
        while failures < 2 * self.edges and not self._closed() and not self.threads.out_of_time:
            center, count = int(rng.integers(self.edges)), int(rng.integers(3, _FEW_EDGES + 3))
            edges = neighbours(self.overlap, center, count, rng)
            better = improve(self.instance, edges, columns, incumbent, self.upper, self.threads)
            failures += 1
            if better is not None and self._accept_columns(better):
                incumbent, failures = better, 0
                self._report("neighbourhood")

    def _accept_columns(self, chosen: Columns) -> bool:
        """Keep a choice of clusters if it is the best so far; local search fixes edges without one."""
        assignment = edge_of(self.instance, chosen, self.problem.pinned)
        unserved = np.setdiff1d(np.flatnonzero(self.instance.in_round), chosen.edge)
        if len(unserved) == 0:
            return self._accept(Found(assignment, 0.0, self.problem.objective(assignment)))
        effort = Effort(runs=1, start_temperature=0.1)
        focus = around(self.overlap, unserved)
        return self._accept(
            local_search(self.instance, assignment, seed=self.seed, effort=effort, focus=focus)
        )

    def _accept(self, found: Found) -> bool:
        """Keep an assignment if it is better than the best so far."""
        if found.violation < _TOLERANCE:  # rounding
            found = Found(found.assignment, 0.0, self.problem.objective(found.assignment))
        if not found.better_than(self.best):
            return False
        self.best = found
        if found.violation == 0:
            self.upper = found.value
        return True

    def _report(self, what: str) -> None:
        if self.log is not None:
            self.log(what, self.upper, min(self.lower, self.upper))


def _link_delays(instance: Instance) -> FloatArray:
    """What the delay of a round can be: that of a link and its edge's uplink."""
    return instance.link_delay + instance.uplink_delay[instance.link_edge]
