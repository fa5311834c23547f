"""`exact`: P0 to proven optimality, round after round."""

import logging
import math

from stagewise.decisions import Answer
from stagewise.exact.clusters import edge_candidates
from stagewise.exact.pricing import even_prices
from stagewise.exact.relaxation import relaxed_price
from stagewise.exact.solver import relative_gap, solve_exactly
from stagewise.loading import load
from stagewise.policies.policy import Policy
from stagewise.problem.statement import p0
from stagewise.randomness import integer_seed
from stagewise.search.instance import build_instance
from stagewise.warm_up import smallest_scenario
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import Scenario

# The time one round may take where the user sets no limit.
DEFAULT_SECONDS = 60.0

LOGGER = logging.getLogger(__name__)
"""Receives a line with the best cost, the bound and the gap after each step."""


def exact_policy(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """Stops at a gap of 0.1%, or after `seconds` with the bound reached by then."""
    load(load_exact)
    return _Exact(seed, DEFAULT_SECONDS if seconds is None else seconds)


class _Exact(Policy):
    def __init__(self, seed: int, seconds: float) -> None:
        self._seed, self._seconds = seed, seconds

    def decide(self, round_: Round) -> Answer:
        index = round_.index
        found = solve_exactly(
            p0(round_),
            seed=integer_seed(self._seed, "exact", index),
            seconds=self._seconds,
            log=lambda what, cost, bound: LOGGER.info(
                "round %d: %s: %s", index, what, _state(cost, bound)
            ),
        )
        # Where it is proven that no assignment is feasible there is no bound to speak of.
        bound = found.lower_bound if math.isfinite(found.lower_bound) else None
        LOGGER.info("round %d: done: %s", index, _state(found.value, found.lower_bound))
        return Answer(found.assignment, bound)


def _state(cost: float, bound: float) -> str:
    """Incumbent, bound and gap in words."""
    if math.isinf(bound):
        return "proven infeasible"
    if math.isinf(cost):
        return f"nothing feasible yet, bound {bound:.6g}"
    return f"cost {cost:.6g}, bound {bound:.6g}, gap {relative_gap(cost, bound):.2%}"


def load_exact() -> None:
    """Load or compile what the search needs, on the smallest scenario there is."""
    scenario = smallest_scenario()
    problem = p0(everybody_online(scenario))
    solve_exactly(problem, gap=-1.0)  # no gap is small enough: every part is called
    instance = build_instance(problem)
    relaxed_price(edge_candidates(instance, 0, even_prices(instance)), 1.0)
