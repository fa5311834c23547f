"""Changes of two and three clients at once, which Alg. 3 lacks: whether it ends for want of them."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import stagewise
from stagewise.compiled import NONE, compiled
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import p1
from stagewise.search.association import Reading, associate, new_association
from stagewise.search.instance import build_instance
from stagewise.world.scenario import IntArray

Change = tuple[int, int, int, int]
"""Two clients that leave and two that enter, or -1."""
_BATCH = 2000


def _singles(inside: list[int], outside: list[int]) -> Iterator[Change]:
    """The operations of Alg. 3: Add, Remove and Exchange."""
    for leaving, entering in itertools.product([NONE, *inside], [NONE, *outside]):
        yield leaving, NONE, entering, NONE


def _two_leave(inside: list[int], outside: list[int]) -> Iterator[Change]:
    for (first, second), entering in itertools.product(
        itertools.combinations(inside, 2), [NONE, *outside]
    ):
        yield first, second, entering, NONE


def _two_enter(inside: list[int], outside: list[int]) -> Iterator[Change]:
    for leaving, (first, second) in itertools.product(
        [NONE, *inside], itertools.combinations(outside, 2)
    ):
        yield leaving, NONE, first, second


LARGER: dict[str, Callable[[list[int], list[int]], Iterable[Change]]] = {
    "two leave, one enters or none": _two_leave,
    "one leaves or none, two enter": _two_enter,
}


class Descent:
    """A feasible plan, improved by the best of all changes of a kind, again and again."""

    def __init__(
        self, scenario: stagewise.Scenario, plan: IntArray, seed: int, reading: Reading
    ) -> None:
        instance = build_instance(p1(scenario, risk_measure(scenario, "exact", seed)))
        self._association = new_association(instance, reading)
        self._everybody = np.flatnonzero(np.diff(instance.link_start) > 0)
        self._trial = np.zeros(len(instance.lock) + 2, dtype=np.int64)
        self._assignment = plan.copy()
        self._figures = np.full(2, np.inf)
        self._best_of([(NONE, NONE, NONE, NONE)])
        if self._figures[0] > 0:
            raise ValueError("the plan must be within its risk limits")

    @property
    def value(self) -> float:
        """The objective of P1."""
        return float(self._figures[1])

    def improve(self, kinds: list[str]) -> None:
        """Make the best change of clients until none helps: single ones first, then those named."""
        all_kinds = [_singles, *(LARGER[kind] for kind in kinds)]
        while any(self._best_of(kind(*self._sides())) for kind in all_kinds):
            pass

    def _sides(self) -> tuple[list[int], list[int]]:
        inside = np.flatnonzero(self._assignment != NONE)
        return inside.tolist(), np.setdiff1d(self._everybody, inside).tolist()

    def _best_of(self, changes: Iterable[Change]) -> bool:
        base = np.flatnonzero(self._assignment != NONE)
        self._association.work.before[:] = self._assignment
        improved = False
        remaining = iter(changes)
        while batch := list(itertools.islice(remaining, _BATCH)):
            improved |= best_change(
                self._association,
                base,
                np.array(batch, dtype=np.int64),
                self._figures,
                self._assignment,
                self._trial,
            )
        return improved


@compiled
def best_change(association, base, changes, figures, assignment, trial):
    """Associate `base` after each of `changes`; whether one beats `figures`, which receive the best."""
    improved = False
    for c in range(changes.shape[0]):
        count = 0
        for s in range(base.shape[0]):
            if base[s] != changes[c, 0] and base[s] != changes[c, 1]:
                trial[count] = base[s]
                count += 1
        for k in range(2, 4):
            if changes[c, k] != NONE:
                trial[count] = changes[c, k]
                count += 1
        violation, value = associate(association, trial, count)
        if violation < figures[0] - 1e-12 or (
            violation <= figures[0] and value < figures[1] - 1e-12 * abs(figures[1])
        ):
            figures[0], figures[1], improved = violation, value, True
            for client in range(assignment.shape[0]):
                assignment[client] = association.work.best[client]
    return improved
