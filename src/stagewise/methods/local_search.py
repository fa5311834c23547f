"""`local-search`: P0 by annealing on the incremental kernel."""

from dataclasses import dataclass

from stagewise.policy import Policy
from stagewise.problem.statement import p0
from stagewise.randomness import integer_seed
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario


def local_search_policy(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """The policy for `scenario`; larger systems get fewer runs and moves for each edge."""
    edges = len(scenario.edges)
    effort = Effort(
        runs=4 if edges <= 50 else 1, moves_per_edge=max(8_000, min(40_000, 2_000_000 // edges))
    )
    return _LocalSearch(seed, seconds, effort)


@dataclass(frozen=True)
class _LocalSearch:
    seed: int
    seconds: float | None
    effort: Effort

    def decide(self, round_: Round, index: int) -> IntArray:
        return local_search(
            build_instance(p0(round_)),
            seed=integer_seed(self.seed, "P0", index),
            effort=self.effort,
            seconds=self.seconds,
        ).assignment
