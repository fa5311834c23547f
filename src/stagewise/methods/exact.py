"""`exact`: P0 to proven optimality, round after round."""

import math
from dataclasses import dataclass

from stagewise.exact.solver import solve_exactly
from stagewise.policy import Policy, WithBound
from stagewise.problem.statement import p0
from stagewise.randomness import integer_seed
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

# The time one round may take where the user sets no limit.
DEFAULT_SECONDS = 60.0


def exact_policy(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """Stops at a gap of 0.1%, or after `seconds` with the bound reached by then."""
    return _Exact(seed, DEFAULT_SECONDS if seconds is None else seconds)


@dataclass(frozen=True)
class _Exact:
    seed: int
    seconds: float

    def decide(self, round_: Round, index: int) -> WithBound:
        found = solve_exactly(
            p0(round_), seed=integer_seed(self.seed, "exact", index), seconds=self.seconds
        )
        # Where it is proven that no assignment is feasible there is no bound to speak of.
        bound = found.lower_bound if math.isfinite(found.lower_bound) else None
        return WithBound(found.assignment, bound)
