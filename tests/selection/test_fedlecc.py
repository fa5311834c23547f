"""FedLECC against its rule, said again in plain Python."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, online, recorded, selections, table
from sklearn.cluster import OPTICS

from stagewise.selection.fedlecc import FedLecc, label_clusters


def similar_labels(counts: np.ndarray) -> list[int]:
    """OPTICS over Hellinger's distances, pair by pair; whoever is in no cluster is one alone."""
    roots = [[math.sqrt(count / sum(row)) for count in row] for row in counts.tolist()]
    distance = [[math.dist(one, other) / math.sqrt(2) for other in roots] for one in roots]
    with np.errstate(divide="ignore"):  # where clients are equal
        found = OPTICS(min_samples=2, metric="precomputed").fit(np.array(distance))
    cluster = found.labels_.tolist()
    fresh = itertools.count(max(cluster) + 1)
    return [next(fresh) if number < 0 else number for number in cluster]


def high_loss_clusters(record: Recorded, k: int, clusters: int) -> list[list[int]]:
    last: dict[int, float] = {}
    chosen_in = []
    cluster_of = similar_labels(record[0][0].scenario.clients.label_counts)
    for round_, outcome in record:
        able = online(round_)
        loss = {client: last.get(client, math.inf) for client in able}
        members: dict[int, list[int]] = {}
        for client in able:
            members.setdefault(cluster_of[client], []).append(client)
        mean = {c: sum(loss[m] for m in members[c]) / len(members[c]) for c in members}
        best = sorted(sorted(members), key=lambda c: -mean[c])[:clusters]
        count = min(k, len(able))
        each = math.ceil(count / max(1, len(best)))
        chosen = []
        for cluster in best:
            chosen += sorted(members[cluster], key=lambda client: -loss[client])[:each]
        chosen = chosen[:count]
        others = [client for client in able if client not in chosen]
        chosen += sorted(others, key=lambda client: -loss[client])[: count - len(chosen)]
        chosen_in.append(sorted(chosen))
        for row in table(outcome):
            told = (row["loss_before"] + row["loss_after"]) / 2
            if not math.isnan(told):
                last[int(row["client"])] = told
    return chosen_in


@given(seed=st.integers(0, 10_000), k=st.integers(1, 20), clusters=st.integers(1, 6))
def test_it_selects_as_published(seed, k, clusters):
    record = recorded(seed, rounds=6)
    found = selections(FedLecc(k=k, clusters=clusters), record)
    assert found == high_loss_clusters(record, k, clusters)


def test_clusters_hold_clients_with_the_same_labels():
    counts = np.array([[90, 10, 0]] * 4 + [[0, 5, 60]] * 4 + [[30, 30, 31]])
    rows = counts * np.arange(1, 10)[:, None]  # the same shares, other sizes
    cluster = label_clusters(rows)
    assert len(set(cluster[:4])) == len(set(cluster[4:8])) == 1
    assert cluster[0] != cluster[4]
    assert label_clusters(np.array([[3, 4]])).tolist() == [0]
