"""How hard annealing works on P1."""

from stagewise.search.local_search import Effort


def plan_effort(edges: int, runs: int) -> Effort:
    """Larger systems get fewer moves for each edge.

    Cooler than in a round: a hot search of P1 spends its time on risks it will not keep.
    """
    return Effort(
        runs=runs,
        moves_per_edge=max(8_000, 160_000 // edges),
        start_temperature=0.4,
        penalty=20.0,
    )
