"""How long a round and a roll call may take: the delay times a factor, and the engine's time."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from stagewise.deploy.exchange import ClientReport
from stagewise.world.checks import finite

KEPT = 60
"""How many messages are remembered."""

FIRST_TRAINING_S = 15.0
"""What the first message to train may cost more than a roll call's: PyTorch is imported."""

UNKNOWN_ANSWER_S = 20.0
"""The same for the answer to a roll call."""

LEAST_ROLL_CALL_S = 15.0
LEAST_ROUND_S = 5.0

_HIGH = 0.95


class Deadlines:
    """Learns what the engine takes for a message beside the training, and allows for it."""

    def __init__(self, factor: float, hops: int) -> None:
        """`hops`: how many messages one after the other reach a client, 2 where an edge is between."""
        self.factor = finite("deadline_factor", factor, 1)
        self._hops = hops
        self._messages: deque[float] = deque(maxlen=KEPT)
        self._answers: deque[float] = deque(maxlen=KEPT)

    def learn_answers(self, answer_s: Iterable[float]) -> None:
        """How long the answers to a roll call took, in seconds."""
        self._answers.extend(answer_s)

    def learn_updates(self, updates: Iterable[ClientReport]) -> None:
        """What became of a round's updates."""
        self._messages.extend(
            max(0.0, update.round_trip_s - (update.train_s or 0.0))
            for update in updates
            if update.round_trip_s is not None
        )

    @property
    def message_s(self) -> float:
        """What a message to train costs beside training: the median of those seen, else 0."""
        return float(np.median(self._messages)) if self._messages else 0.0

    def allowance_s(self, edge_rounds: int) -> float:
        """For the engine: a message in every edge round, and the edge's own where it has one."""
        first = FIRST_TRAINING_S + _high(self._answers, UNKNOWN_ANSWER_S)
        return self.factor * self._messages_of(edge_rounds) * _high(self._messages, first)

    def engine_s(self, edge_rounds: int) -> float:
        """What the engine should take for a round's messages."""
        return self._messages_of(edge_rounds) * self.message_s

    def round_s(self, delay_s: float, edge_rounds: int) -> float:
        """The deadline of a round whose training and sending should take `delay_s`."""
        return max(LEAST_ROUND_S, self.factor * delay_s + self.allowance_s(edge_rounds))

    def roll_call_s(self) -> float:
        """How long to wait for answers: who is silent for longer is offline."""
        hops = max(1, self._hops)
        return max(LEAST_ROLL_CALL_S, self.factor * hops * _high(self._answers, UNKNOWN_ANSWER_S))

    def _messages_of(self, edge_rounds: int) -> int:
        """Messages that follow one another in a round."""
        return 0 if self._hops == 0 else edge_rounds + self._hops - 1


def _high(seen: deque[float], unknown: float) -> float:
    return float(np.quantile(seen, _HIGH)) if seen else unknown
