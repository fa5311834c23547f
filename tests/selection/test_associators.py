"""Associators against the same rules, said again in plain Python."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute_force import best_decision
from helpers import random_scenario
from stagewise.decisions import Answer, contract_violation, make_decision
from stagewise.selection.associators import (
    Balanced,
    Hashed,
    LeastDelay,
    Nearest,
    PoolAssociator,
    RandomEdge,
)
from stagewise.selection.selector import candidates
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round, everybody_online


def a_round(seed: int, capacity: tuple[int, int] = (1, 4), index: int = 0) -> Round:
    scenario = random_scenario(seed, clients=12, edges=3, capacity=capacity)
    rng = np.random.default_rng(seed)
    return Round(scenario, rng.random(12) < 0.8, index, up=rng.random(len(scenario.links)) < 0.9)


def some_of(round_: Round, seed: int) -> np.ndarray:
    able = candidates(round_)
    return able[np.random.default_rng(seed).random(len(able)) < 0.7]


def closest_first(round_: Round, clients: np.ndarray, key) -> list[int]:
    """Pairs by their key, each client once, each edge until it is full."""
    links, edge_of = round_.scenario.links, [-1] * 12
    room = list(round_.scenario.edges.capacity)
    pairs = [
        (key(int(client), int(links.edge[link]), link), link, int(client))
        for client in clients
        for link in range(links.start[client], links.start[client + 1])
        if round_.up[link]
    ]
    for _, link, client in sorted(pairs):
        edge = links.edge[link]
        if edge_of[client] == -1 and room[edge] > 0:
            edge_of[client], room[edge] = int(edge), room[edge] - 1
    return edge_of


@given(seed=st.integers(0, 10_000))
def test_nearest_and_least_delay(seed):
    round_ = a_round(seed)
    clients, scenario = some_of(round_, seed), round_.scenario

    def distance(client: int, edge: int, link: int) -> float:
        one, other = scenario.clients.position_m[client], scenario.edges.position_m[edge]
        return float(np.hypot(*(one - other)))

    found = Nearest().associate(round_, clients).tolist()
    assert found == closest_first(round_, clients, distance)
    found = LeastDelay().associate(round_, clients).tolist()
    delays = round_.costs.delay_s
    assert found == closest_first(round_, clients, lambda client, edge, link: delays[link])


@given(seed=st.integers(0, 10_000))
def test_balanced(seed):
    """Those with least choice first, each to the edge that is least full."""
    round_ = a_round(seed)
    clients, links = some_of(round_, seed), round_.scenario.links
    capacity, load = round_.scenario.edges.capacity.tolist(), [0, 0, 0]
    own = {
        int(c): [k for k in range(links.start[c], links.start[c + 1]) if round_.usable[k]]
        for c in clients
    }
    expected = [-1] * 12
    for client in sorted(own, key=lambda c: (len(own[c]), c)):
        free = [k for k in own[client] if load[links.edge[k]] < capacity[links.edge[k]]]
        if free:
            best = min(
                free,
                key=lambda k: (
                    load[links.edge[k]] / capacity[links.edge[k]],
                    round_.costs.delay_s[k],
                ),
            )
            expected[client] = int(links.edge[best])
            load[links.edge[best]] += 1
    assert Balanced().associate(round_, clients).tolist() == expected


@given(seed=st.integers(0, 10_000))
def test_every_client_is_placed_where_there_is_room(seed):
    round_ = a_round(seed, capacity=(12, 12), index=seed)
    clients = some_of(round_, seed)
    for associator in (Nearest(), LeastDelay(), RandomEdge(seed), Hashed(), Balanced()):
        edge_of = associator.associate(round_, clients)
        assert np.flatnonzero(edge_of >= 0).tolist() == clients.tolist()
        assert contract_violation(round_, Answer(edge_of)) is None


@given(seed=st.integers(0, 10_000))
def test_no_edge_is_over_its_capacity(seed):
    round_ = a_round(seed)
    clients = some_of(round_, seed)
    for associator in (RandomEdge(seed), Hashed()):
        edge_of = associator.associate(round_, clients)
        assert contract_violation(round_, Answer(edge_of)) is None
        assert set(np.flatnonzero(edge_of >= 0)) <= set(clients)


def test_nearest_without_positions_is_the_fastest_sending():
    scenario = random_scenario(3, clients=12, edges=3, positions=False)
    round_ = everybody_online(scenario)
    clients = candidates(round_)
    alike = replace(
        scenario, clients=replace(scenario.clients, cpu_hz=np.full(12, 1e9)), file_sha256=None
    )
    # Training takes a client as long at every edge: its links compare as sending does.
    for client in clients:
        one = np.array([client])
        found = Nearest().associate(round_, one)
        assert found.tolist() == LeastDelay().associate(everybody_online(alike), one).tolist()


def test_random_is_another_edge_in_every_round():
    scenario = numeric(clients=40, edges=4, seed=0)
    clients = np.arange(40)
    answers = [
        RandomEdge(0).associate(replace(everybody_online(scenario), index=index), clients)
        for index in (0, 1, 0)
    ]
    assert answers[0].tolist() == answers[2].tolist() != answers[1].tolist()
    assert set(answers[0].tolist()) >= {0, 1, 2, 3}


def test_hashed_keeps_its_edge_and_moves_only_whose_edge_is_gone():
    scenario = random_scenario(5, 12, 3, coverage=1.0, isolated=0, capacity=(12, 12))
    clients = np.arange(12)
    whole = everybody_online(scenario)
    before = Hashed().associate(whole, clients)
    assert Hashed().associate(replace(whole, index=7), clients).tolist() == before.tolist()
    gone = replace(whole, up=scenario.links.edge != 1)
    after = Hashed().associate(gone, clients)
    assert (after[before != 1] == before[before != 1]).all()
    assert (after >= 0).all() and 1 in before


@pytest.mark.parametrize("seed", range(3))
def test_the_pool_places_only_whom_it_is_given(seed):
    scenario = numeric(clients=60, edges=2, seed=seed)
    associator = PoolAssociator(scenario)
    for round_ in bernoulli(scenario, 3, seed):
        clients = candidates(round_)
        everybody = associator.associate(round_, clients)
        half = clients[np.random.default_rng(seed).random(len(clients)) < 0.7]
        edge_of = associator.associate(round_, half)
        assert set(np.flatnonzero(edge_of >= 0)) <= set(half)
        assert contract_violation(round_, Answer(edge_of)) is None
        among = replace(round_, online=np.isin(np.arange(60), half))
        assert edge_of.tolist() == associator.associate(among, half).tolist()
        assert (everybody >= 0).sum() < len(clients)


def test_the_pool_keeps_the_limits_where_they_can_be_kept():
    """As enumeration says of the clients given; for no more than these cost at their fastest edges."""
    keepable = at_fastest = optimal = 0
    for seed in range(150):
        scenario = random_scenario(seed, clients=8, edges=2)
        rng = np.random.default_rng(seed)
        round_ = Round(scenario, rng.random(8) < 0.9)
        clients = candidates(round_)
        clients = clients[rng.random(len(clients)) < 0.9]
        best = best_decision(replace(round_, online=np.isin(np.arange(8), clients)))
        pool, fastest = (
            make_decision(round_, Answer(edge_of), method="", decision_ms=0.0)
            for associator in (PoolAssociator(scenario), LeastDelay())
            for edge_of in [associator.associate(round_, clients)]
        )
        assert pool.feasible == best.feasible
        if best.feasible:
            assert pool.objective >= best.value - 1e-9
            optimal += pool.objective <= best.value + 1e-9
        if fastest.feasible:
            assert pool.objective <= fastest.objective + 1e-9
        keepable, at_fastest = keepable + best.feasible, at_fastest + fastest.feasible
    assert keepable > 50 and at_fastest > 10
    assert optimal >= 0.95 * keepable
