"""The account of a round: every update that was asked for, each with exactly one fate."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, get_args

from stagewise.deploy.transport import ClientReport, EdgeReport, Fate, Order, Outcome

K = TypeVar("K")
V = TypeVar("V")

FATES: tuple[Fate, ...] = get_args(Fate)
UNREPORTED = "the transport did not say what became of it"


@dataclass(frozen=True)
class Account:
    """What became of what a round asked for."""

    updates: tuple[ClientReport, ...]
    """One for each update asked for, by edge, edge round and client."""
    edges: tuple[EdgeReport, ...]
    """One for each edge that was to train."""
    faults: tuple[str, ...]
    """What did not add up, a line each; nothing in a transport without a bug."""


def settle(order: Order, outcome: Outcome, edge_rounds: int) -> Account:
    """Hold the outcome against the order.

    An update without a report is lost; of several reports the first stands; reports nobody asked for
    are left out. Each of these is a fault, and so is an update that is counted although its edge's
    model is not: the model knows nothing of it.
    """
    asked = [
        (edge, edge_round, client)
        for edge, members in order.groups.items()
        for edge_round in range(edge_rounds)
        for client in members
    ]
    faults: list[str] = []
    reports = _by_key(
        ((report.edge, report.edge_round, report.client), report) for report in outcome.clients
    )
    edges = _by_key((report.edge, report) for report in outcome.edges)
    faults += _differences("update", [_words(*key) for key in asked], _named(reports))
    faults += _differences("edge", list(order.groups), {k: len(v) for k, v in edges.items()})
    faults += _uncounted_edges(outcome)
    updates = tuple(reports[key][0] if key in reports else _lost(*key) for key in asked)
    edge_reports = tuple(
        edges[edge][0] if edge in edges else EdgeReport(edge, "lost", UNREPORTED, 0)
        for edge in order.groups
    )
    return Account(updates, edge_reports, tuple(faults))


def tally(fates: Iterable[Fate]) -> dict[Fate, int]:
    """How many ended in each fate."""
    count = Counter(fates)
    return {fate: count[fate] for fate in FATES}


def _by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _words(edge: str, edge_round: int, client: str) -> str:
    return f"{client} at {edge} in edge round {edge_round}"


def _named(reports: dict[tuple[str, int, str], list[ClientReport]]) -> dict[str, int]:
    return {_words(*key): len(found) for key, found in reports.items()}


def _differences(what: str, asked: list[str], reported: dict[str, int]) -> list[str]:
    known = set(asked)
    lines = [f"{what} {name}: no report" for name in asked if name not in reported]
    for name, times in reported.items():
        if name not in known:
            lines.append(f"{what} {name}: not asked for")
        elif times > 1:
            lines.append(f"{what} {name}: {times} reports")
    return lines


def _uncounted_edges(outcome: Outcome) -> list[str]:
    gone = {report.edge: report.fate for report in outcome.edges if report.fate != "counted"}
    return [
        f"update {_words(report.edge, report.edge_round, report.client)}: counted, but the edge's "
        f"model is {gone[report.edge]}"
        for report in outcome.clients
        if report.fate == "counted" and report.edge in gone
    ]


def _lost(edge: str, edge_round: int, client: str) -> ClientReport:
    return ClientReport(client, edge, edge_round, "lost", UNREPORTED, None, None, 0, 0)
