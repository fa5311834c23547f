"""What a run learns about wrong updates: how large they may be, and who is not asked for a while."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stagewise.outcomes import RoundAccount, State
from stagewise.robust.labels import BiasRise, LabelRule, OutputBias
from stagewise.robust.norms import NormLimits, learned_limits
from stagewise.robust.rules import Aggregator
from stagewise.robust.safeguards import Safeguards, UpdateFigures, judge_edges, judge_updates
from stagewise.runs.events import Event
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, Scenario

ROUNDS = 20
"""The rounds whose norms are remembered."""
OFFENCES = 2
"""The rounds with a rejected update after which a client is quarantined."""


class SeenUpdate(NamedTuple):
    """An update that arrived in a round; client and edge by their numbers."""

    edge_round: int
    edge: int
    client: int
    figures: UpdateFigures


def updates_seen(account: RoundAccount) -> list[SeenUpdate]:
    """The updates of a round that was trained here."""
    who = account.group.tolist(), account.client.tolist()
    return [
        SeenUpdate(edge_round, edge, client, UpdateFigures(norm, BiasRise(*rise)))
        for edge_round, found in enumerate(
            zip(account.norms.tolist(), account.rises.tolist(), strict=True)
        )
        for edge, client, norm, rise in zip(*who, *found, strict=True)
    ]


class Defence:
    """Learns from the updates of every round, whoever trained it; its state is in the checkpoint.

    The limits for a round follow from the rounds before alone, so that edges need nothing but
    `safeguards` to judge as this does.
    """

    def __init__(
        self,
        scenario: Scenario,
        aggregator: Aggregator,
        quarantine_rounds: int,
        outputs: OutputBias | None = None,
    ) -> None:
        self._scenario, self._aggregator = scenario, aggregator
        held = scenario.clients.label_counts > 0
        self._labels = None if outputs is None else LabelRule(outputs, held)
        self._quarantine_rounds = quarantine_rounds
        self._norms: list[FloatArray] = []
        self._edge_norms: list[FloatArray] = []
        self._offenders: frozenset[int] = frozenset()
        self._offences = np.zeros(len(scenario.clients), np.int64)
        self._until = np.zeros(len(scenario.clients), np.int64)
        """The first round in which a client may serve again."""

    def safeguards(self) -> Safeguards:
        """What the next round is judged by."""
        return Safeguards(
            self._aggregator,
            _limits(self._norms),
            _limits(self._edge_norms),
            self._offenders,
            self._labels,
        )

    def admitted(self, round_: Round) -> Round:
        """The round without those who are quarantined: for the policy they are offline."""
        kept_out = round_.online & (self._until > round_.index)
        return replace(round_, online=round_.online & ~kept_out) if kept_out.any() else round_

    def observe(
        self, index: int, updates: Iterable[SeenUpdate], edges: Mapping[int, float]
    ) -> list[Event]:
        """Learn from a round: what was found of clients' updates, and the norms of edges' models."""
        guard, arrived = self.safeguards(), sorted(updates)
        rejected: set[int] = set()
        events = []
        by_judgement: dict[tuple[int, int], dict[int, UpdateFigures]] = {}
        for edge_round, edge, client, figures in arrived:
            by_judgement.setdefault((edge_round, edge), {})[client] = figures
        for (edge_round, edge), found in by_judgement.items():
            judged = judge_updates(found, guard.updates, guard.offenders, guard.aggregator)
            self._offenders |= {client for client, why in judged.items() if why.by_biases}
            for client, why in judged.items():
                rejected.add(client)
                where = {"edge": self._scenario.edges.ids[edge], "edge_round": edge_round}
                events.append(self._event(index, "rejected", why.reason, client, **where))
        for edge, reason in judge_edges(edges, guard).items():
            name = self._scenario.edges.ids[edge]
            events.append(Event(round=index, kind="rejected", edge=name, reason=reason))
        if arrived:
            norms_of_round = np.array([update.figures.norm for update in arrived])
            self._norms = [*self._norms[1 - ROUNDS :], norms_of_round]
            self._edge_norms = [*self._edge_norms[1 - ROUNDS :], np.array(list(edges.values()))]
        return events + [
            event for client in sorted(rejected) if (event := self._offend(index, client))
        ]

    def state(self) -> State:
        """All of it, for the checkpoint."""
        return {
            "norms": list(self._norms),
            "edge_norms": list(self._edge_norms),
            "offenders": sorted(self._offenders),
            "offences": self._offences,
            "until": self._until,
        }

    def joined_since(self, state: State) -> tuple[str, ...]:
        """The clients of the scenario, by id, that were not yet in it when `state` was given."""
        return self._scenario.clients.ids[len(state["until"]) :] if state else ()

    def restore(self, state: State) -> None:
        """As `state` was given; an empty one is that of a run which has learned nothing."""
        if state:
            new = len(self.joined_since(state))
            self._norms, self._edge_norms = list(state["norms"]), list(state["edge_norms"])
            self._offenders = frozenset(state.get("offenders", ()))  # of earlier versions: none
            self._offences = np.pad(state["offences"], (0, new))
            self._until = np.pad(state["until"], (0, new))

    def _offend(self, index: int, client: int) -> Event | None:
        self._offences[client] += 1
        rounds = self._quarantine_rounds * max(0, int(self._offences[client]) - OFFENCES + 1)
        if rounds == 0:
            return None
        self._until[client] = index + 1 + rounds
        reason = (
            f"{self._offences[client]} rounds with a rejected update: not asked for {rounds} rounds"
        )
        return self._event(index, "quarantined", reason, client)

    def _event(self, index: int, kind: str, reason: str, client: int, **where: object) -> Event:
        name = self._scenario.clients.ids[client]
        return Event(round=index, kind=kind, client=name, reason=reason, **where)  # type: ignore[arg-type]


def _limits(norms: list[FloatArray]) -> NormLimits | None:
    return learned_limits(np.concatenate([np.empty(0), *norms]))
