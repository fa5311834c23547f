"""Plans and decisions by pool where there is hardly anything to decide: clear answers, no surprise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from brute_force import best_decision
from helpers import random_scenario, renumbered
from plan_b_cases import decide
from stagewise.checker import check, check_plan
from stagewise.plan_a import recourse
from stagewise.plan_a.planners import plan
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Links, Scenario

EASY = Limits(kld_max=2.0, data_min=60)


@pytest.fixture(autouse=True)
def fewer_searches(monkeypatch) -> None:
    """So small a system needs no more."""
    monkeypatch.setattr(recourse, "_SEARCHES", 3)


def system(clients: int = 8, edges: int = 2, **options: object) -> Scenario:
    options = {"limits": EASY, "coverage": 0.8, "isolated": 0, "capacity": (2, 5), **options}
    return random_scenario(1, clients, edges, 3, **options)


def one_edge() -> Scenario:
    return system(edges=1)


def one_client() -> Scenario:
    return system(clients=1, edges=1, limits=Limits(kld_max=9, data_min=1))


def one_client_for_two_edges() -> Scenario:
    return system(clients=1, coverage=1.0, limits=Limits(kld_max=9, data_min=1))


def no_data_needed() -> Scenario:
    return system(limits=Limits(kld_max=2.0, data_min=0))


def nothing_needed() -> Scenario:
    return system(limits=Limits(kld_max=1e9, data_min=0))


def no_divergence_allowed() -> Scenario:
    return system(limits=Limits(kld_max=0, data_min=60))


def balanced_and_no_divergence_allowed() -> Scenario:
    """Every client alone has a KLD of exactly 0."""
    scenario = system(limits=Limits(kld_max=0, data_min=60))
    counts = np.repeat(10 * np.arange(1, 9)[:, None], 3, axis=1)
    return replace(scenario, clients=replace(scenario.clients, label_counts=counts))


def any_divergence_allowed() -> Scenario:
    return system(limits=Limits(kld_max=1e300, data_min=60))


def more_data_than_there_is() -> Scenario:
    return system(limits=Limits(kld_max=2.0, data_min=1e9))


def no_room() -> Scenario:
    return system(capacity=(0, 0))


def no_room_at_one_edge() -> Scenario:
    scenario = system()
    return replace(scenario, edges=replace(scenario.edges, capacity=np.array([0, 4])))


def room_for_one() -> Scenario:
    return system(capacity=(1, 1))


def always_online() -> Scenario:
    return system().as_of(online_probability=np.ones(8))


def never_online() -> Scenario:
    return system().as_of(online_probability=np.zeros(8))


def a_label_nobody_holds() -> Scenario:
    scenario = system()
    counts = scenario.clients.label_counts.copy()
    counts[:, 0] += counts[:, 2]
    counts[:, 2] = 0
    return replace(scenario, clients=replace(scenario.clients, label_counts=counts))


def an_edge_without_links() -> Scenario:
    scenario = system()
    links = scenario.links
    kept = links.edge != 1
    start = np.concatenate([[0], np.cumsum(kept)])[links.start]
    links = Links(start=start, edge=links.edge[kept], gain=links.gain[kept])
    return replace(scenario, links=links)


def no_links_at_all() -> Scenario:
    return system(isolated=1.0)


def weights_of_zero() -> Scenario:
    scenario = system()
    weights = replace(scenario.weights, delay=0.0, energy=0.0, continuity=0.0)
    return replace(scenario, weights=weights)


POSSIBLE = [
    one_edge,
    one_client,
    no_data_needed,
    nothing_needed,
    balanced_and_no_divergence_allowed,
    any_divergence_allowed,
    always_online,
    never_online,
    a_label_nobody_holds,
    weights_of_zero,
]
IMPOSSIBLE = [
    one_client_for_two_edges,
    no_divergence_allowed,
    more_data_than_there_is,
    no_room,
    no_room_at_one_edge,
    an_edge_without_links,
    no_links_at_all,
]
EITHER = [room_for_one]


@pytest.mark.parametrize("make", [*POSSIBLE, *IMPOSSIBLE, *EITHER])
def test_clear_answers(make: Callable[[], Scenario]):
    scenario = make()
    count = len(scenario.clients)
    made = plan(scenario, method="pool")
    assert check_plan(scenario, made.record()) == []
    rng = np.random.default_rng(0)
    rounds = [
        Round(scenario, np.ones(count, dtype=np.bool_)),
        Round(scenario, np.zeros(count, dtype=np.bool_)),
        Round(scenario, rng.random(count) < 0.7),
    ]
    for mode in ("strict", "flexible"):
        decisions = [decide(made, r, index=i, mode=mode) for i, r in enumerate(rounds)]
        assert check(scenario, [d.record() for d in decisions], renumbered(rounds)) == []
        assert decisions[1].assignment == {} and not decisions[1].feasible
        for round_, decision in zip(rounds, decisions, strict=True):
            pinned = np.where(round_.online, made.edge_of, -1) if mode == "strict" else None
            best = best_decision(round_, pinned)
            assert decision.feasible == best.feasible
            if best.feasible:
                assert decision.objective <= best.value * 1.05 + 1e-12
        if make in POSSIBLE and mode == "flexible":
            assert decisions[0].feasible
        if make in IMPOSSIBLE:
            assert not any(decision.feasible for decision in decisions)


def test_a_plan_that_cannot_be_says_why():
    made = plan(no_room_at_one_edge(), method="pool")
    assert not made.feasible
    assert any(line.startswith("es0: no clients") for line in made.violations)


@pytest.mark.parametrize("make", [one_client, no_data_needed, always_online])
def test_plans_are_feasible_where_nothing_is_uncertain(make: Callable[[], Scenario]):
    scenario = make()
    certain = scenario.as_of(online_probability=np.ones(len(scenario.clients)))
    made = plan(certain, method="pool")
    assert made.feasible
    assert made.assignment
