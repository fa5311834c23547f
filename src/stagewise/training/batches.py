"""Mini-batches: which of its samples a client takes in a step."""

import numpy as np

from stagewise.randomness import generator
from stagewise.world.scenario import IntArray


def draw_batches(
    seed: int,
    client: int,
    round_index: int,
    edge_round: int,
    *,
    data_size: int,
    batch_size: int,
    steps: int,
) -> IntArray:
    """Positions within the client's data, shape (steps, batch_size).

    Every step draws its mini-batch uniformly and without repetition from all of the client's data,
    independently of other steps. Nothing depends on the edge, the other clients or the workers.
    """
    random = generator(seed, f"batches {client} {edge_round}", round_index)
    batches = np.empty((steps, batch_size), dtype=np.int64)
    for step in range(steps):
        batches[step] = random.choice(data_size, batch_size, replace=False, shuffle=False)
    return batches
