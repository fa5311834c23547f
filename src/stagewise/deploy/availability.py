"""Who is there, as observed: the answers to a poll become a round, and polls become estimates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stagewise.deploy.transport import Presence
from stagewise.world.estimator import ParticipationEstimator
from stagewise.world.rounds import Round
from stagewise.world.scenario import BoolArray, FloatArray, Scenario


@dataclass(frozen=True, eq=False)
class ObservedRound(Round):
    """A round in which not every link of an online client needs to be there."""

    reachable: BoolArray | None = None
    """Shape (links,): the links through which a client answered; None where it is all of them."""

    @property
    def whole(self) -> bool:
        """Whether every link of every online client is there."""
        if self.reachable is None:
            return True
        return bool(self.reachable[self.online[self.scenario.links.client]].all())


def observed_round(
    scenario: Scenario, presence: Presence, cpu_hz: FloatArray | None = None
) -> ObservedRound:
    """The round of those who answered.

    A client is online if it answered through at least one edge that covers it and that answered, too.
    Strangers, and edges that do not cover a client, count for nothing.
    """
    links, clients, edges = scenario.links, scenario.clients.ids, scenario.edges.ids
    answered = set(presence.edges)
    reachable = np.array(
        [
            edges[edge] in answered and edges[edge] in presence.edges_of.get(clients[client], ())
            for client, edge in zip(links.client.tolist(), links.edge.tolist(), strict=True)
        ],
        dtype=np.bool_,
    )
    online = np.zeros(len(clients), dtype=np.bool_)
    online[links.client[reachable]] = True
    return ObservedRound(scenario, online, cpu_hz=cpu_hz, reachable=reachable)


def estimates_after(scenario: Scenario, polls: Sequence[BoolArray]) -> Scenario:
    """The scenario with the estimates that `polls` before the first round give (Eq. 6).

    Each is a mask over the clients. What the scenario said counts as the older of two windows.
    """
    if not polls:
        return scenario
    estimator = ParticipationEstimator(scenario.clients.online_probability, window=len(polls))
    for online in polls:
        estimator.observe(online)
    # Sums of weights may exceed 1 by a rounding error.
    return scenario.with_online_probability(np.clip(estimator.probabilities(), 0.0, 1.0))
