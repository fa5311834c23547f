"""All that is compiled before it is first used."""

from stagewise.loading import Part, load
from stagewise.plan_b.pool import load_clusters, load_many_edges
from stagewise.policies.exact import load_exact
from stagewise.warm_up import load_association, load_label_weights, load_search

PARTS: dict[str, Part] = {
    "search": load_search,
    "pool": load_clusters,
    "Algs. 2 and 3": load_association,
    "exact": load_exact,
    "more than 6 edges": load_many_edges,
    "weights of clients": load_label_weights,
}
"""In an order that two processes share evenly."""


def compile_all() -> None:
    """Compile whatever is not compiled yet, on all cores."""
    load(*PARTS.values())
