"""Small problems of choosing disjoint clusters, and what a choice costs."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from stagewise.compiled import NONE
from stagewise.pool.pricing import Choices

UNSERVED = 40.0


@st.composite
def problems(draw, edges):
    """Clusters of one to three of nine clients, for so many edges, and prices for the clients."""
    count = draw(st.integers(*edges))
    counts = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    rows = sum(counts)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    members = np.full((rows, 3), NONE, dtype=np.int32)
    for row in range(rows):
        chosen = rng.choice(9, rng.integers(1, 4), replace=False)
        members[row, : len(chosen)] = chosen
    choices = Choices(
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        members=members,
        cost=rng.uniform(1, 5, rows),
        delay=rng.uniform(0.1, 2, rows),
        delay_weight=float(draw(st.sampled_from([0.0, 0.5, 3.0]))),
        unserved_cost=UNSERVED,
    )
    return choices, rng.uniform(0, 1, 9)


def value_of(choices, choice):
    """What a choice costs; None if two of its clusters share a client."""
    taken = [c for c in choice if c != NONE]
    clients = [i for c in taken for i in choices.members[c] if i >= 0]
    if len(set(clients)) < len(clients):
        return None
    spent = sum(choices.cost[c] for c in taken) + UNSERVED * (len(choice) - len(taken))
    return spent + choices.delay_weight * max((choices.delay[c] for c in taken), default=0.0)


def best_value(choices):
    """What the best choice costs, by trying all."""
    ranges = [[NONE, *range(a, b)] for a, b in zip(choices.start, choices.start[1:], strict=False)]
    values = (value_of(choices, combination) for combination in product(*ranges))
    return min(value for value in values if value is not None)
