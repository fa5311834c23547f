"""The account of a round: every update that was asked for, each with exactly one fate."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from stagewise.deploy.exchange import ClientReport, EdgeReport, RoundOrder, TrainedRound

UNREPORTED = "the transport did not report what became of it"


def reconcile(
    order: RoundOrder, trained: TrainedRound, edge_rounds: int
) -> tuple[TrainedRound, tuple[str, ...]]:
    """A round with one report for each update and edge that its order asked for; and its faults.

    An update without a report is lost; of several reports the first stands; reports nobody asked
    for are left out. Each of these is a fault, and so is an update that is counted although its
    edge's model is not: the model knows nothing of it. A transport without a bug has no faults.
    """
    expected = [
        ClientReport(client, edge, edge_round, "lost", UNREPORTED)
        for edge, members in order.groups.items()
        for edge_round in range(edge_rounds)
        for client in members
    ]
    updates = {_name(report): report for report in reversed(trained.clients)}
    edges = {report.edge: report for report in reversed(trained.edges)}
    not_counted = {report.edge: report.fate for report in trained.edges if report.fate != "counted"}
    faults = (
        *_differences("update", map(_name, expected), map(_name, trained.clients)),
        *_differences("edge", order.groups, (report.edge for report in trained.edges)),
        *(
            f"update {_name(report)}: counted, but the edge's model is {not_counted[report.edge]}"
            for report in trained.clients
            if report.fate == "counted" and report.edge in not_counted
        ),
    )
    clients = tuple(updates.get(_name(report), report) for report in expected)
    lost = {edge: EdgeReport(edge, "lost", UNREPORTED, 0) for edge in order.groups}
    models = tuple((lost | edges)[edge] for edge in order.groups)
    return replace(trained, clients=clients, edges=models), faults


def _name(report: ClientReport) -> str:
    return f"{report.client} at {report.edge} in edge round {report.edge_round}"


def _differences(what: str, expected: Iterable[str], reported: Iterable[str]) -> list[str]:
    asked, times = dict.fromkeys(expected), Counter(reported)
    lines = [f"{what} {name}: no report" for name in asked if name not in times]
    for name, count in times.items():
        if name not in asked:
            lines.append(f"{what} {name}: not asked for")
        elif count > 1:
            lines.append(f"{what} {name}: {count} reports")
    return lines
