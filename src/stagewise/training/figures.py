"""What a round of training shows about its clients, from the forward passes it makes anyway."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.world.scenario import FloatArray, IntArray


class TrainingFigures(NamedTuple):
    """The clients that trained in a round, by rising number; all arrays have shape (clients,)."""

    client: IntArray
    samples: IntArray
    """d_i, how many samples the client has."""
    loss_before: FloatArray
    """The mean loss of the client's first batch: the first local step of the first edge round."""
    loss_after: FloatArray
    """The mean loss of its last batch, before the last local step of the last edge round."""
    update_norm: FloatArray
    """The L2 norm of the change of all parameters over the local steps of the last edge round."""
    seconds: FloatArray
    """Wall time of the client's training in all edge rounds; NaN where it trained with others at
    once, since their shares of that time cannot be told apart."""

    @classmethod
    def of(
        cls, clients: IntArray, samples: IntArray, edge_rounds: Sequence[FloatArray]
    ) -> "TrainingFigures":
        """The figures of a round from those of its edge rounds, as `Backend.train` gives them."""
        order = np.argsort(clients)
        first, last = edge_rounds[0], edge_rounds[-1]
        return cls(
            clients[order],
            samples[order],
            loss_before=first[0, order],
            loss_after=last[1, order],
            update_norm=last[2, order],
            seconds=np.sum([figures[3, order] for figures in edge_rounds], axis=0),
        )

    @classmethod
    def none(cls) -> "TrainingFigures":
        """Of a round in which nobody trained."""
        return cls.of(np.empty(0, np.int64), np.empty(0, np.int64), [np.empty((4, 0))])
