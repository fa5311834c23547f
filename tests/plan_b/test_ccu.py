"""Alg. 4: stand-ins from the absent client's cluster, most similar first, then the fallback."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from plan_b_cases import plan_of, random_case, still_there
from references import edge_violations, plain_scenario
from stagewise.plan_b import ccu
from stagewise.plan_b.similarity import NOISE, edge_clusters
from stagewise.problem.statement import p0
from stagewise.world.rounds import Round
from stagewise.world.scenario import Limits, Scenario

# One edge. c0-c3 hold much data, c4-c7 little, and c8 has a CPU six times as fast.
SIZES = [60, 66, 61, 58, 20, 22, 17, 21, 40]
LARGE, SMALL, ODD = [0, 1, 2, 3], [4, 5, 6, 7], [8]


def one_edge(data_min: float = 75, capacity: int = 9) -> Scenario:
    scenario = plain_scenario(
        [[size // 2, size - size // 2] for size in SIZES],
        [[0]] * 9,
        capacity=[capacity],
        limits=Limits(kld_max=0.1, data_min=data_min),
    )
    cpu_hz = np.array([1e9] * 8 + [6e9])
    return replace(scenario, clients=replace(scenario.clients, cpu_hz=cpu_hz))


def decide(scenario: Scenario, long_term: list[int], offline: list[int]) -> list[int]:
    """Who serves, by number."""
    edge_of = np.full(9, -1)
    edge_of[long_term] = 0
    online = ~np.isin(np.arange(9), offline)
    plan = plan_of(scenario, edge_of)
    answer = ccu.cluster_based_update(plan, Round(scenario, online), "strict")
    return np.flatnonzero(answer == 0).tolist()


@pytest.fixture
def fallbacks(monkeypatch) -> Iterator[list[list[int]]]:
    """The edges of every call of the fallback."""
    calls: list[list[int]] = []
    true = ccu._fall_back

    def noting(problem, plan, assignment, failed, seconds):
        calls.append(list(failed))
        return true(problem, plan, assignment, failed, seconds)

    monkeypatch.setattr(ccu, "_fall_back", noting)
    yield calls


def test_the_clusters_of_the_example():
    scenario = one_edge()
    found = edge_clusters(scenario, scenario.costs, 0).cluster
    assert len(set(found[LARGE])) == len(set(found[SMALL])) == 1
    assert found[0] != found[4]
    assert NOISE not in found[:8]
    assert found[8] == NOISE


def test_the_most_similar_stands_in(fallbacks):
    """c0 (60) is away: c2 (61) is most like it, then c3 (58), then c1 (66).

    Any of the three would do, c3 at the least cost, and Alg. 4's "increasing order of similarity"
    taken literally would begin with c1.
    """
    scenario = one_edge()
    assert decide(scenario, [0, 4], offline=[0]) == [2, 4]
    assert decide(scenario, [0, 4], offline=[0, 2]) == [3, 4]
    assert decide(scenario, [0, 4], offline=[0, 2, 3]) == [1, 4]
    assert decide(scenario, [4, 0], offline=[4]) == [0, 7]
    assert decide(scenario, [4, 0], offline=[4, 7]) == [0, 5]
    assert fallbacks == []


def test_a_long_term_client_that_serves_already_is_no_stand_in(fallbacks):
    """c2 is in the plan itself, so that c3 is the most similar one left."""
    assert decide(one_edge(data_min=120), [0, 2, 4], offline=[0]) == [2, 3, 4]
    assert fallbacks == []


def test_replacing_stops_when_the_limits_hold(fallbacks):
    """c0 and c1 are both away; with a stand-in for the first of them there is enough data."""
    assert decide(one_edge(data_min=75), [0, 1, 4], offline=[0, 1]) == [2, 4]
    assert decide(one_edge(data_min=130), [0, 1, 4], offline=[0, 1]) == [2, 3, 4]
    assert fallbacks == []


def test_an_absence_that_breaks_nothing_needs_no_stand_in(fallbacks):
    assert decide(one_edge(data_min=75), [0, 1, 4], offline=[1]) == [0, 4]
    assert fallbacks == []


def test_noise_has_no_stand_in(fallbacks):
    """c8 is like nobody: the fallback finds the cheapest client that suffices, c6."""
    assert decide(one_edge(data_min=75), [0, 8], offline=[8]) == [0, 6]
    assert fallbacks == [[0]]


def test_the_fallback_comes_in_when_a_cluster_is_used_up(fallbacks):
    """All who are like c0 are away; what is online and left suffices."""
    served = decide(one_edge(data_min=75), [0, 4], offline=LARGE)
    assert fallbacks == [[0]]
    assert 4 in served
    assert sum(SIZES[i] for i in served) >= 75
    assert not set(served) & set(LARGE)


def test_a_full_edge_takes_no_stand_in_beyond_its_capacity(fallbacks):
    """No two clients hold 150 samples: nothing can be done within the capacity, so nothing more is."""
    served = decide(one_edge(data_min=150, capacity=2), [0, 1], offline=[0, 1])
    assert len(served) <= 2
    assert fallbacks == [[0]]


def test_stand_ins_come_from_the_clusters_of_the_absent(fallbacks):
    """Wherever the fallback was not needed; each absent client has one stand-in at the most."""
    replaced = 0
    for seed in range(150):
        plan, round_ = random_case(seed, clients=24)
        present = still_there(plan, round_)
        fallbacks.clear()
        answer = ccu.cluster_based_update(plan, round_, "strict")
        fell_back = set(fallbacks[0]) if fallbacks else set()
        after = edge_violations(p0(round_), answer)
        for edge, missing in enumerate(edge_violations(p0(round_), present)):
            if edge in fell_back:
                continue
            # An edge that needed no fallback keeps its limits.
            assert after[edge] == 0
            stand_ins = np.flatnonzero((answer == edge) & (present != edge)).tolist()
            if missing == 0:
                assert stand_ins == []
                continue
            clusters = edge_clusters(plan.scenario, round_.costs, edge)
            cluster_of = dict(
                zip(clusters.clients.tolist(), clusters.cluster.tolist(), strict=True)
            )
            absent = np.flatnonzero((plan.edge_of == edge) & ~round_.online).tolist()
            lost = {cluster_of[i] for i in absent} - {NOISE}
            assert 1 <= len(stand_ins) <= len(absent)
            assert {cluster_of[i] for i in stand_ins} <= lost
            replaced += 1
    assert replaced >= 10


def test_the_fallback_is_drawn_from_the_seed_and_the_round():
    """Backups are random: an answer may change with the round's number, never without it."""
    changed = 0
    for seed in range(60):
        plan, round_ = random_case(seed, clients=24)
        rounds = [replace(round_, index=index) for index in range(4)]
        answers = {tuple(ccu.cluster_based_update(plan, r, "strict")) for r in rounds}
        changed += len(answers) > 1
        again = {tuple(ccu.cluster_based_update(plan, r, "strict")) for r in rounds}
        assert answers == again
    assert changed > 0
