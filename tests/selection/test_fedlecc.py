"""FedLECC against its rule, said again in plain Python."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table

from stagewise import generate, participation
from stagewise.selection.fedlecc import FedLecc, label_clusters
from stagewise.selection.selector import candidates


def high_loss_clusters(record: Recorded, k: int, clusters: int, among: int) -> list[list[int]]:
    last: dict[int, float] = {}
    chosen_in = []
    cluster_of = label_clusters(record[0][0].scenario.clients.label_counts, among).tolist()
    for round_, outcome in record:
        able = online(round_)
        loss = {client: last.get(client, math.inf) for client in able}
        members: dict[int, list[int]] = {}
        for client in able:
            members.setdefault(cluster_of[client], []).append(client)
        mean = {c: sum(loss[m] for m in members[c]) / len(members[c]) for c in members}
        waiting = [
            sorted(members[c], key=lambda client: -loss[client])
            for c in sorted(sorted(members), key=lambda c: -mean[c])
        ]
        count = min(k, len(able))
        each = math.ceil(count / max(1, len(waiting[:clusters])))
        chosen = []
        for cluster in waiting[:clusters]:
            chosen += cluster[:each]
            del cluster[:each]
        while any(waiting):
            for cluster in filter(None, waiting):
                chosen.append(cluster.pop(0))
        chosen = chosen[:count]
        chosen_in.append(sorted(chosen))
        for row in table(outcome):
            told = (row["loss_before"] + row["loss_after"]) / 2
            if not math.isnan(told):
                last[int(row["client"])] = told
    return chosen_in


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 20),
    clusters=st.integers(1, 6),
    among=st.integers(1, 8),
)
def test_it_selects_as_published(seed, k, clusters, among):
    record = recorded(seed, rounds=6)
    found = selections(FedLecc(k=k, clusters=clusters, among=among), record)
    assert found == high_loss_clusters(record, k, clusters, among)


def test_clusters_hold_clients_with_the_same_labels():
    counts = np.array([[90, 10, 0]] * 4 + [[0, 5, 60]] * 4 + [[30, 30, 31]])
    rows = counts * np.arange(1, 10)[:, None]  # the same shares, other sizes
    cluster = label_clusters(rows, 3)
    assert len(set(cluster[:4])) == len(set(cluster[4:8])) == 1
    assert len(set(cluster)) == len(set(label_clusters(rows, 5))) == 3
    assert label_clusters(np.array([[3, 4]]), 10).tolist() == [0]


@given(seed=st.integers(0, 10_000), among=st.integers(1, 12))
def test_no_other_cluster_is_nearer_by_hellingers_distance(seed, among):
    counts = np.random.default_rng(seed).integers(0, 9, (40, 5)) + np.eye(5, dtype=int)[0]
    roots = [[math.sqrt(count / sum(row)) for count in row] for row in counts.tolist()]
    cluster = label_clusters(counts, among).tolist()
    assert len(set(cluster)) == min(among, len({tuple(root) for root in roots}))
    middle = {}
    for number in set(cluster):
        own = [root for root, of in zip(roots, cluster, strict=True) if of == number]
        middle[number] = [sum(column) / len(own) for column in zip(*own, strict=True)]
    for root, own in zip(roots, cluster, strict=True):
        nearest = min(math.dist(root, other) for other in middle.values())
        assert math.isclose(math.dist(root, middle[own]), nearest, rel_tol=1e-9)


def test_clusters_matter():
    scenario = generate.numeric(seed=3)
    [round_] = participation.bernoulli(scenario, 1, seed=3)
    selector = FedLecc(k=16)
    loss = scenario.clients.label_counts @ np.arange(10) / scenario.clients.data
    selector.restore({"loss": loss})
    able = candidates(round_)
    highest = able[np.argsort(-loss[able], kind="stable")][:16]
    chosen = selector.select(round_)
    cluster = label_clusters(scenario.clients.label_counts, 10)
    assert np.bincount(cluster[chosen]).max() == 4
    assert np.bincount(cluster[highest]).max() > 4
