"""The scopes that a problem is split into by the round's delay, and the bound they give together."""

import heapq
from dataclasses import dataclass, field

import numpy as np

from stagewise.exact.cuts import NO_CUTS
from stagewise.exact.generation import Generation
from stagewise.exact.prices import Prices
from stagewise.exact.pricing import Priced, Scope
from stagewise.search.fast_links import link_delays
from stagewise.search.instance import Instance
from stagewise.world.scenario import IntArray

_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class OpenScope:
    """A scope that is not settled."""

    scope: Scope
    prices: Prices | None = None
    """Good ones to begin with."""
    priced: Priced | None = None
    """The best ones, once its master is solved; only with many edges."""
    cuts: IntArray = field(default_factory=lambda: NO_CUTS.items)
    slack: float = 0.0
    """Of the clusters that branch and bound has had."""


class Scopes:
    """Those that wait, by their bounds, and what is proven of the whole problem."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, OpenScope]] = []
        self._settled = np.inf  # the least bound of those that nothing more is to be done about
        self.number = 0
        """How many there have been."""
        self.lower = 0.0
        """No assignment costs less."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, *waiting: tuple[float, OpenScope]) -> None:
        """Put scopes with their bounds in the place of the one that was worked at."""
        for bound, scope in waiting:
            heapq.heappush(self._waiting, (bound, self.number, scope))
            self.number += 1
        self.raise_lower(np.inf)

    def pop(self) -> tuple[float, OpenScope]:
        """The scope with the least bound, to be worked at."""
        bound, _, scope = heapq.heappop(self._waiting)
        return bound, scope

    def settle(self, bound: float) -> None:
        """Leave the scope that was worked at with this bound."""
        self._settled = min(self._settled, bound)
        self.raise_lower(np.inf)

    def raise_lower(self, present: float) -> None:
        """The bound is the least of all scopes: settled, waiting, and the `present` one."""
        waiting = self._waiting[0][0] if self._waiting else np.inf
        self.lower = max(self.lower, min(self._settled, waiting, present))


def split(instance: Instance, scope: Scope, generation: Generation) -> list[Scope]:
    """A faster and a slower part of a scope, between the delays that the master mixes.

    The same scope again where its master was to be rounded before it was solved; nothing where
    there is nothing between.
    """
    solution = generation.solution
    if generation.stopped and not generation.converged:
        return [scope]
    if solution is None or not generation.converged or instance.delay_weight <= 0:
        return []
    slowest = float(generation.columns.delay[: len(solution.use)][solution.use > 1e-6].max())
    middle = max(solution.delay, 0.5 * (solution.delay + slowest))
    delays = link_delays(instance)
    faster, slower = delays[delays <= middle * (1 + _TOLERANCE)], delays[delays > middle]
    slower = slower[slower > faster.max(initial=0.0)]
    if len(faster) == 0 or len(slower) == 0:
        return []
    fast, slow = float(faster.max()), float(slower.min())
    if fast < scope.least_delay or slow > scope.delay_limit:
        return []
    return [Scope(scope.least_delay, fast), Scope(slow, scope.delay_limit)]
