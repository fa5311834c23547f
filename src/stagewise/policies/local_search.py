"""`local-search`: P0 by annealing on the incremental kernel."""

from stagewise.decisions import Answer
from stagewise.policies.policy import Policy
from stagewise.problem.statement import p0
from stagewise.randomness import integer_seed
from stagewise.search.decomposed import LARGEST_WHOLE, search_by_neighbourhoods
from stagewise.search.instance import build_instance
from stagewise.search.local_search import Effort, local_search
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

# From nothing, then from what the first pass found, with other borders.
_PASSES = (
    Effort(runs=1, moves_per_edge=20_000),
    Effort(runs=1, moves_per_edge=20_000, start_temperature=0.1),
)


class LocalSearch(Policy):
    """Searches P0 from nothing in every round; a large system by neighbourhoods."""

    def __init__(self, seed: int, seconds: float | None) -> None:
        self._seed, self._seconds = seed, seconds

    def decide(self, round_: Round) -> Answer:
        instance = build_instance(p0(round_))
        seed = integer_seed(self._seed, "P0", round_.index)
        if len(round_.scenario.edges) <= LARGEST_WHOLE:
            return Answer(local_search(instance, seed=seed, seconds=self._seconds).assignment)
        found = search_by_neighbourhoods(instance, seed=seed, passes=_PASSES, seconds=self._seconds)
        return Answer(found.assignment)


def local_search_policy(scenario: Scenario, *, seed: int, seconds: float | None) -> Policy:
    """P0 by annealing on the incremental kernel."""
    return LocalSearch(seed, seconds)
