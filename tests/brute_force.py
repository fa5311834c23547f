"""Optima by enumeration: every set of clients at every edge, for a handful of clients."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stagewise.checker.equations import Serving, link_cost
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Optimum:
    """The least value of a feasible assignment, infinite where there is none, and where it is."""

    value: float
    assignment: np.ndarray | None

    @property
    def feasible(self) -> bool:
        return self.assignment is not None


def best_decision(
    round_: Round,
    pinned: np.ndarray | None = None,
    keep_kld: bool = True,
    in_round: np.ndarray | None = None,
) -> Optimum:
    """P0 solved by enumeration; with `pinned` (an edge for each client, or -1) P2.

    An edge that is not `in_round` (default: one all of whose links are down) has no clients and
    costs nothing.
    """
    scenario = round_.scenario
    data, kld = _data_and_kld(scenario)
    good = data >= scenario.limits.data_min
    if keep_kld:
        good &= kld <= scenario.limits.kld_max + TOLERANCE
    if in_round is None:
        in_round = _in_round(round_)
    return _cheapest(round_, good, np.zeros(len(good)), pinned, in_round)


def best_plan(scenario: Scenario) -> Optimum:
    """P1 solved by enumeration under the true risks."""
    kld_risk, data_risk = true_risks(scenario)
    limits = scenario.limits
    good = (kld_risk <= limits.kld_risk + TOLERANCE) & (data_risk <= limits.data_risk + TOLERANCE)
    everybody = Round(scenario, np.ones(len(scenario.clients), dtype=np.bool_))
    reward = np.zeros(len(good))
    for clients in range(1, len(good)):
        chances = scenario.clients.online_probability[_members(clients, scenario)]
        reward[clients] = math.prod(chances.tolist()) ** (1 / len(chances))
    return _cheapest(everybody, good, scenario.weights.continuity * reward)


def true_risks(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """(KLD risk, data risk) of an edge for every set of long-term clients, as a bit mask."""
    limits = scenario.limits
    data, kld = _data_and_kld(scenario)
    unbalanced = kld > limits.kld_max - limits.kld_margin + TOLERANCE
    short = data < limits.data_min + limits.data_margin
    chance = scenario.clients.online_probability.tolist()
    risks = np.ones((2, len(data)))
    for clients in range(1, len(data)):
        members = _members(clients, scenario)
        risks[:, clients] = 0
        for online in _subsets(clients):
            likelihood = math.prod(chance[i] if online >> i & 1 else 1 - chance[i] for i in members)
            risks[:, clients] += likelihood * np.array([unbalanced[online], short[online]])
    return risks[0], risks[1]


def _cheapest(
    round_: Round,
    good: np.ndarray,
    reward: np.ndarray,
    pinned: np.ndarray | None = None,
    in_round: np.ndarray | None = None,
) -> Optimum:
    """The least cost less `reward` (by who serves) with a good set of clients at every edge."""
    scenario, weights = round_.scenario, round_.scenario.weights
    # What has been put together so far: who serves, the slowest edge, the energy, the sets.
    who, delay, energy = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    chosen = np.zeros((1, 0), dtype=np.int64)
    for edge in range(len(scenario.edges)):
        if in_round is None or in_round[edge]:
            sets, set_delay, set_energy = _sets_of(round_, edge, good, pinned)
        else:
            sets, set_delay, set_energy = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
        left, right = np.nonzero((who[:, None] & sets[None, :]) == 0)
        who = who[left] | sets[right]
        delay = np.maximum(delay[left], set_delay[right])
        energy = energy[left] + set_energy[right]
        chosen = np.column_stack([chosen[left], sets[right]])
    if len(who) == 0:
        return Optimum(math.inf, None)
    value = weights.delay * delay + weights.energy * energy - reward[who]
    best = int(np.argmin(value))
    assignment = np.full(len(scenario.clients), -1, dtype=np.int64)
    for edge, clients in enumerate(chosen[best].tolist()):
        assignment[_members(clients, scenario)] = edge
    return Optimum(float(value[best]), assignment)


def _in_round(round_: Round) -> np.ndarray:
    """Every edge but those that have links, all of them down."""
    edges, links = len(round_.scenario.edges), round_.scenario.links
    found = np.ones(edges, dtype=np.bool_)
    for edge in range(edges if round_.up is not None else 0):
        own = [bool(round_.up[k]) for k in range(len(links)) if links.edge[k] == edge]
        found[edge] = not own or any(own)
    return found


def _sets_of(
    round_: Round, edge: int, good: np.ndarray, pinned: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sets that edge may have, with the edge's delay and energy."""
    scenario, links = round_.scenario, round_.scenario.links
    cost = {
        int(links.client[link]): link_cost(
            scenario, Serving(int(links.client[link]), edge, link), round_
        )
        for link in np.flatnonzero(links.edge == edge).tolist()
        if round_.online[links.client[link]] and (round_.up is None or round_.up[link])
    }
    must = 0
    if pinned is not None:
        must = sum(1 << i for i in np.flatnonzero(pinned == edge).tolist())
        cost = {i: c for i, c in cost.items() if pinned[i] in (-1, edge)}
    may = sum(1 << i for i in cost)
    sets, delay, energy = [], [], []
    for clients in np.flatnonzero(good).tolist():
        members = _members(clients, scenario)
        if not members or clients & ~may or must & ~clients:
            continue
        if len(members) > scenario.edges.capacity[edge]:
            continue
        repeat = scenario.edge_rounds
        slowest = max(cost[i][0] for i in members)
        spent = sum(cost[i][1] for i in members)
        sets.append(clients)
        delay.append(repeat * slowest + float(scenario.edges.uplink_delay_s[edge]))
        energy.append(repeat * spent + float(scenario.edges.uplink_energy_j[edge]))
    return np.array(sets, dtype=np.int64), np.array(delay), np.array(energy)


def _data_and_kld(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """The data and the divergence of every set of clients, as a bit mask; infinite for nobody."""
    count = len(scenario.clients)
    within = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    sums = within @ scenario.clients.label_counts
    data = sums.sum(axis=1)
    kld = [math.inf, *(_divergence(row, scenario.target) for row in sums[1:].tolist())]
    return data, np.array(kld)


def _divergence(sums: Sequence[int], target: np.ndarray) -> float:
    total = sum(sums)
    return sum(y / total * math.log(y / total / q) for y, q in zip(sums, target, strict=True) if y)


def _members(clients: int, scenario: Scenario) -> list[int]:
    return [i for i in range(len(scenario.clients)) if clients >> i & 1]


def _subsets(clients: int) -> Iterator[int]:
    """Every set within `clients`, the empty one last."""
    subset = clients
    while subset:
        yield subset
        subset = (subset - 1) & clients
    yield 0
