"""The simulator behind the transport: everything in this process, nothing on a wire."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from stagewise.deploy.transport import (
    ClientReport,
    EdgeReport,
    Order,
    Outcome,
    Presence,
)
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.training import TrainingTeam


class InProcess:
    """A `TrainingTeam` that answers for all clients and edges of a scenario.

    Everyone is there, and every update is counted. The team belongs to the
    caller, and so does its error where training diverges.
    """

    def __init__(self, scenario: Scenario, team: TrainingTeam) -> None:
        self._scenario, self._team = scenario, team

    def who_is_there(self, deadline_s: float) -> Presence:
        """Every client, through all of its links."""
        ids = self._scenario.clients.ids
        return Presence(links_of(self._scenario), dict.fromkeys(ids, 0.0), self._scenario.edges.ids)

    def train_round(self, order: Order) -> Outcome:
        """The team's round; no bytes cross any link."""
        began = time.perf_counter()
        clients = self._scenario.clients
        groups = [
            np.array([clients.index[client] for client in members], dtype=np.int64)
            for members in order.groups.values()
        ]
        weights = self._team.train_round(order.weights, groups, order.round)
        reports = tuple(
            ClientReport(client, edge, edge_round, "counted", "", None, None, 0, 0)
            for edge, members in order.groups.items()
            for edge_round in range(self._team.task.edge_rounds)
            for client in members
        )
        edges = tuple(
            EdgeReport(edge, "counted", "", int(clients.data[group].sum()))
            for edge, group in zip(order.groups, groups, strict=True)
        )
        return Outcome(weights, reports, edges, 0, 0, time.perf_counter() - began)


def links_of(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """The edges that cover each client, by their ids."""
    links, edges = scenario.links, scenario.edges.ids
    return {
        client: tuple(edges[j] for j in links.edge[links.start[i] : links.start[i + 1]])
        for i, client in enumerate(scenario.clients.ids)
    }
