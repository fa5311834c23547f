"""Design F: one SuperLink for all clients; edges are groups inside the cloud's process.

Every update crosses the cloud's links: this design saves no backhaul. It is simple, and good for tests.
"""

from __future__ import annotations

from stagewise.deploy.aggregation import mean_model
from stagewise.deploy.edge_rounds import REAL_TIME, EdgeResult, Time, train_edges
from stagewise.deploy.in_process import links_of
from stagewise.deploy.messages import EdgeOrder, StepReport
from stagewise.deploy.roll_call import Listing, roll_call
from stagewise.deploy.transport import (
    NO_UPDATE,
    ClientReport,
    EdgeReport,
    Order,
    Outcome,
    Presence,
)
from stagewise.world.scenario import Scenario


class Flat:
    """The clients of a scenario at one SuperLink, which stays the caller's."""

    def __init__(self, scenario: Scenario, post: Listing, time: Time = REAL_TIME) -> None:
        self._scenario, self._post, self._time = scenario, post, time
        self._links = links_of(scenario)

    def who_is_there(self, deadline_s: float) -> Presence:
        """The clients that answer, each through all of its links."""
        here = roll_call(self._post, self._scenario.clients.ids, deadline_s, time=self._time)
        return Presence(
            {name: self._links[name] for name in here},
            {name: seconds for name, (_, seconds) in here.items()},
            self._scenario.edges.ids,
        )

    def train_round(self, order: Order) -> Outcome:
        """The edge rounds of all groups side by side, then the cloud's mean (Eq. 3)."""
        began = self._time.now()
        orders = edge_orders(self._scenario, order, order.deadline_s)
        results = train_edges(self._post, orders, order.weights, self._time)
        counted = [result for result in results if result.data]
        weights = order.weights
        if counted:
            models = [result.weights for result in counted]
            weights = mean_model(models, [result.data for result in counted])
        clients = tuple(report for result in results for report in client_reports(result))
        return Outcome(
            weights,
            clients,
            tuple(_edge_report(result) for result in results),
            sum(report.bytes_up for report in clients),
            sum(report.bytes_down for report in clients),
            self._time.now() - began,
        )


def edge_orders(scenario: Scenario, order: Order, deadline_s: float) -> list[EdgeOrder]:
    """What each edge with clients is to do, with the samples that the scenario says they have."""
    index, data = scenario.clients.index, scenario.clients.data
    return [
        EdgeOrder(
            round=order.round,
            edge=edge,
            clients={client: int(data[index[client]]) for client in members},
            edge_rounds=scenario.edge_rounds,
            deadline_s=deadline_s,
        )
        for edge, members in order.groups.items()
    ]


def client_reports(result: EdgeResult) -> list[ClientReport]:
    """The reports of an edge's clients."""
    return [client_report(result.order.edge, report) for report in result.reports]


def client_report(edge: str, report: StepReport) -> ClientReport:
    return ClientReport(
        report.client,
        edge,
        report.edge_round,
        report.fate,
        report.reason,
        report.train_s,
        report.round_trip_s,
        report.bytes_up,
        report.bytes_down,
    )


def _edge_report(result: EdgeResult) -> EdgeReport:
    edge = result.order.edge
    if result.data:
        return EdgeReport(edge, "counted", "", result.data)
    return EdgeReport(edge, "lost", NO_UPDATE, 0)
