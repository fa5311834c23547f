"""`local-search`: P0 by annealing on the incremental kernel."""

from dataclasses import dataclass

from stagewise.policy import Policy
from stagewise.problem.statement import p0
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE, search_by_neighbourhoods
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.rounds import Round
from stagewise.world.scenario import IntArray, Scenario

# From nothing, then from what the first pass found, with other borders.
_PASSES = (
    Effort(runs=1, moves_per_edge=20_000),
    Effort(runs=1, moves_per_edge=20_000, start_temperature=0.1),
)


def local_search_policy(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """The policy for `scenario`; a large system is searched by neighbourhoods."""
    if len(scenario.edges) > LARGEST_WHOLE:
        return _ByNeighbourhoods(seed, seconds)
    return _LocalSearch(seed, seconds)


@dataclass(frozen=True)
class _LocalSearch:
    seed: int
    seconds: float | None

    def decide(self, round_: Round, index: int) -> IntArray:
        seed = integer_seed(self.seed, "P0", index)
        return local_search(build_instance(p0(round_)), seed=seed, seconds=self.seconds).assignment


@dataclass(frozen=True)
class _ByNeighbourhoods:
    seed: int
    seconds: float | None

    def decide(self, round_: Round, index: int) -> IntArray:
        return search_by_neighbourhoods(
            build_instance(p0(round_)),
            seed=integer_seed(self.seed, "P0", index),
            passes=_PASSES,
            seconds=self.seconds,
        ).assignment
