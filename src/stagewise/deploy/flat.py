"""Design F: one SuperLink for all clients; edges are groups inside the cloud's process.

Every update crosses the cloud's links: this design saves no backhaul. It is simple, and good for tests.
"""

from __future__ import annotations

from stagewise.deploy.channel import MessageChannel, roll_call
from stagewise.deploy.edge_rounds import edge_orders, train_edges, trained_round
from stagewise.deploy.exchange import Presence, RoundOrder, TrainedRound
from stagewise.deploy.in_process import covering_edges
from stagewise.world.scenario import Scenario


class Flat:
    """The clients of a scenario at one SuperLink, which stays the caller's."""

    def __init__(self, scenario: Scenario, channel: MessageChannel) -> None:
        self._scenario, self._channel = scenario, channel
        self._covering = covering_edges(scenario)
        self._before: set[str] = set()

    def roll_call(self, deadline_s: float) -> Presence:
        """The clients that are in touch, each through all of its links."""
        _, found_s = roll_call(self._channel, self._before, deadline_s)
        found_s = {name: seconds for name, seconds in found_s.items() if name in self._covering}
        self._before = set(found_s)
        covering = {name: self._covering[name] for name in found_s}
        return Presence(covering, found_s, self._scenario.edges.ids)

    def train_round(self, order: RoundOrder) -> TrainedRound:
        """The edge rounds of all groups side by side, then the cloud's mean (Eq. 3)."""
        began = self._channel.now()
        orders = edge_orders(self._scenario, order, order.deadline_s)
        edges = train_edges(self._channel, orders, order.weights)
        bytes_up = sum(report.bytes_up for edge in edges for report in edge.clients)
        bytes_down = sum(report.bytes_down for edge in edges for report in edge.clients)
        return trained_round(order, edges, bytes_up, bytes_down, self._channel.now() - began)
