"""Small rounds, and their clusters by enumeration with the checker's own arithmetic."""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

from helpers import random_scenario
from references import edges_of, plain_kld, random_assignment
from stagewise.checker.equations import Serving, link_cost
from stagewise.compiled import NONE
from stagewise.exact.columns import Columns
from stagewise.exact.prices import Prices
from stagewise.plan_a.planners import plan
from stagewise.plans import Plan
from stagewise.problem.statement import p2
from stagewise.search.instance import Instance, build_instance
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario, Weights

CLIENTS, EDGES = 10, 3
WEIGHTS = [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)]


@dataclass(frozen=True)
class Case:
    """A round, the clients that must serve in it, and the problem as the pool sees it."""

    round_: Round
    pinned: np.ndarray
    instance: Instance

    @property
    def scenario(self) -> Scenario:
        return self.round_.scenario


def case_of(round_: Round, pinned: np.ndarray | None = None) -> Case:
    if pinned is None:
        pinned = np.full(len(round_.online), -1)
    pinned = np.where(round_.online, pinned, -1)
    return Case(round_, pinned, build_instance(p2(round_, pinned)))


@cache
def pool_plan(clients: int, edges: int, seed: int) -> Plan:
    """A pool plan of a system after Table I."""
    return plan(numeric(clients=clients, edges=edges, seed=seed), method="pool", seed=seed)


def small_case(seed: int, *, pinned: bool = False, loose: bool = False) -> Case:
    """Ten clients at three edges, nine in ten of them online, under limits of every kind.

    Most of these have no feasible assignment; most of the `loose` ones do.
    """
    rng = np.random.default_rng(seed)
    scenario = random_scenario(
        seed,
        CLIENTS,
        EDGES,
        coverage=0.8,
        limits=Limits(
            data_min=float(rng.choice([0, 60, 120] if loose else [0, 60, 120, 250])),
            kld_max=float(rng.choice([0.5, 0.8, 3.0] if loose else [0, 0.2, 0.5, 3.0])),
        ),
        weights=Weights(*WEIGHTS[seed % 3]),
        capacity=(3, 5) if loose else (1, 5),
        reference=bool(seed % 2),
    )
    round_ = Round(scenario, rng.random(CLIENTS) < 0.9)
    return case_of(round_, random_assignment(scenario, rng, share=0.3) if pinned else None)


def random_prices(seed: int, scenario: Scenario) -> Prices:
    """Some clients for nothing, some dear; the weight of delay spread unevenly."""
    rng = np.random.default_rng(seed + 1)
    clients, edges = len(scenario.clients), len(scenario.edges)
    share = rng.dirichlet(np.ones(edges))
    return Prices(
        rng.exponential(0.5, clients) * rng.integers(0, 2, clients), scenario.weights.delay * share
    )


def all_clusters(case: Case, edge: int, prices: Prices) -> dict[frozenset[int], float]:
    """The free members of every cluster of `edge`, and what it costs at `prices`."""
    scenario, must = case.scenario, np.flatnonzero(case.pinned == edge).tolist()
    online = np.flatnonzero(case.round_.online & (case.pinned == -1)).tolist()
    free = [client for client in online if edge in edges_of(scenario, client)]
    most = int(scenario.edges.capacity[edge]) - len(must)
    clusters = {}
    for size in range(most + 1):
        for members in itertools.combinations(free, size):
            if keeps_limits(scenario, [*must, *members]):
                clusters[frozenset(members)] = cost_at(case, edge, [*must, *members], prices)
    return clusters


def keeps_limits(scenario: Scenario, members: list[int]) -> bool:
    """(9a) and (9b), and not nobody."""
    sums = scenario.clients.label_counts[members].sum(axis=0).tolist()
    if not members or sum(sums) < scenario.limits.data_min:
        return False
    return plain_kld(sums, scenario.target.tolist()) <= scenario.limits.kld_max + 1e-9


def cost_at(case: Case, edge: int, members: list[int], prices: Prices) -> float:
    """What a cluster costs where clients and seconds have a price."""
    delay, energy = delay_and_energy(case, edge, members)
    owed = float(prices.client[members].sum())
    return float(case.scenario.weights.energy * energy + prices.delay[edge] * delay + owed)


def delay_and_energy(case: Case, edge: int, members: list[int]) -> tuple[float, float]:
    """An edge's delay and energy in the round with these members, uplink included."""
    scenario, round_ = case.scenario, case.round_
    links = scenario.links.find(np.array(members, dtype=np.int64), np.full(len(members), edge))
    costs = [
        link_cost(scenario, Serving(client, edge, int(link)), round_)
        for client, link in zip(members, links, strict=True)
    ]
    repeat = scenario.edge_rounds
    slowest = max((delay for delay, _ in costs), default=0.0)
    return (
        repeat * slowest + float(scenario.edges.uplink_delay_s[edge]),
        repeat * sum(energy for _, energy in costs) + float(scenario.edges.uplink_energy_j[edge]),
    )


def member_sets(columns: Columns) -> list[frozenset[int]]:
    return [frozenset(row[row != NONE].tolist()) for row in columns.members]
