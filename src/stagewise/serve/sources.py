"""What can be looked at: a federation of the store, or a run in a folder, by one set of words."""

from collections.abc import Sequence
from typing import Protocol

from stagewise.checker import check
from stagewise.client.wire import RoundRequest, round_of_request
from stagewise.decisions import DecisionRecord
from stagewise.files import json_decoder
from stagewise.plans import Plan
from stagewise.problem.statement import Mode
from stagewise.runs.directory import RunDirectory
from stagewise.serve.bounds import Optimum, known_bounds
from stagewise.serve.federations import Federations, summary_of
from stagewise.serve.runs_folder import RunsFolder
from stagewise.serve.store import Store
from stagewise.serve.stored_plans import plan_of
from stagewise.serve.trying import Tried, TryRequest, try_round
from stagewise.world.rounds import Round, everybody_online
from stagewise.world.scenario import Scenario

LARGEST_PART = 1000
"""Rounds that are read at once."""


class Source(Protocol):
    """A scenario with rounds that were decided in it."""

    def scenario(self) -> Scenario: ...

    def rounds(self, first: int, count: int) -> tuple[list[Round], list[DecisionRecord]]:
        """So many rounds from number `first` on, and what was decided in each."""
        ...

    def newest(self) -> int:
        """The number of the newest round; -1 before the first."""
        ...

    def plan(self, scenario: Scenario) -> Plan | None:
        """The plan in force, where there is one."""
        ...

    def mode(self) -> Mode:
        """Whether every online long-term client must serve."""
        ...


class FederationSource:
    """A federation."""

    def __init__(self, federations: Federations, name: str) -> None:
        self._federations, self._name = federations, name

    def scenario(self) -> Scenario:
        return self._federations.get(self._name).scenario

    def rounds(self, first: int, count: int) -> tuple[list[Round], list[DecisionRecord]]:
        scenario = self.scenario()
        rows = self._federations.store.decided(self._name, first, count)
        rounds = [
            round_of_request(scenario, json_decoder(RoundRequest).decode(row.asked), row.round)
            for row in rows
        ]
        return rounds, [json_decoder(DecisionRecord).decode(row.answer) for row in rows]

    def newest(self) -> int:
        return int(self._federations.store.federation(self._name).last_round)

    def plan(self, scenario: Scenario) -> Plan | None:
        store = self._federations.store
        number = store.followed(self._name, store.position(self._name).last)
        kept = store.plans(self._name)
        if not kept:
            return None
        return plan_of(store.plan(self._name, number or 0), scenario)

    def mode(self) -> Mode:
        words = summary_of(self._federations.store.federation(self._name)).policy
        return "flexible" if words is None else words.mode


class RunSource:
    """A run."""

    def __init__(self, runs: RunsFolder, name: str) -> None:
        self._directory = RunDirectory(runs.folder(name))
        self._scenario: Scenario | None = None

    def scenario(self) -> Scenario:
        if self._scenario is None:
            self._scenario = self._directory.scenario()
        return self._scenario

    def rounds(self, first: int, count: int) -> tuple[list[Round], list[DecisionRecord]]:
        decisions = self._directory.decisions()[first : first + count]
        rounds = self._directory.online(self.scenario())[first : first + count]
        return rounds[: len(decisions)], decisions

    def newest(self) -> int:
        return self._directory.complete - 1

    def plan(self, scenario: Scenario) -> Plan | None:
        return self._directory.plan(scenario)

    def mode(self) -> Mode:
        how = self._directory.config().plan_b or {}
        return "strict" if how.get("mode") == "strict" else "flexible"


def checks(source: Source, first: int, count: int) -> list[str]:
    """What `stagewise check` says of some rounds."""
    rounds, decisions = source.rounds(first, count)
    return check(source.scenario(), decisions, rounds)


def optima(source: Source, store: Store, first: int, count: int) -> list[Optimum]:
    """The certified optima that are known of some rounds."""
    # Reading ten thousand clients a hundred times over takes long: not where nothing can be found.
    if not store.has_bounds(source.scenario().sha256):
        return []
    return known_bounds(store, source.rounds(first, count)[0])


def tried(source: Source, request: TryRequest) -> Tried:
    """What comes of changes to a round of a source."""
    round_, plan = _starting_round(source, request.round)
    return try_round(round_, plan, source.mode(), request)


def _starting_round(source: Source, index: int | None) -> tuple[Round, Plan | None]:
    """The round that something is tried on, and the plan in force."""
    scenario = source.scenario()
    newest = source.newest()
    wanted = newest if index is None else index
    rounds: Sequence[Round] = source.rounds(wanted, 1)[0] if wanted >= 0 else []
    plan = source.plan(scenario)
    if not rounds:
        return everybody_online(scenario), plan
    # Its scenario must be the one the plan was made for.
    [round_] = rounds
    return round_, None if plan is None else source.plan(round_.scenario)
