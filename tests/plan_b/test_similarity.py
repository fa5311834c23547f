"""Which clients of an edge are alike, against DBSCAN written out."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import random_scenario
from references import plain_scenario
from stagewise.plan_b.similarity import NEIGHBOURS_MIN, NOISE, SIMILARITY_MIN, edge_clusters
from stagewise.world.costs import LinkCosts
from stagewise.world.generate import numeric
from stagewise.world.scenario import Scenario


def raw_features(scenario: Scenario, edge: int) -> np.ndarray:
    """u = [d, T, E] of Alg. 4 for every client of the edge."""
    links = [k for k in range(len(scenario.links)) if scenario.links.edge[k] == edge]
    rows = [
        (
            float(scenario.clients.label_counts[scenario.links.client[k]].sum()),
            scenario.costs.delay_s[k],
            scenario.costs.energy_j[k],
        )
        for k in links
    ]
    return np.array(rows)


def cosines(features: np.ndarray) -> np.ndarray:
    length = np.sqrt((features**2).sum(axis=1))
    return features @ features.T / np.outer(length, length)


def standardised(features: np.ndarray) -> np.ndarray:
    return (features - features.mean(axis=0)) / features.std(axis=0)


def plain_dbscan(similar: np.ndarray) -> tuple[list[set[int]], set[int]]:
    """(the cores of each cluster, the clients that are noise), from who is whose neighbour."""
    count = len(similar)
    core = {i for i in range(count) if similar[i].sum() >= NEIGHBOURS_MIN}
    clusters: list[set[int]] = []
    left = set(core)
    while left:
        cluster, border = set(), {min(left)}
        while border:
            cluster |= border
            border = {j for i in border for j in core - cluster if similar[i, j]}
        clusters.append(cluster)
        left -= cluster
    noise = {i for i in range(count) if i not in core and not any(similar[i, j] for j in core)}
    return clusters, noise


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_those_of_dbscan(seed):
    scenario = random_scenario(seed, 24, 2, coverage=0.8)
    for edge in range(2):
        found = edge_clusters(scenario, scenario.costs, edge)
        similarity = cosines(standardised(raw_features(scenario, edge)))
        np.testing.assert_allclose(found.features @ found.features.T, similarity, atol=1e-12)
        similar = similarity >= SIMILARITY_MIN
        clusters, noise = plain_dbscan(similar)
        assert set(np.flatnonzero(found.cluster == NOISE)) == noise
        for cores in clusters:
            (name,) = {int(found.cluster[i]) for i in cores}
            members = set(np.flatnonzero(found.cluster == name).tolist())
            # Anyone else in it is the neighbour of one of its cores.
            assert all(any(similar[i, j] for j in cores) for i in members)
        assert len(set(found.cluster.tolist()) - {NOISE}) == len(clusters)


def test_the_clients_are_those_the_edge_covers():
    scenario = random_scenario(2, 12, 3)
    for edge in range(3):
        found = edge_clusters(scenario, scenario.costs, edge)
        covered = scenario.links.client[scenario.links.edge == edge]
        assert found.clients.tolist() == covered.tolist()
        assert all(found.clients[place] == client for client, place in found.place.items())
        for place in range(len(found.clients)):
            similarity = found.similarity(place)
            assert similarity[place] == pytest.approx(1)
            assert similarity.max() <= 1 + 1e-12


def test_without_scaling_everybody_would_be_alike():
    """The documented deviation: sizes in the hundreds and costs near one all point one way."""
    scenario = numeric(60, 1, 0)
    raw = cosines(raw_features(scenario, 0))
    assert raw.min() > 0.99
    clusters, noise = plain_dbscan(raw >= SIMILARITY_MIN)
    assert (len(clusters), noise) == (1, set())
    found = edge_clusters(scenario, scenario.costs, 0)
    assert (found.features @ found.features.T).min() < 0
    assert len(set(found.cluster.tolist())) > 2


def test_the_units_of_the_features_do_not_matter():
    scenario = random_scenario(4, 20, 1, coverage=1)
    seconds = edge_clusters(scenario, scenario.costs, 0)
    costs = LinkCosts(1000 * scenario.costs.delay_s, scenario.costs.energy_j / 3600)
    milliseconds = edge_clusters(scenario, costs, 0)
    np.testing.assert_allclose(milliseconds.features, seconds.features, atol=1e-9)
    assert milliseconds.cluster.tolist() == seconds.cluster.tolist()


def test_a_rounds_own_costs_count():
    scenario = random_scenario(4, 20, 1, coverage=1)
    rng = np.random.default_rng(0)
    costs = replace(scenario.costs, delay_s=rng.permutation(scenario.costs.delay_s))
    now = edge_clusters(scenario, costs, 0)
    assert not np.allclose(now.features, edge_clusters(scenario, scenario.costs, 0).features)


@pytest.mark.parametrize("clients", [1, 2, 3, 5])
def test_clients_that_differ_in_nothing(clients):
    """A feature without spread is no feature; nothing is divided by zero."""
    scenario = plain_scenario([[10, 10]] * clients, [[0]] * clients, capacity=[clients])
    found = edge_clusters(scenario, scenario.costs, 0)
    assert np.isfinite(found.features).all()
    assert len(found.cluster) == clients


def test_an_edge_that_covers_one_client_or_two_has_no_clusters():
    scenario = plain_scenario([[10, 10], [5, 5], [7, 7]], [[0], [1], [1]])
    assert edge_clusters(scenario, scenario.costs, 0).cluster.tolist() == [NOISE]
    assert edge_clusters(scenario, scenario.costs, 1).cluster.tolist() == [NOISE, NOISE]
