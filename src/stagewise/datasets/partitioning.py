"""Which training samples each client holds, by the label counts of a scenario."""

from dataclasses import dataclass

import numpy as np

from stagewise.datasets.dataset import Dataset
from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.world.checks import seed_number, whole
from stagewise.world.scenario import IntArray

LARGEST_TOTAL = 2**30


@dataclass(frozen=True, eq=False)
class Partition:
    """The training samples of every client, as rows of one index.

    Client i holds the samples `index[start[i] : start[i + 1]]`, in the order of their labels.
    """

    start: IntArray
    index: IntArray

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.start) - 1

    def samples(self, client: int) -> IntArray:
        """The training samples of one client, a view."""
        return self.index[self.start[client] : self.start[client + 1]]


def partition(dataset: Dataset, label_counts: IntArray, seed: int) -> Partition:
    """Deal training samples so that client i holds exactly label_counts[i, h] of class h.

    The samples of a class are shuffled and dealt to the clients in turn. No sample is dealt twice
    while its class lasts; once it is used up, dealing goes on from a fresh shuffle of the whole
    class. `label_counts` has shape (clients, classes).
    """
    seed_number(seed)
    counts = _checked(dataset, label_counts)
    start = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    index = np.empty(start[-1], dtype=np.int64)

    by_label = np.argsort(dataset.train_labels, kind="stable")
    held = np.bincount(dataset.train_labels, minlength=dataset.classes)
    members = np.split(by_label, np.cumsum(held)[:-1])
    # Where the block of class h begins, for each client.
    first = start[:-1].copy()
    for label, amount in enumerate(counts.T):
        dealt = _deal(members[label], int(amount.sum()), generator(seed, "partition", label))
        before = np.cumsum(amount) - amount
        index[np.repeat(first - before, amount) + np.arange(len(dealt))] = dealt
        first += amount
    return Partition(start=start, index=index)


def _deal(members: IntArray, amount: int, rng: np.random.Generator) -> IntArray:
    if amount == 0:
        return np.empty(0, dtype=np.int64)
    shuffles = -(-amount // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(shuffles)])[:amount]


def _checked(dataset: Dataset, label_counts: IntArray) -> IntArray:
    counts = np.asarray(label_counts)
    if counts.ndim != 2 or counts.shape[1] != dataset.classes or counts.dtype.kind not in "iu":
        raise StagewiseError(
            f"label_counts: {counts.dtype} of shape {counts.shape}: must be whole numbers of shape "
            f"(clients, {dataset.classes}), the classes of {dataset.name}"
        )
    counts = counts.astype(np.int64)
    if len(wrong := np.argwhere(counts < 0)):
        client, label = wrong[0]
        value = counts[client, label]
        raise StagewiseError(f"label_counts[{client}, {label}] = {value}: must be at least 0")
    whole("label_counts: sum", int(counts.sum(dtype=np.float64)), 0, LARGEST_TOTAL)
    held = np.bincount(dataset.train_labels, minlength=dataset.classes)
    if len(absent := np.flatnonzero((counts.sum(axis=0) > 0) & (held == 0))):
        raise StagewiseError(
            f"label_counts[:, {absent[0]}]: must be 0: {dataset.name} has no training samples of it"
        )
    return counts
