"""The library: the same from the same seed wherever it is made, and made again when estimates move."""

from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from pool_cases import keeps_limits, pool_plan

from helpers import InlineExecutor, random_scenario
from stagewise.checker import check
from stagewise.compiled import NONE
from stagewise.deciding import solve
from stagewise.plan_a.planners import plan
from stagewise.policies.plan_policy import PlanPolicy
from stagewise.policies.replanned import Replanned, Triggers
from stagewise.pool import library as library_module
from stagewise.pool.learning import build_library, learned_prices, sampled_rounds
from stagewise.pool.library import Library, generate_library, member_links, unlearned_prices
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario, Weights


def assert_same(one: Library, other: Library) -> None:
    np.testing.assert_array_equal(one.start, other.start)
    np.testing.assert_array_equal(one.clients, other.clients)
    np.testing.assert_array_equal(one.links, other.links)
    np.testing.assert_array_equal(one.prices.client, other.prices.client)
    np.testing.assert_array_equal(one.prices.delay, other.prices.delay)


def small_system(seed: int = 1) -> Scenario:
    return numeric(clients=90, edges=4, seed=seed)


def test_every_cluster_keeps_the_limits_over_links_that_are_there():
    scenario = small_system()
    library = build_library(scenario, clusters_per_edge=200)
    assert library.start.tolist() == [0, 200, 400, 600, 800]
    for edge in range(4):
        rows = slice(library.start[edge], library.start[edge + 1])
        clusters = [row[row >= 0] for row in library.clients[rows]]
        assert len({frozenset(members.tolist()) for members in clusters}) == len(clusters)
        for members, links in zip(clusters, library.links[rows], strict=True):
            assert keeps_limits(scenario, members.tolist())
            assert len(members) <= scenario.edges.capacity[edge]
            links = links[: len(members)]
            assert scenario.links.client[links].tolist() == members.tolist()
            assert (scenario.links.edge[links] == edge).all()
            assert len(set(members.tolist())) == len(members)


def test_unlikely_clients_are_seldom_in_it():
    scenario = small_system()
    chance = np.where(np.arange(90) % 2 == 0, 0.95, 0.05)
    library = build_library(scenario.as_of(online_probability=chance), clusters_per_edge=200)
    members = library.clients[library.clients >= 0]
    assert (chance[members] < 0.5).mean() < 0.35
    reverse = build_library(scenario.as_of(online_probability=1 - chance), clusters_per_edge=200)
    members = reverse.clients[reverse.clients >= 0]
    assert (chance[members] > 0.5).mean() < 0.35


@pytest.mark.parametrize("weights", [Weights(0.5, 0.5), Weights(1, 0), Weights(0, 1)])
def test_prices_are_finite_and_not_negative(weights):
    scenario = replace(small_system(), weights=weights)
    prices = build_library(scenario, clusters_per_edge=60).prices
    for part in (prices.client, prices.delay):
        assert np.isfinite(part).all() and (part >= 0).all()
    assert prices.delay.sum() == pytest.approx(weights.delay)


def test_prices_stay_where_no_round_can_be_served():
    scenario = random_scenario(3, clients=6, edges=3, capacity=(0, 0))
    library = build_library(scenario)
    assert len(library) == 0
    assert library.prices.client.tolist() == [0.0] * 6
    assert learned_prices(library, sampled_rounds(scenario, 0, 3)) is library.prices


def test_a_client_that_all_edges_want_gets_a_price():
    scenario = small_system()
    draft = generate_library(scenario, unlearned_prices(scenario), 1_000)
    prices = learned_prices(draft, sampled_rounds(scenario, 0, 4))
    wanted = np.zeros(90)
    for edge in range(4):
        members = draft.clients[draft.start[edge] : draft.start[edge + 1]]
        wanted += np.bincount(members[members >= 0], minlength=90)
    often = wanted > np.median(wanted)
    assert prices.client[often].mean() > 2 * prices.client[~often].mean()


def test_sampled_rounds_follow_the_probabilities_and_the_seed():
    scenario = random_scenario(0, clients=8, edges=2)
    chance = np.array([0, 1, 0.5, 0.9, 0.1, 1, 0, 0.3])
    scenario = scenario.as_of(online_probability=chance)
    rounds = sampled_rounds(scenario, 4, 2000)
    seen = np.array([round_.online for round_ in rounds])
    np.testing.assert_allclose(seen.mean(axis=0), chance, atol=0.05)
    again = np.array([round_.online for round_ in sampled_rounds(scenario, 4, 2000)])
    np.testing.assert_array_equal(seen, again)
    assert (seen != [r.online for r in sampled_rounds(scenario, 5, 2000)]).any()


def test_the_same_seed_gives_the_same_library():
    first = build_library(small_system(), 3, clusters_per_edge=1_000)
    assert_same(first, build_library(small_system(), 3, clusters_per_edge=1_000))
    other = build_library(small_system(), 4, clusters_per_edge=1_000)
    assert (first.prices.client != other.prices.client).any()


@pytest.fixture
def in_several_parts(monkeypatch) -> None:
    monkeypatch.setattr(library_module, "_EDGES_OF_A_TASK", 2)


def executors() -> list[Executor]:
    return [
        InlineExecutor(),
        ThreadPoolExecutor(1),
        ThreadPoolExecutor(3),
        ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    ]


def test_where_the_library_is_made_changes_nothing(in_several_parts):
    scenario = numeric(clients=110, edges=5, seed=2)
    expected = build_library(scenario, clusters_per_edge=40)
    assert len(expected) == 200
    for executor in executors():
        with executor:
            assert_same(build_library(scenario, clusters_per_edge=40, executor=executor), expected)


def test_links_are_found_for_some_clusters_at_a_time(monkeypatch):
    scenario = small_system()
    library = build_library(scenario, clusters_per_edge=50)
    monkeypatch.setattr(library_module, "CLUSTERS_AT_ONCE", 7)
    links = member_links(scenario, library.start, library.clients)
    np.testing.assert_array_equal(links, library.links)
    edge = np.repeat(np.arange(len(scenario.edges)), np.diff(library.start))
    row, place = np.nonzero(library.clients >= 0)
    used = links[row, place]
    np.testing.assert_array_equal(scenario.links.client[used], library.clients[row, place])
    np.testing.assert_array_equal(scenario.links.edge[used], edge[row])
    assert (links[library.clients < 0] == NONE).all()


def test_parts_of_any_size_price_alike(monkeypatch):
    """An edge's clusters are those it has as a part of the whole, in the whole's own numbers."""
    scenario = numeric(clients=90, edges=4, seed=7)
    prices = unlearned_prices(scenario)
    chance = scenario.clients.online_probability
    best = {}
    for size in (1, 2, 4):
        monkeypatch.setattr(library_module, "_EDGES_OF_A_TASK", size)
        made = generate_library(scenario, prices, 60)
        for edge in range(4):
            rows = made.clients[made.start[edge] : made.start[edge + 1]]
            likely = [float(chance[row[row >= 0]].prod()) for row in rows]
            clusters = {frozenset(row[row >= 0].tolist()) for row in rows}
            best.setdefault(edge, clusters)
            assert len(clusters & best[edge]) >= 50
            assert min(likely) > 0


def test_a_plan_is_the_same_on_any_executor(in_several_parts):
    expected = pool_plan(40, 2, 0)
    with ThreadPoolExecutor(1) as executor:
        made = plan(expected.scenario, method="pool", executor=executor)
    assert made.edge_of.tolist() == expected.edge_of.tolist()
    assert_same(made.library, expected.library)


class Recording(InlineExecutor):
    """Keeps the scenarios that plans were ordered for."""

    def __init__(self) -> None:
        self.ordered: list[Scenario] = []

    def submit(self, function, /, *arguments, **options):
        if function is plan:
            self.ordered.append(arguments[0])
        return super().submit(function, *arguments, **options)


def test_the_pool_is_refreshed_when_estimates_move():
    """A third of the clients is gone from now on: the next library prefers the others."""
    made = pool_plan(40, 2, 0)
    scenario = made.scenario
    gone = np.arange(40) < 13
    rounds = [Round(scenario, r.online & ~gone, r.index) for r in bernoulli(scenario, 25, 0)]
    executor = Recording()
    policy = Replanned(PlanPolicy(made), Triggers(every=24), executor=executor)
    decisions = solve(scenario, rounds, policy)
    assert policy.adopted == [24]
    fresh = policy.plan.library
    assert policy.plan.scenario is scenario
    assert check(scenario, [decision.record() for decision in decisions], rounds) == []
    assert made.library is not None and fresh is not None
    (known,) = executor.ordered
    assert known.clients.online_probability[gone].max() < 0.5
    assert_same(fresh, build_library(known, made.seed))

    def share_of_gone(library: Library) -> float:
        members = library.clients[library.clients >= 0]
        return float(gone[members].mean())

    assert share_of_gone(fresh) < share_of_gone(made.library)
