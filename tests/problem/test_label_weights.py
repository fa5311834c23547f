"""Weights of clients by their labels: a minimum found another way, and what must hold of any."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from helpers import random_scenario
from references import random_assignment
from stagewise.problem.label_weights import LOYALTY, WHOLE, label_weights

seeds = st.integers(0, 10**6)


def a_case(seed: int):
    """A scenario, who serves where, and now and then weights of edges."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 10)), int(rng.integers(1, 4))
    scenario = random_scenario(seed, *size, data=(0, 120), reference=bool(rng.integers(2)))
    edge_of = random_assignment(scenario, rng)
    edge_weights = rng.choice([0.0, 0.5, 1.0, 3.0], len(scenario.edges))
    return scenario, edge_of, edge_weights if rng.random() < 0.5 else None


def plain_objective(scenario, edge_of, edge_weights, anchors, shares):
    """The three terms, client by client and label by label.

    `shares` and `anchors` are lists by edge of what each of its clients counts for.
    """

    def divergence(of, beside):
        return sum(a * np.log(a / b) for a, b in zip(of, beside, strict=True) if a > 0)

    parts, mixtures, value = [], [], 0.0
    for edge in range(len(scenario.edges)):
        members = np.flatnonzero(edge_of == edge)
        weight = 1.0 if edge_weights is None else edge_weights[edge]
        parts.append(weight * sum(int(scenario.clients.data[i]) for i in members))
        mixture = np.zeros(scenario.labels)
        for share, i in zip(shares[edge], members, strict=True):
            mixture += share * scenario.clients.label_counts[i] / scenario.clients.data[i]
        mixtures.append(mixture)
    whole = np.zeros(scenario.labels)
    for edge, part in enumerate(parts):
        if part:
            value += part / sum(parts) * divergence(mixtures[edge], scenario.target)
            value += LOYALTY * part / sum(parts) * divergence(shares[edge], anchors[edge])
            whole += part / sum(parts) * mixtures[edge]
    return value + WHOLE * divergence(whole, scenario.target)


def by_edge(scenario, edge_of, client_weights):
    """What each client of each edge counts for in its mean."""
    shares = []
    for edge in range(len(scenario.edges)):
        members = np.flatnonzero(edge_of == edge)
        weight = [scenario.clients.data[i] * client_weights[i] for i in members]
        shares.append(np.array(weight) / sum(weight) if weight else np.empty(0))
    return shares


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_no_other_weights_bring_the_labels_closer(seed: int) -> None:
    """Beside a general solver, from the data's shares and from ours."""
    scenario, edge_of, edge_weights = a_case(seed)
    anchors = by_edge(scenario, edge_of, np.ones(len(scenario.clients)))
    found = label_weights(scenario, edge_of, edge_weights=edge_weights, largest=np.inf)
    shares = by_edge(scenario, edge_of, found)

    def value(logits):
        cut, at = [], 0
        for anchor in anchors:
            own = logits[at : at + len(anchor)]
            weight = anchor * np.exp(own - own.max(initial=0.0))
            cut.append(weight / weight.sum() if len(anchor) else weight)
            at += len(anchor)
        return plain_objective(scenario, edge_of, edge_weights, anchors, cut)

    count = sum(map(len, anchors))
    if count == 0 or value(np.zeros(count)) == 0:
        return
    ours = np.concatenate([np.log(s / a) for s, a in zip(shares, anchors, strict=True)])
    best = min(minimize(value, start).fun for start in (np.zeros(count), ours))
    assert value(ours) <= best + 1e-5 * (1 + value(np.zeros(count)))
    assert value(ours) <= value(np.zeros(count)) + 1e-12


@given(seeds)
def test_an_edge_keeps_its_data_and_those_away_count_as_before(seed: int) -> None:
    scenario, edge_of, edge_weights = a_case(seed)
    found = label_weights(scenario, edge_of, edge_weights=edge_weights, largest=np.inf)
    np.testing.assert_array_equal(found[edge_of < 0], 1.0)
    for edge in range(len(scenario.edges)):
        data = np.where(edge_of == edge, scenario.clients.data, 0)
        assert data @ found == pytest.approx(data.sum())


@given(seeds, st.floats(1.0, 5.0))
def test_no_weight_is_beyond_the_largest(seed: int, largest: float) -> None:
    scenario, edge_of, edge_weights = a_case(seed)
    free = label_weights(scenario, edge_of, edge_weights=edge_weights, largest=np.inf)
    found = label_weights(scenario, edge_of, edge_weights=edge_weights, largest=largest)
    np.testing.assert_array_equal(found, np.clip(free, 1 / largest, largest))


def test_one_client_counts_for_ten_times_its_data_at_the_most() -> None:
    """Unless somebody asks for more: what labels it holds is what it says."""
    scenario = with_labels([[1000, 0], [0, 1]])
    found = label_weights(scenario, np.zeros(2, int))
    free = label_weights(scenario, np.zeros(2, int), largest=np.inf)
    assert found[1] == 10 < free[1]
    assert found[0] == free[0] > 0.1


@pytest.mark.parametrize("factor", [1e306, 1e-306])
def test_only_the_proportions_of_edge_weights_count(factor) -> None:
    scenario = with_labels([[100, 0], [50, 0], [0, 50]], edges=2)
    proportions = np.array([1.0, 0.5])
    found, expected = (
        label_weights(scenario, np.array([0, 1, 1]), edge_weights=weights)
        for weights in (factor * proportions, proportions)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not np.allclose(expected, label_weights(scenario, np.array([0, 1, 1])))


def test_labels_that_are_there_are_balanced() -> None:
    """A client with one label and three times the data counts for a third of its data."""
    scenario = with_labels([[300, 0], [0, 100]])
    found = label_weights(scenario, np.array([0, 0]), loyalty=1e-9)
    np.testing.assert_allclose(found * [300, 100], 200, rtol=1e-3)


def test_loyalty_keeps_a_client_with_a_rare_label_from_being_all() -> None:
    scenario = with_labels([[1000, 0], [0, 1]])
    shares = [
        by_edge(
            scenario,
            np.zeros(2),
            label_weights(scenario, np.zeros(2, int), loyalty=term, largest=np.inf),
        )[0][1]
        for term in (1e-6, LOYALTY, 1.0, 1e6)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.49 and shares[-1] < 0.0011


def test_one_edge_makes_up_for_what_another_cannot_have() -> None:
    """Where an edge has only the first label, the other learns more of the second than balance asks."""
    scenario = with_labels([[100, 0], [50, 0], [0, 50]], edges=2)
    found = label_weights(scenario, np.array([0, 1, 1]))
    assert found[0] == pytest.approx(1.0)
    assert found[2] > 1.0 > found[1]
    alone = label_weights(scenario, np.array([0, 1, 1]), whole=0.0)
    np.testing.assert_allclose(alone, 1.0, rtol=1e-6)


def with_labels(label_counts, edges=1):
    """Clients that hold so many samples of two labels."""
    scenario = random_scenario(0, len(label_counts), edges, labels=2)
    return replace(scenario, clients=replace(scenario.clients, label_counts=np.array(label_counts)))
