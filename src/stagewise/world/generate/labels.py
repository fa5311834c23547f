"""Non-IID data: which labels each client holds, and how many samples of each (Sec. V)."""

import numpy as np

from stagewise.world.generate.tasks import Task
from stagewise.world.scenario import IntArray

# Random keys are made for this many numbers at a time, which bounds the memory beside the result.
_KEYS_AT_ONCE = 4_000_000


def allocate_labels(task: Task, clients: int, rng: np.random.Generator) -> IntArray:
    """Label counts of shape (clients, task.labels).

    Each client holds k labels, k uniform in `task.labels_per_client` and the labels uniform without
    replacement, and as many samples as a uniform draw from `task.data_range` says, split equally
    among its labels; what does not divide goes one each to labels of its own, chosen at random.
    The first clients of a larger allocation are those of a smaller one from an equal generator.

    Parameters
    ----------
    task : Task
        How many labels and samples a client holds.
    clients : int
        How many there are.
    rng : numpy.random.Generator
        Where draws come from.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> task = stagewise.generate.task_of("mnist")
    >>> stagewise.generate.allocate_labels(task, 5, np.random.default_rng(0)).shape
    (5, 10)
    """
    label_rng, size_rng, order_rng = rng.spawn(3)
    low, high = task.labels_per_client
    held = label_rng.integers(low, high, size=clients, endpoint=True)
    low, high = task.data_range
    size = size_rng.integers(low, high, size=clients, endpoint=True)

    counts = np.empty((clients, task.labels), dtype=np.int64)
    place = np.arange(task.labels)
    step = max(1, _KEYS_AT_ONCE // task.labels)
    for first in range(0, clients, step):
        rows = slice(first, min(first + step, clients))
        # The order of random keys is a random permutation; the first k places are the labels held.
        order = order_rng.random((rows.stop - first, task.labels)).argsort(axis=1)
        share, rest = np.divmod(size[rows], held[rows])
        amount = share[:, None] + (place < rest[:, None])
        amount[place >= held[rows][:, None]] = 0
        np.put_along_axis(counts[rows], order, amount, axis=1)
    return counts
