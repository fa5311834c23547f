"""A round before anything is decided: who is online, which links are up, what each costs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stagewise.errors import StagewiseError, shown
from stagewise.world.checks import Frozen, frozen, instance_of, mask_of, whole
from stagewise.world.costs import ROUND_RULES, LinkCosts, check_costs, link_costs, round_values
from stagewise.world.parts import LINK_RULES
from stagewise.world.scenario import LARGEST_COUNT, BoolArray, FloatArray, Scenario


@dataclass(frozen=True, eq=False)
class Round(Frozen):
    """One round before anything is decided. Every value is checked; nothing in it changes after.

    Parameters
    ----------
    scenario : Scenario
        The system that the round belongs to.
    online : array of bool, shape (clients,)
        Who is online.
    index : int
        The number of the round, from 0: random draws depend on it.
    cpu_hz : array of float, shape (clients,), optional
        The CPU frequencies of this round; NaN where they are the scenario's.
    gain : array of float, shape (links,), optional
        The channel gains of this round; NaN where they are the scenario's.
    delay_s, energy_j : array of float, shape (links,), optional
        Measured seconds and joules of one edge round over each link; NaN where nothing was measured.
    up : array of bool, shape (links,), optional
        Which links are there; all by default. An edge all of whose links are down is not part of
        the round: it needs no data and adds no cost.
    surcharge : array of float, shape (clients,), optional
        What serving costs a client more in this decision, in units of what one client costs. It is
        no part of the round's figures.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> scenario = stagewise.generate.numeric(clients=6, edges=2, seed=0)
    >>> round_ = stagewise.Round(scenario, np.array([True, True, False, True, True, True]), index=3)
    >>> round_.online_ids
    ['c0', 'c1', 'c3', 'c4', 'c5']
    """

    scenario: Scenario
    online: BoolArray
    index: int = 0
    cpu_hz: FloatArray | None = None
    gain: FloatArray | None = None
    delay_s: FloatArray | None = None
    energy_j: FloatArray | None = None
    up: BoolArray | None = None
    surcharge: FloatArray | None = None

    def __post_init__(self) -> None:
        instance_of("scenario", self.scenario, Scenario)
        self._set("index", whole("index", self.index, 0, LARGEST_COUNT))
        self._set("online", mask_of("online", self.online, len(self.scenario.clients), "clients"))
        if self.up is not None:
            self._set("up", mask_of("up", self.up, len(self.scenario.links), "links"))
        given = {name: getattr(self, name) for name in ROUND_RULES}
        for name, values in round_values(self.scenario, given).items():
            self._set(name, values)
        if self._own_costs:
            own = ", ".join(self._own_costs)
            check_costs(
                self.scenario,
                self.costs,
                f"{own}: the delay and energy of client {{1}} must be small enough to represent",
                f"{own}: the round's cost must be small enough to represent",
            )

    @property
    def _own_costs(self) -> dict[str, FloatArray]:
        """What the round says of the costs of links, as `link_costs` takes it."""
        own = {name: getattr(self, name) for name in ("cpu_hz", *LINK_RULES)}
        return {name: values for name, values in own.items() if values is not None}

    @cached_property
    def costs(self) -> LinkCosts:
        """T_ij and E_ij of every link in this round."""
        own = self._own_costs
        return link_costs(self.scenario, **own) if own else self.scenario.costs

    @cached_property
    def usable(self) -> BoolArray:
        """The links over which somebody may serve: they are up and their client is online."""
        online = self.online[self.scenario.links.client]
        return frozen(online if self.up is None else online & self.up)

    @cached_property
    def edges_up(self) -> BoolArray:
        """Which edges are part of the round; shape (edges,)."""
        if self.up is None:
            return frozen(np.ones(len(self.scenario.edges), dtype=np.bool_))
        edges, edge = len(self.scenario.edges), self.scenario.links.edge
        # An edge that never has a link is not gone: it is part of the round, and fails.
        up, ever = (np.bincount(e, minlength=edges) > 0 for e in (edge[self.up], edge))
        return frozen(up | ~ever)

    def surcharged(self, surcharge: FloatArray) -> "Round":
        """The round in which serving costs each client so much more, besides what it does already."""
        before = 0.0 if self.surcharge is None else self.surcharge
        return replace(self, surcharge=before + surcharge)

    @property
    def online_ids(self) -> list[str]:
        """The ids of those who are online."""
        return [self.scenario.clients.ids[client] for client in np.flatnonzero(self.online)]

    def __repr__(self) -> str:
        down = 0 if self.up is None else int((~self.up).sum())
        return (
            f"Round({self.index}: {int(self.online.sum())} of {len(self.online)} clients online"
            f"{f', {down} links down' if down else ''})"
        )


OnlineRounds = Iterable[Round | BoolArray | Iterable[str]]
"""Rounds, or who is online in each: a mask over the clients, or ids."""


def everybody_online(scenario: Scenario) -> Round:
    """The round that a plan is made for."""
    return Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))


def round_of(
    scenario: Scenario, online: "Round | npt.ArrayLike | Iterable[str]", index: int = 0
) -> Round:
    """A round from a mask over the clients, or from the ids of those who are online.

    A round of `scenario` comes back as it is, whatever `index` says.
    """
    if isinstance(online, Round):
        if not _same_system(online.scenario, scenario):
            raise StagewiseError(f"round {online.index}: must be a round of this very scenario")
        return online
    if isinstance(online, np.ndarray):
        return Round(scenario, online, index)
    if isinstance(online, str) or not isinstance(online, Iterable):
        raise StagewiseError(
            f"online = {shown(online)}: must be a Round, a mask over the clients, or their ids"
        )
    mask = np.zeros(len(scenario.clients), dtype=np.bool_)
    for name in online:
        number = client_number(scenario, name, "online")
        if mask[number]:
            raise StagewiseError(f"online: {shown(name)} must not occur twice")
        mask[number] = True
    return Round(scenario, mask, index)


def numbered(scenario: Scenario, rounds: OnlineRounds) -> Iterator[Round]:
    """Rounds of `scenario` in ascending order; who is online alone is numbered by its place."""
    instance_of("scenario", scenario, Scenario)
    if isinstance(rounds, str) or not isinstance(rounds, Iterable):
        raise StagewiseError(f"rounds = {shown(rounds)}: must be a sequence of rounds")
    last = -1
    for place, online in enumerate(rounds):
        round_ = round_of(scenario, online, place)
        if round_.index <= last:
            raise StagewiseError(
                f"rounds[{place}].index = {round_.index}: must be above {last}, that of the round before"
            )
        last = round_.index
        yield round_


def _same_system(one: Scenario, other: Scenario) -> bool:
    """Whether two scenarios have the same clients, edges and links."""
    return one is other or (
        one.clients.ids == other.clients.ids
        and one.edges.ids == other.edges.ids
        and np.array_equal(one.links.edge, other.links.edge)
        and np.array_equal(one.links.start, other.links.start)
    )


def client_number(scenario: Scenario, name: object, field: str) -> int:
    """The number of the client called `name`."""
    number = scenario.clients.index.get(name) if isinstance(name, str) else None
    if number is None:
        raise StagewiseError(f"{field}: {shown(name)} must be the id of a client")
    return number
