"""Generated clusters against all there are, priced with the checker's own arithmetic."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from pool_cases import (
    CLIENTS,
    EDGES,
    Case,
    all_clusters,
    case_of,
    delay_and_energy,
    member_sets,
    random_prices,
    small_case,
)

from references import plain_scenario
from stagewise.exact.columns import select
from stagewise.exact.prices import Prices
from stagewise.pool.clusters import cheapest_cluster, clusters_of_edges
from stagewise.pool.found_clusters import ClusterWorkspace, new_cluster_workspace
from stagewise.pool.generation import generate_clusters
from stagewise.pool.library import unlearned_prices
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

SEEDS = range(80)


def generated(
    case: Case, edge: int, prices: Prices, work: ClusterWorkspace
) -> dict[frozenset[int], float]:
    """The clusters in the workspace, and what they cost there."""
    second = float(prices.delay[edge])
    found = generate_clusters(case.instance, edge, prices.client, second, 8, work)
    clusters = {}
    for row in range(found):
        links = work.link[work.members[row, : work.size[row]]]
        members = frozenset(case.instance.link_client[links].tolist())
        assert len(members) == work.size[row]
        assert members not in clusters
        clusters[members] = float(work.cost[row])
    return clusters


@pytest.mark.parametrize("pinned", [False, True])
def test_every_cluster_keeps_the_limits_needs_all_members_and_costs_what_it_says(pinned):
    several = 0
    for seed in SEEDS:
        case = small_case(seed, pinned=pinned)
        prices = random_prices(seed, case.scenario)
        work = new_cluster_workspace(case.instance, 30)
        for edge in range(EDGES):
            known = all_clusters(case, edge, prices)
            for members, cost in generated(case, edge, prices, work).items():
                assert cost == pytest.approx(known[members], rel=1e-9)
                assert not any(members - {one} in known for one in members)
                several += len(members) > 1
    assert several > 200


@pytest.mark.parametrize("pinned", [False, True])
def test_the_cheapest_cluster_is_nearly_always_among_them(pinned):
    """Wherever any is found; an edge with few clusters may get none, which a search then repairs."""
    possible = found = right = right_alone = 0
    for seed in SEEDS:
        case = small_case(seed, pinned=pinned)
        prices = random_prices(seed, case.scenario)
        work = new_cluster_workspace(case.instance, 8)
        for edge in range(EDGES):
            known = all_clusters(case, edge, prices)
            clusters = member_sets(clusters_of_edges(case.instance, [edge], prices, 8))
            alone = cheapest_cluster(case.instance, edge, prices, work)
            if not known:
                assert clusters == [] and alone is None
                continue
            least = min(known.values()) * (1 + 1e-9)
            possible += 1
            if clusters:
                found += 1
                right += min(known[members] for members in clusters) <= least
            right_alone += alone is not None and known[frozenset(alone.tolist())] <= least
    assert possible > 100
    assert found >= 0.95 * possible
    assert right >= 0.98 * found
    assert right_alone >= 0.93 * found


@pytest.mark.parametrize("pinned", [False, True])
def test_columns_have_the_edges_figures_in_the_round(pinned):
    for seed in range(30):
        case = small_case(seed, pinned=pinned)
        clients, links = len(case.scenario.clients), len(case.scenario.links)
        rng = np.random.default_rng(seed)
        changed = replace(
            case.round_,
            cpu_hz=case.scenario.clients.cpu_hz * rng.uniform(0.5, 1.5, clients),
            gain=case.scenario.links.gain * rng.uniform(0.5, 1.5, links),
        )
        case = case_of(changed, case.pinned)
        prices = random_prices(seed, case.scenario)
        together = clusters_of_edges(case.instance, range(EDGES), prices, 8)
        assert (np.diff(together.edge) >= 0).all()
        for edge in range(EDGES):
            columns = select(together, together.edge == edge)
            must = np.flatnonzero(case.pinned == edge).tolist()
            alone = clusters_of_edges(case.instance, [edge], prices, 8)
            assert member_sets(alone) == member_sets(columns)
            for row, members in enumerate(member_sets(columns)):
                delay, energy = delay_and_energy(case, edge, [*must, *sorted(members)])
                assert columns.delay[row] == pytest.approx(delay, rel=1e-9)
                assert columns.energy[row] == pytest.approx(energy, rel=1e-9)


def test_no_more_clusters_than_wanted_and_these_the_cheapest_found():
    for seed in range(30):
        case = small_case(seed)
        prices = random_prices(seed, case.scenario)
        for edge in range(EDGES):
            known = all_clusters(case, edge, prices)
            for wanted in (1, 2, 5):
                work = new_cluster_workspace(case.instance, wanted)
                kept = member_sets(clusters_of_edges(case.instance, [edge], prices, wanted))
                assert len(set(kept)) == len(kept) <= wanted
                left_out = generated(case, edge, prices, work).keys() - set(kept)
                most_expensive = max((known[members] for members in kept), default=np.inf)
                assert all(known[members] >= most_expensive * (1 - 1e-9) for members in left_out)


@pytest.mark.parametrize("pinned", [False, True])
def test_no_exchange_from_the_clusters_kept_leads_to_a_cheaper_one_that_is_not(pinned):
    neighbours = 0
    for seed in range(40):
        case = small_case(seed, pinned=pinned)
        prices = random_prices(seed, case.scenario)
        for edge in range(EDGES):
            known = all_clusters(case, edge, prices)
            minimal = [one for one in known if not any(one - {i} in known for i in one)]
            for wanted in (3, 8):
                work = new_cluster_workspace(case.instance, wanted)
                if len(generated(case, edge, prices, work)) == len(work.size):
                    continue  # it ended for want of room
                kept = set(member_sets(clusters_of_edges(case.instance, [edge], prices, wanted)))
                highest = max((known[members] for members in kept), default=0.0)
                limit = highest * (1 - 1e-9) if len(kept) == wanted else np.inf
                for members in kept:
                    for other in minimal:
                        if len(other - members) == 1 and len(members - other) in (1, 2):
                            neighbours += 1
                            assert other in kept or known[other] >= limit
    assert neighbours > 500


def test_more_data_than_logarithms_are_tabled_for():
    counts = 1_000 * np.array([[6, 0], [0, 6], [3, 5], [1, 4], [30, 0], [0, 28], [7, 7]])
    for least in (10_000, 40_000):
        limits = Limits(kld_max=0.05, data_min=least)
        scenario = plain_scenario(counts.tolist(), [[0]] * len(counts), limits=limits)
        case = case_of(Round(scenario, np.ones(len(counts), dtype=np.bool_)))
        prices = unlearned_prices(scenario)
        known = all_clusters(case, 0, prices)
        found = generated(case, 0, prices, new_cluster_workspace(case.instance, 20))
        assert found
        assert min(found.values()) == pytest.approx(min(known.values()))
        for members, cost in found.items():
            assert cost == pytest.approx(known[members])


def test_what_was_on_the_bench_before_changes_nothing():
    for seed in range(20):
        case = small_case(seed, pinned=bool(seed % 2))
        prices = random_prices(seed, case.scenario)
        used = new_cluster_workspace(case.instance, 10)
        for edge in (*range(EDGES), *reversed(range(EDGES))):
            fresh = generated(case, edge, prices, new_cluster_workspace(case.instance, 10))
            assert generated(case, edge, prices, used) == fresh


def test_clusters_around_the_pinned():
    counts = [[60, 0], [0, 60], [0, 55], [60, 60]]
    limits = Limits(kld_max=0.01, data_min=100)
    scenario = plain_scenario(counts, [[0, 1], [0, 1], [0], [1]], limits=limits)
    everybody = Round(scenario, np.ones(4, dtype=np.bool_))
    prices = unlearned_prices(scenario)

    def found(*pinned: int, capacity: tuple[int, int] = (9, 9)) -> list[set[int]]:
        edges = replace(scenario.edges, capacity=np.array(capacity))
        round_ = replace(everybody, scenario=replace(scenario, edges=edges))
        case = case_of(round_, np.array(pinned))
        columns = clusters_of_edges(case.instance, [0], prices, 9)
        return [set(part) for part in member_sets(columns)]

    assert sorted(found(-1, -1, -1, -1), key=str) == [{0, 1}, {0, 2}]
    # One is pinned: the cluster is whoever completes it.
    assert sorted(found(0, -1, -1, -1), key=str) == [{1}, {2}]
    # The pinned are enough by themselves, and then nobody else joins.
    assert found(0, 0, -1, -1) == [set()]
    # Someone pinned to another edge is not there to be used.
    assert found(-1, 1, -1, -1) == [{0, 2}]
    # No room beside the pinned, or not even for these.
    assert found(0, -1, -1, -1, capacity=(1, 9)) == []
    assert found(0, 0, 0, -1, capacity=(2, 9)) == []


def everybody_at_large(seed: int) -> tuple[Case, Scenario]:
    scenario = numeric(clients=60, edges=3, seed=seed)
    return case_of(Round(scenario, np.ones(60, dtype=np.bool_))), scenario


def test_a_realistic_edge_gets_as_many_as_wanted():
    """Where clusters abound: the wanted number, all different, all clusters."""
    case, scenario = everybody_at_large(1)
    limits, counts = scenario.limits, scenario.clients.label_counts
    for edge in range(3):
        columns = clusters_of_edges(case.instance, [edge], unlearned_prices(scenario), 300)
        clusters = member_sets(columns)
        assert len(set(clusters)) == len(clusters) == 300
        for members in clusters:
            sums = counts[sorted(members)].sum(axis=0)
            share = sums / sums.sum()
            held = share > 0
            kld = float((share[held] * np.log(share[held] / scenario.target[held])).sum())
            assert sums.sum() >= limits.data_min
            assert kld <= limits.kld_max + 1e-9
            assert len(members) <= scenario.edges.capacity[edge]


def test_exchanges_among_clusters_of_many_members_are_complete():
    """Data so scarce that there are few clusters, and all that one exchange leads to are among them."""
    scenario = numeric(clients=60, edges=3, seed=2)
    counts = 7 * scenario.clients.label_counts
    scenario = replace(
        scenario,
        clients=replace(scenario.clients, label_counts=counts),
        limits=Limits(kld_max=0.02, data_min=7 * scenario.limits.data_min),
    )
    case = case_of(Round(scenario, np.ones(60, dtype=np.bool_)))
    kept = set(member_sets(clusters_of_edges(case.instance, [1], unlearned_prices(scenario), 150)))
    assert 50 < len(kept) < 150
    first, last = case.instance.candidate_start[1:3]
    candidates = set(case.instance.link_client[case.instance.candidate[first:last]].tolist())

    def keeps(members: frozenset[int]) -> bool:
        sums = counts[sorted(members)].sum(axis=0)
        share = sums / max(sums.sum(), 1)
        kld = share[share > 0] @ np.log(share[share > 0] / scenario.target[share > 0])
        return sums.sum() >= scenario.limits.data_min and kld <= 0.02 + 1e-9

    led_to = 0
    for members in kept:
        for out in (*combinations(members, 1), *combinations(members, 2)):
            for one in candidates - members:
                other = members - {*out} | {one}
                if keeps(other) and not any(keeps(other - {i}) for i in other):
                    led_to += 1
                    assert other in kept
    assert led_to > 100


def test_a_client_out_of_reach_in_price_is_in_no_cluster_of_the_cheapest():
    case, scenario = everybody_at_large(2)
    prices = unlearned_prices(scenario)
    wanted = set().union(*member_sets(clusters_of_edges(case.instance, [0], prices, 100)))
    dear = sorted(wanted)[: len(wanted) // 4]
    prices.client[dear] = 1e6
    again = member_sets(clusters_of_edges(case.instance, [0], prices, 100))
    assert len(again) == 100
    assert not set(dear) & set().union(*again)


def test_an_edge_without_links_or_room_has_no_clusters():
    case = small_case(0)
    alone = replace(case.scenario.edges, capacity=np.zeros(EDGES, dtype=np.int64))
    no_room = Round(replace(case.scenario, edges=alone), np.ones(CLIENTS, dtype=np.bool_))
    nobody = Round(case.scenario, np.zeros(CLIENTS, dtype=np.bool_))
    for round_ in (no_room, nobody):
        empty = case_of(round_)
        work = new_cluster_workspace(empty.instance, 4)
        for edge in range(EDGES):
            prices = unlearned_prices(empty.scenario)
            assert len(clusters_of_edges(empty.instance, [edge], prices, 4)) == 0
            assert cheapest_cluster(empty.instance, edge, prices, work) is None
