"""The simulator behind the transport: everything in this process, nothing on a wire."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stagewise.decisions import numbered_weights
from stagewise.deploy.exchange import (
    ClientReport,
    EdgeReport,
    EdgeResult,
    Presence,
    RoundOrder,
    TrainedRound,
)
from stagewise.runs.defence import updates_seen
from stagewise.world.scenario import Scenario

if TYPE_CHECKING:
    from stagewise.outcomes import RoundAccount
    from stagewise.training import Trainer, TrainingFigures


class InProcess:
    """A `Trainer` that answers for all clients and edges of a scenario.

    Everyone is online, and every update arrives. The trainer belongs to the caller, and so does
    its error where training diverges.
    """

    def __init__(self, scenario: Scenario, trainer: Trainer) -> None:
        self._scenario, self._trainer = scenario, trainer

    def roll_call(self, deadline_s: float) -> Presence:
        """Every client, through all of its links."""
        ids = self._scenario.clients.ids
        edges_of = covering_edges(self._scenario)
        return Presence(edges_of, dict.fromkeys(ids, 0.0), self._scenario.edges.ids)

    def train_round(self, order: RoundOrder) -> TrainedRound:
        """The trainer's round. No link is crossed; the bytes are those that clients would send."""
        began = time.perf_counter()
        clients = self._scenario.clients
        groups = [
            np.array([clients.index[client] for client in members], dtype=np.int64)
            for members in order.groups.values()
        ]
        data = [int(clients.data[group].sum()) for group in groups]
        shares = None
        if order.edge_weights is not None:
            shares = np.array([order.edge_weights[edge] for edge in order.groups]) * data
        weights, figures = self._trainer.train_round(
            order.weights,
            groups,
            order.round,
            edge_weights=shares,
            safeguards=order.safeguards,
            client_weights=numbered_weights(order.client_weights, clients.index, "client"),
        )
        model_bytes = sum(array.nbytes for array in order.weights.values())
        edge_rounds = self._trainer.task.edge_rounds
        known = _by_edge_round(figures, edge_rounds)
        reasons = {} if figures.account is None else figures.account.reasons
        reports = [
            ClientReport(
                *(client, edge, edge_round, "rejected" if reason else "counted", reason),
                bytes_up=model_bytes,
                bytes_down=model_bytes,
                **known.get((clients.index[client], edge_round), {}),
            )
            for edge, members in order.groups.items()
            for edge_round in range(edge_rounds)
            for client in members
            for reason in [reasons.get((edge_round, clients.index[client]), "")]
        ]
        results = [
            self._edge(edge, number, [r for r in reports if r.edge == edge], figures.account)
            for number, edge in enumerate(order.groups)
        ]
        judged = tuple(report for result in results for report in result.clients)
        edges = tuple(result.report for result in results)
        return TrainedRound(weights, judged, edges, 0, 0, time.perf_counter() - began)

    def _edge(
        self, edge: str, number: int, own: list[ClientReport], account: RoundAccount | None
    ) -> EdgeResult:
        """What became of the model of the edge that is the order's `number`th."""
        last = max((report.edge_round for report in own if report.fate == "counted"), default=0)
        clients = self._scenario.clients
        counted = [r.client for r in own if r.edge_round == last and r.fate == "counted"]
        samples = sum(int(clients.data[clients.index[client]]) for client in counted)
        result = EdgeResult(EdgeReport.of_model(edge, samples), None, own)
        if account is None or number not in account.edge_norms:
            return result
        norm = account.edge_norms[number]
        result = replace(result, report=replace(result.report, update_norm=norm))
        reason = account.edge_reasons.get(number)
        return result.refused(reason) if reason else result


def _by_edge_round(
    figures: TrainingFigures, edge_rounds: int
) -> dict[tuple[int, int], dict[str, Any]]:
    """The figures of a round by the client and the edge round that they are of."""
    known: dict[tuple[int, int], dict[str, Any]] = {}
    if figures.account is None:
        return known
    for update in updates_seen(figures.account):
        norm, (rise, foreign) = update.figures
        found = {"update_norm": norm, "bias_rise": rise, "foreign_rise": foreign}
        known[update.client, update.edge_round] = {
            name: value for name, value in found.items() if not math.isnan(value)
        }
    for name, edge_round in (("loss_before", 0), ("loss_after", edge_rounds - 1)):
        values = getattr(figures, name).tolist()
        for client, value in zip(figures.client.tolist(), values, strict=True):
            known[client, edge_round][name] = value
    return known


def covering_edges(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """The edges that cover each client, by their ids."""
    links, edges = scenario.links, scenario.edges.ids
    return {
        client: tuple(edges[j] for j in links.edge[links.start[i] : links.start[i + 1]])
        for i, client in enumerate(scenario.clients.ids)
    }
