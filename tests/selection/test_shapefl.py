"""ShapeFL's greedy association against its rule, said again over pairs of clients."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import random_scenario
from stagewise.errors import StagewiseError
from stagewise.selection.selector import candidates
from stagewise.selection.shapefl import ShapeFl
from stagewise.world.costs import transmission_delay_s
from stagewise.world.rounds import Round


def diversity(counts: list[list[int]], members: list[int]) -> float:
    """The mean of 1 - cos over all pairs of samples of different clients and of the same."""
    total = sum(sum(counts[m]) for m in members)
    pairs = 0.0
    for place, one in enumerate(members):
        for other in members[:place]:
            dot = sum(a * b for a, b in zip(counts[one], counts[other], strict=True))
            cosine = dot / (math.hypot(*counts[one]) * math.hypot(*counts[other]))
            pairs += sum(counts[one]) * sum(counts[other]) * (1 - cosine)
    return pairs / max(1.0, total * (total - 1) / 2)


def less_kld(counts: list[list[int]], members: list[int]) -> float:
    """Minus the divergence from even shares; an empty edge has that of a single label."""
    labels = len(counts[0])
    if not members:
        return -math.log(labels)
    sums = [sum(counts[m][label] for m in members) for label in range(labels)]
    total = sum(sums)
    return -sum(n / total * math.log(n / total * labels) for n in sums if n)


def greedy(round_: Round, clients: list[int], gamma: float, quality) -> list[int]:
    scenario, links = round_.scenario, round_.scenario.links
    counts = scenario.clients.label_counts.tolist()
    sending = transmission_delay_s(scenario)
    usable = [k for k in range(len(links)) if round_.usable[k] and links.client[k] in clients]
    mean = sum(sending[k] for k in usable) / max(1, len(usable))
    at: dict[int, list[int]] = {edge: [] for edge in range(len(scenario.edges))}
    edge_of = [-1] * len(round_.online)
    while True:
        pairs = []
        for link in usable:
            client, edge = int(links.client[link]), int(links.edge[link])
            if edge_of[client] < 0 and len(at[edge]) < scenario.edges.capacity[edge]:
                gain = quality(counts, [*at[edge], client]) - quality(counts, at[edge])
                pairs.append((round(sending[link] / mean - gamma * gain, 9), link))
        if not pairs:
            return edge_of
        _, link = min(pairs)
        client, edge = int(links.client[link]), int(links.edge[link])
        edge_of[client] = edge
        at[edge].append(client)


@pytest.mark.parametrize("measure", ["diversity", "kld"])
@given(seed=st.integers(0, 10_000), gamma=st.sampled_from([0.0, 0.5, 5.0, 50.0]))
def test_it_associates_as_published(measure, seed, gamma):
    scenario = random_scenario(seed, clients=9, edges=3, capacity=(1, 4))
    rng = np.random.default_rng(seed)
    round_ = Round(scenario, rng.random(9) < 0.9, up=rng.random(len(scenario.links)) < 0.9)
    clients = candidates(round_)
    clients = clients[rng.random(len(clients)) < 0.8]
    quality = diversity if measure == "diversity" else less_kld
    expected = greedy(round_, clients.tolist(), gamma, quality)
    found = ShapeFl(gamma=gamma, measure=measure).associate(round_, clients)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [({"gamma": -1}, "gamma = -1"), ({"measure": "emd"}, "measure = 'emd': must be one of")],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(StagewiseError, match=message):
        ShapeFl(**options)
