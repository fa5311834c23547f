"""Async-HFL's integer program against all associations there are."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.selection.associator import links_of
from stagewise.selection.associators import LeastDelay
from stagewise.selection.async_hfl import AsyncHfl, learning_utility
from stagewise.selection.selector import candidates
from stagewise.world.rounds import Round, everybody_online


def utilities(counts: list[list[int]]) -> list[float]:
    """u = eta + v of the authors' code, over lists, with label shares less even ones as gradients."""
    sizes = [sum(row) for row in counts]
    gradients = [[n / sum(row) - 1 / len(row) for n in row] for row in counts]

    def dot(one, other):
        return sum(a * b for a, b in zip(one, other, strict=True))

    labels = range(len(counts[0]))
    total = sum(sizes)
    together = [
        sum(s * g[k] for s, g in zip(sizes, gradients, strict=True)) / total for k in labels
    ]
    return [
        dot(together, own)
        - sum(dot(own, other) for other in gradients if other is not own) / max(1, len(counts) - 1)
        for own in gradients
    ]


def best_value(round_: Round, clients: np.ndarray, phi: float) -> tuple[int, float, dict]:
    """The most clients that can be placed, the best objective with these, and what each edge has."""
    scenario, links = round_.scenario, round_.scenario.links
    u = dict(zip(clients, utilities(scenario.clients.label_counts[clients].tolist()), strict=True))
    usable = links_of(round_, clients)
    usable = usable[scenario.edges.capacity[links.edge[usable]] > 0]
    speeds = 1 / round_.costs.delay_s[usable]
    load = {
        int(k): v / (scenario.edges.capacity[links.edge[k]] * speeds.mean())
        for k, v in zip(usable, speeds, strict=True)
    }
    edges = sorted({int(links.edge[k]) for k in usable})
    options = [[-1, *(int(k) for k in usable if links.client[k] == c)] for c in clients]
    values: dict[tuple, tuple[int, float]] = {}
    for chosen in product(*options):
        used = [k for k in chosen if k >= 0]
        at = {e: [k for k in used if links.edge[k] == e] for e in edges}
        if any(len(at[e]) > scenario.edges.capacity[e] for e in edges):
            continue
        least = min(sum(u[links.client[k]] for k in at[e]) for e in edges)
        most = max(sum(load[k] for k in at[e]) for e in edges)
        values[chosen] = (len(used), least - phi * most)
    placed = max(n for n, _ in values.values())
    return placed, max(v for n, v in values.values() if n == placed), values


@given(seed=st.integers(0, 10_000), phi=st.sampled_from([0.0, 0.1, 2.0]))
def test_it_associates_as_the_program_says(seed, phi):
    scenario = random_scenario(seed, clients=6, edges=3, capacity=(0, 3), isolated=0)
    rng = np.random.default_rng(seed)
    round_ = Round(scenario, rng.random(6) < 0.9)
    clients = candidates(round_)
    edge_of = AsyncHfl(phi=phi).associate(round_, clients)
    reachable = scenario.edges.capacity[scenario.links.edge[links_of(round_, clients)]]
    if not (reachable > 0).any():
        assert (edge_of == -1).all()
        return
    placed, best, values = best_value(round_, clients, phi)
    link = scenario.links.find(clients, edge_of[clients])
    chosen = tuple(int(k) if edge_of[c] >= 0 else -1 for c, k in zip(clients, link, strict=True))
    found = values[chosen]
    assert found[0] == placed
    assert found[1] >= best - 0.1 * abs(found[1]) - 1e-6  # the authors' gap


def test_utility_as_the_authors_compute_it():
    scenario = random_scenario(3, clients=7, edges=2)
    clients = np.array([0, 2, 3, 6])
    expected = utilities(scenario.clients.label_counts[clients].tolist())
    assert learning_utility(scenario, clients) == pytest.approx(expected)
    assert learning_utility(scenario, np.array([4])).shape == (1,)


def test_without_time_it_is_the_least_delay():
    scenario = random_scenario(1, clients=40, edges=4, capacity=(12, 12), coverage=1.0)
    round_ = everybody_online(scenario)
    clients = candidates(round_)
    found = AsyncHfl(seconds=1e-9).associate(round_, clients)
    assert found.tolist() == LeastDelay().associate(round_, clients).tolist()


def test_a_weight_that_cannot_be():
    with pytest.raises(StagewiseError, match="phi = -1"):
        AsyncHfl(phi=-1)
