"""P0 (or P2) to proven optimality: incumbent, bound, and what closes the gap between them.

The problem is split by the round's delay into *scopes*. In each one column generation gives a bound.
With few edges, every cluster that a better choice could use is enumerated and a search over these
settles the scope; where they are too many, the scope is split again. With many edges the clusters whose
reduced costs are within some slack are given to branch and bound: a choice with any other cluster costs
more than the bound and the slack together. The bound is the least one of all scopes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stagewise.exact.columns import Columns, distinct, join, select, with_columns
from stagewise.exact.cuts import NO_CUTS
from stagewise.exact.generation import Generation, generate
from stagewise.exact.incumbent import Incumbent
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
from stagewise.exact.rounding import dive
from stagewise.exact.scopes import OpenScope, Scopes, split
from stagewise.exact.search_threads import SearchThreads
from stagewise.exact.selection import select_disjoint
from stagewise.problem.statement import Problem
from stagewise.search.fast_links import link_delays
from stagewise.search.instance import Instance, build_instance
from stagewise.search.local_search import Effort
from stagewise.world.scenario import IntArray

GAP = 1e-3
_FEW_EDGES = 8  # so many can be searched completely
_LOOKS = 100_000_000  # of a search that is not the last resort
_FIRST_ROUNDING = 0.4  # of the time may pass before the master is rounded, solved or not
_FIRST_MOVES = 10_000  # of each of a few edges: rounding the master's solution finds better
_LONG = 0.04  # of the cost: a delay so far above the least possible is worth a search of its own
_WORTH = 5e-4  # of the cost: a delay that, excluded from a scope, raises its bound enough
_FIRST_BRANCHING, _BRANCHING = 0.4, 0.6  # of the time left for one branch and bound
_FIRST_SELECTABLE, _SELECTABLE = 60, 150  # clusters of an edge for branch and bound
_LARGEST_WHOLE = 60  # edges of a system that branch and bound can do something for as a whole
_ROUNDING = 1e-9
_TOLERANCE = 1e-12


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
        self.best = Incumbent(problem, self.instance, seed, threads)
        self.scopes = Scopes()
        self.energy_cost = 0.0
        """What the energy of a round costs at the least."""
        self.rounded = False
        """Whether a master's solution has been rounded yet."""
        self.columns: Columns | None = None
        """The clusters that masters have found useful."""

    def run(self) -> None:
        """Work at the scope with the least bound, until the gap is closed or the time is over."""
        instance = self.instance
        self.best.search(Effort(runs=1, moves_per_edge=_FIRST_MOVES) if self.few else Effort())
        self._report("local search")
        least = 0.0
        if instance.delay_weight > 0:
            least = least_delay(instance, self.threads)
            self.energy_cost = least_energy_cost(instance, self.threads)
        bound = instance.delay_weight * least + self.energy_cost
        self.scopes.push((bound, OpenScope(Scope(least_delay=least))))
        if np.isfinite(bound):
            self._search_shorter_delays(least)
        while self.scopes and not self._closed() and not self.threads.out_of_time:
            bound, open_ = self.scopes.pop()
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
        delays = np.unique(link_delays(self.instance))
        failed = least * (1 - _TOLERANCE)
        present = self.best.delay_s
        if not weight * (present - failed) >= _LONG * self.upper:
            return
        while not self._closed() and not self.threads.spent(_FIRST_ROUNDING):
            present = self.best.delay_s
            if weight * (present - failed) < self.gap * self.upper:
                break
            between = delays[(delays > failed) & (delays < present * (1 - _TOLERANCE))]
            if len(between) == 0:
                break
            limit = float(between[len(between) // 2])
            if not self.best.search_fast_links(limit, self.scopes.number):
                failed = limit
        self._report("fast links")

    def result(self) -> Certified:
        return Certified(self.best.assignment, self.upper, min(self.scopes.lower, self.upper))

    def _work_at(self, scope: Scope, bound: float, prices: Prices | None) -> None:
        """Raise the bound of a scope, look for better assignments in it, then settle or split it."""
        generation, bound = self._generate(scope, bound, prices, cut=not self.few)
        if generation is None or self._cannot_improve(bound) or self.threads.out_of_time:
            self.scopes.settle(np.inf if generation is None else bound)
            return
        first = not self.rounded
        self._round(scope, generation)
        if not self.few:
            self._divide(scope, bound, generation, first=first)
            return
        parts = split(self.instance, scope, generation)
        if not self._cannot_improve(bound) and self._search(scope, generation, last=False):
            bound = self.upper
        elif not self._cannot_improve(bound) and not parts:
            again, bound = self._generate(scope, bound, generation.best.prices, cut=True)
            if again is None or self._search(scope, again, last=True):
                bound = self.upper
        if self._cannot_improve(bound) or not parts:
            self.scopes.settle(bound)
            return
        self._push_parts(parts, bound, generation)

    def _generate(
        self, scope: Scope, bound: float, prices: Prices | None, *, cut: bool
    ) -> tuple[Generation | None, float]:
        """Column generation, whose clusters are kept, and the bound that is at least `bound`."""

        def progress(value: float) -> bool:
            nonlocal bound
            bound = max(bound, value)
            self.scopes.raise_lower(bound)
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
        open_ = OpenScope(scope, None, generation.best, cuts)
        if first:
            near, _ = near_columns(
                self.instance, scope, generation.best, self.upper - bound, self.threads, few=False
            )
            self._report(f"{len(near)} clusters")
            self.best.improve(near, self.scopes.number, self._closed)
            self._report("neighbourhoods")
            _, proven = self._select(open_, bound, _FIRST_SELECTABLE, _FIRST_BRANCHING)
            bound = max(bound, proven)
        if self._cannot_improve(bound) or self.threads.out_of_time:
            self.scopes.settle(bound)
            return
        parts = split(self.instance, scope, generation)
        if len(parts) == 2:
            rise = self.instance.delay_weight * (parts[1].least_delay - scope.least_delay)
            parts = parts if rise > _WORTH * self.upper else []
        if parts:
            self._push_parts(parts, bound, generation)
        else:
            self.scopes.push((bound, open_))

    def _push_parts(self, parts: list[Scope], bound: float, generation: Generation) -> None:
        weight, prices = self.instance.delay_weight, generation.best.prices
        self.scopes.push(
            *((max(bound, weight * p.least_delay), OpenScope(p, prices)) for p in parts)
        )

    def _branch(self, open_: OpenScope, bound: float) -> None:
        """Give a scope to branch and bound, and again as long as more clusters raise its bound."""
        slack, proven = self._select(open_, bound, _SELECTABLE, _BRANCHING)
        proven = max(bound, proven)
        if self._cannot_improve(proven) or proven <= bound * (1 + _ROUNDING):
            self.scopes.settle(proven)
            return
        self.scopes.push((proven, replace(open_, slack=slack)))

    def _select(
        self, open_: OpenScope, bound: float, clusters: int, share: float
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
        at_hand = np.zeros(0, dtype=np.int64)
        if self.best.feasible and self.best.columns.delay.max() <= open_.scope.delay_limit:
            near, at_hand = with_columns(near, self.best.columns)
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
            self.best.accept_columns(select(near, found.rows))
        self._report("branch and bound")
        return slack, min(found.bound, priced.bound + slack)

    def _cannot_improve(self, bound: float) -> bool:
        """Whether a scope with this bound has nothing better to offer than the gap allows."""
        return bound >= self.upper * (1 - self.gap)

    def _closed(self) -> bool:
        return self._cannot_improve(self.scopes.lower)

    @property
    def upper(self) -> float:
        """What the best assignment costs."""
        return self.best.value

    @property
    def few(self) -> bool:
        """Whether the edges are so few that their clusters can be searched completely."""
        return self.edges <= _FEW_EDGES

    def _columns_within(self, scope: Scope) -> Columns | None:
        """The clusters at hand for a scope, the best assignment's among them."""
        parts = [] if self.columns is None else [self.columns]
        if self.best.feasible:
            parts.append(self.best.columns)
        if not parts:
            return None
        columns = join(parts)
        return select(columns, columns.delay <= scope.delay_limit)

    def _keep(self, columns: Columns) -> None:
        """Remember `columns` for other scopes."""
        self.columns = distinct(columns if self.columns is None else join([self.columns, columns]))

    def _round(self, scope: Scope, generation: Generation) -> None:
        """Make assignments of the master's solution."""
        self.rounded = True
        if generation.solution is None:
            return
        if np.isfinite(scope.delay_limit):
            self.best.search_fast_links(scope.delay_limit, self.scopes.number)
        if self.few:
            self._pack(scope, generation.columns, generation.best, _LOOKS)
        else:
            self.best.accept_columns(dive(self.instance, scope, generation, self.threads))
        self._report("rounding")

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
            self.best.accept_columns(select(columns, packing.rows))
        return packing.complete

    def _report(self, what: str) -> None:
        if self.log is not None:
            self.log(what, self.upper, min(self.scopes.lower, self.upper))
