"""What a deployed round gave, in the words of the simulator's: from the fates of its updates."""

from collections.abc import Iterable

import numpy as np

from stagewise.decisions import Decision
from stagewise.deploy.exchange import ClientReport, EdgeReport
from stagewise.outcomes import ClientOutcomes, Outcome, edge_outcomes
from stagewise.world.costs import UNASSIGNED
from stagewise.world.scenario import BoolArray, FloatArray, IntArray


def outcome_of(
    decision: Decision, updates: Iterable[ClientReport], edges: Iterable[EdgeReport] = ()
) -> Outcome:
    """The outcome of a round from the fates of its updates and of its edges' models."""
    scenario, costs = decision.scenario, decision.round.costs
    client = np.flatnonzero(decision.edge_of != UNASSIGNED)
    edge = decision.edge_of[client]
    link = scenario.links.find(client, edge)
    by_client: dict[str, list[ClientReport]] = {scenario.clients.ids[i]: [] for i in client}
    for report in sorted(updates, key=lambda report: report.edge_round):
        by_client[report.client].append(report)
    reports = list(by_client.values())
    counted = [[one for one in of if one.fate == "counted"] for of in reports]
    first = [of[0].loss_before if of and of[0].edge_round == 0 else None for of in reports]
    fates = zip(reports, counted, strict=True)
    clients = ClientOutcomes(
        client=client,
        edge=edge,
        samples=scenario.clients.data[client],
        loss_before=np.array(first, np.float64),
        loss_after=_of_last(counted, "loss_after"),
        update_norm=_of_last(counted, "update_norm"),
        seconds=_seconds(reports, costs.delay_s[link]),
        joules=_sums([one.fate != "lost" for one in of] for of in reports) * costs.energy_j[link],
        bytes=_sums([one.bytes_up + one.bytes_down for one in of] for of in reports),
        fate=tuple((good or of)[-1].fate if of else "lost" for of, good in fates),
    )
    fate_of = {scenario.edges.index[each.edge]: each.fate for each in edges}
    behind = _behind_models(edge, counted)
    return Outcome(decision, clients, edge_outcomes(decision, clients, behind, fate_of))


def _sums(numbers: Iterable[list[int]]) -> IntArray:
    return np.array([sum(each) for each in numbers], np.int64)


def _of_last(counted: list[list[ClientReport]], name: str) -> FloatArray:
    """A figure of each client's last update that was counted; NaN where it is not known."""
    return np.array([getattr(of[-1], name) if of else None for of in counted], np.float64)


def _seconds(reports: list[list[ClientReport]], predicted_s: FloatArray) -> FloatArray:
    """All edge rounds together; NaN where one was not measured.

    Where all of them count and nobody looked at a clock, it is what is predicted of an edge round.
    """
    taken = [[one.round_trip_s for one in of] for of in reports]
    measured = [np.sum(np.array(of or [None], np.float64)) for of in taken]
    unmeasured = [
        all(one.fate == "counted" for one in of) and set(times) == {None}
        for of, times in zip(reports, taken, strict=True)
    ]
    edge_rounds = np.array([len(of) for of in reports], np.int64)
    return np.where(unmeasured, edge_rounds * predicted_s, measured)


def _behind_models(edge: IntArray, counted: list[list[ClientReport]]) -> BoolArray:
    """Which clients are behind their edge's model: those of its last edge round with an update."""
    counted_in = [{one.edge_round for one in of} for of in counted]
    last: dict[int, int] = {}
    for number, rounds in zip(edge.tolist(), counted_in, strict=True):
        last[number] = max({-1, last.get(number, -1), *rounds})
    pairs = zip(edge.tolist(), counted_in, strict=True)
    return np.array([last[number] in rounds for number, rounds in pairs], np.bool_)
