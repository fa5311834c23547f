"""What was measured beside what the scenario predicts, and the links' costs estimated from it."""

from collections import deque
from collections.abc import Collection, Iterable

import numpy as np

from stagewise.deploy.exchange import ClientReport
from stagewise.world.costs import LinkCosts, edge_costs
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario

WORTH = 2.0
"""How many observations it takes to weigh as much as what was known without them."""

KEPT = 20
"""Older observations of a client or a link are forgotten."""

LATE = 1.5
"""A late update took at least the time it had; it is assumed to have taken this many times as long."""


class Ratios:
    """Measured over predicted for each of several things, in groups: medians, shrunk twice.

    What is known of a thing is drawn towards its group, a group towards all, all towards 1; the more
    was observed, the less. Works on logarithms, so that twice and half are equally far off.
    """

    def __init__(self, group: IntArray) -> None:
        self._group = group
        self.seen: list[deque[float]] = [deque(maxlen=KEPT) for _ in group]

    def observe(self, thing: int, measured: float, predicted: float) -> None:
        """Take in one measurement; both in the same unit, above 0."""
        self.seen[thing].append(float(np.log(measured / predicted)))

    def values(self) -> FloatArray:
        """The present ratio of each thing; all 1 before anything was observed."""
        things = list(zip(self._group.tolist(), self.seen, strict=True))
        overall = _shrunk([value for seen in self.seen for value in seen], 0.0)
        by_group: dict[int, list[float]] = {}
        for group, seen in things:
            by_group.setdefault(group, []).extend(seen)
        groups = {group: _shrunk(seen, overall) for group, seen in by_group.items()}
        return np.exp([_shrunk(seen, groups[group]) for group, seen in things])


def _shrunk(seen: Collection[float], towards: float) -> float:
    if not seen:
        return towards
    return (len(seen) * float(np.median(list(seen))) + WORTH * towards) / (len(seen) + WORTH)


class MeasuredCosts:
    """The time of every link, from the scenario's and what training took so far."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._links = Ratios(scenario.links.client)

    def learn(self, updates: Iterable[ClientReport], deadline_s: float, engine_s: float) -> None:
        """Take in a round's updates; `engine_s` is what a message costs whatever it carries."""
        scenario = self._scenario
        for update in updates:
            client = scenario.clients.index[update.client]
            edge = scenario.edges.index[update.edge]
            link = int(scenario.links.find(np.array([client]), np.array([edge]))[0])
            seconds = _seconds(update, deadline_s / scenario.edge_rounds, engine_s)
            predicted = float(scenario.costs.delay_s[link])
            if seconds is not None and link >= 0 and predicted > 0:
                self._links.observe(link, seconds, predicted)

    @property
    def link_delay_s(self) -> FloatArray | None:
        """What an edge round takes over each link, by what was measured; None before anything was."""
        if not any(self._links.seen):
            return None
        return np.asarray(self._scenario.costs.delay_s * self._links.values())

    def delay_s(self, edge_of: IntArray) -> float:
        """T of Eq. 4 for an assignment, with the links' measured times."""
        costs, delay_s = self._scenario.costs, self.link_delay_s
        measured = costs if delay_s is None else LinkCosts(delay_s, costs.energy_j)
        return edge_costs(self._scenario, measured, edge_of).round_delay_s


def _seconds(update: ClientReport, available_s: float, engine_s: float) -> float | None:
    """How long the client and its link took without the engine; None where nothing is known."""
    trained_s = update.train_s or 0.0
    if update.round_trip_s is not None:
        taken = max(trained_s, update.round_trip_s - engine_s)
    elif update.fate == "late":
        taken = max(trained_s, LATE * available_s - engine_s)
    else:
        return None
    return taken if taken > 0 else None


def modelled_energy_j(
    round_: Round, updates: Iterable[ClientReport], edges: Iterable[str]
) -> float:
    """Eq. 5 over what took place: updates that were trained, and edges whose model arrived.

    Nothing measures joules: this is the scenario's energy of each. An update that was lost is left
    out, whatever its client spent before it went.
    """
    scenario = round_.scenario
    trained = [update for update in updates if update.fate != "lost"]
    client = np.array([scenario.clients.index[update.client] for update in trained], np.int64)
    edge = np.array([scenario.edges.index[update.edge] for update in trained], np.int64)
    link = scenario.links.find(client, edge)
    sent = [scenario.edges.index[name] for name in edges]
    return float(round_.costs.energy_j[link].sum() + scenario.edges.uplink_energy_j[sent].sum())
