"""What a deployed round gave, in the words of the simulator's: from the fates of its updates."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stagewise.decisions import Decision
from stagewise.deploy.exchange import ClientReport, EdgeReport
from stagewise.fates import Fate
from stagewise.outcomes import ClientOutcomes, Outcome, edge_outcomes
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import BoolArray, FloatArray, IntArray


def outcome_of(
    decision: Decision, updates: Iterable[ClientReport], edges: Iterable[EdgeReport] = ()
) -> Outcome:
    """The outcome of a round from the fates of its updates and of its edges' models."""
    scenario, costs = decision.scenario, decision.round.costs
    client = np.flatnonzero(decision.edge_of != UNASSIGNED)
    link = scenario.links.find(client, decision.edge_of[client])
    reports: dict[str, list[ClientReport]] = {scenario.clients.ids[i]: [] for i in client}
    for report in sorted(updates, key=lambda report: report.edge_round):
        reports[report.client].append(report)
    each = [_ClientReports(of) for of in reports.values()]
    predicted_s = np.array([len(one.reports) for one in each], np.int64) * costs.delay_s[link]
    clients = ClientOutcomes(
        client=client,
        edge=decision.edge_of[client],
        samples=scenario.clients.data[client],
        loss_before=_numbers(one.loss_before for one in each),
        loss_after=_numbers(one.loss_after for one in each),
        update_norm=_numbers(one.update_norm for one in each),
        seconds=np.where(
            [one.unmeasured for one in each], predicted_s, [one.seconds for one in each]
        ),
        joules=np.array([one.trained for one in each], np.int64) * costs.energy_j[link],
        bytes=np.array([one.bytes for one in each], np.int64),
        fate=tuple(one.fate for one in each),
    )
    fate_of = {scenario.edges.index[edge.edge]: edge.fate for edge in edges}
    behind = _behind_models(clients.edge, [one.counted_in for one in each])
    return Outcome(decision, clients, edge_outcomes(decision, clients, behind, fate_of))


def _behind_models(edge: IntArray, counted_in: list[set[int]]) -> BoolArray:
    """Which clients are behind their edge's model: those of its last edge round with an update.

    `counted_in` has the edge rounds in which each client's update was counted.
    """
    last: dict[int, int] = {}
    for number, counted in zip(edge.tolist(), counted_in, strict=True):
        last[number] = max(last.get(number, -1), *counted, -1)
    return np.array(
        [
            last[number] in counted
            for number, counted in zip(edge.tolist(), counted_in, strict=True)
        ],
        dtype=np.bool_,
    )


@dataclass(frozen=True)
class _ClientReports:
    """What became of a client's updates in a round, by edge round."""

    reports: list[ClientReport]

    @property
    def fate(self) -> Fate:
        if self._last_counted is not None:
            return "counted"
        return self.reports[-1].fate if self.reports else "lost"

    @property
    def counted_in(self) -> set[int]:
        """The edge rounds in which its update was counted."""
        return {report.edge_round for report in self.reports if report.fate == "counted"}

    @property
    def loss_before(self) -> float | None:
        first = self.reports[0] if self.reports else None
        return None if first is None or first.edge_round > 0 else first.loss_before

    @property
    def loss_after(self) -> float | None:
        return None if self._last_counted is None else self._last_counted.loss_after

    @property
    def update_norm(self) -> float | None:
        return None if self._last_counted is None else self._last_counted.update_norm

    @property
    def unmeasured(self) -> bool:
        """Whether all updates count and nobody looked at a clock."""
        return bool(self.reports) and all(
            report.fate == "counted" and report.round_trip_s is None for report in self.reports
        )

    @property
    def seconds(self) -> float:
        """All edge rounds together; NaN where one was not measured."""
        taken = [report.round_trip_s for report in self.reports]
        return math.nan if None in taken or not taken else sum(filter(None, taken))

    @property
    def trained(self) -> int:
        """The edge rounds in which the client trained, as far as is known."""
        return sum(report.fate != "lost" for report in self.reports)

    @property
    def bytes(self) -> int:
        return sum(report.bytes_up + report.bytes_down for report in self.reports)

    @property
    def _last_counted(self) -> ClientReport | None:
        return next((r for r in reversed(self.reports) if r.fate == "counted"), None)


def _numbers(values: Iterable[float | None]) -> FloatArray:
    """With NaN for what is not known."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
