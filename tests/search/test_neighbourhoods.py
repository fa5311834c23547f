"""Neighbourhoods and blocks: every edge in one, and each block a faithful part of the whole."""

import numpy as np
import pytest

from helpers import random_scenario
from references import NOBODY, plain_scenario, random_assignment, random_round
from stagewise.problem.risk import risk_measure
from stagewise.problem.statement import p0, p1
from stagewise.randomness import generator
from stagewise.search.blocks import cut_into_blocks
from stagewise.search.instance import Instance, build_instance
from stagewise.search.neighbourhoods import cheapest_links, link_price, neighbourhoods
from stagewise.search.state import LOG_PROBABILITY, NEVER, SERVING, new_state, start_from
from stagewise.search.value import value
from stagewise.world.generate import numeric
from stagewise.world.rounds import Round


def a_round(seed: int, clients: int = 120, edges: int = 12, coverage: float = 0.15) -> Instance:
    scenario = random_scenario(seed, clients, edges, coverage=coverage, capacity=(2, 6))
    return build_instance(p0(random_round(scenario, np.random.default_rng(seed))))


def a_plan(seed: int, name: str = "exact") -> Instance:
    scenario = random_scenario(seed, 120, 12, coverage=0.15, capacity=(2, 6))
    return build_instance(p1(scenario, risk_measure(scenario, name, samples=64)))


def at(instance: Instance, seed: int):
    """A state at a random assignment of the instance, and the assignment."""
    rng = np.random.default_rng(seed)
    assignment = np.full(len(instance.lock), NOBODY, dtype=np.int64)
    for client in np.flatnonzero(rng.random(len(assignment)) < 0.4):
        links = instance.link_edge[instance.link_start[client] : instance.link_start[client + 1]]
        if len(links):
            assignment[client] = rng.choice(links)
    state = new_state(instance)
    start_from(instance, state, assignment)
    return state, state.edge_of.copy()


@pytest.mark.parametrize("largest", [1, 3, 7, 40])
def test_every_edge_is_in_one_neighbourhood(largest):
    for seed in range(5):
        numbers = neighbourhoods(a_round(seed), largest, generator(seed, "test"))
        sizes = np.bincount(numbers)
        assert len(numbers) == 12
        assert sizes.min() >= 1
        assert sizes.max() <= largest


def test_the_generator_alone_decides_and_others_cut_elsewhere():
    instance = build_instance(p0(Round(numeric(600, 36, 0), np.ones(600, dtype=bool))))
    cuts = [neighbourhoods(instance, 9, generator(seed, "test")) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(cuts[0], cuts[1])
    together = [cut[:, None] == cut[None, :] for cut in cuts]
    assert (together[0] != together[2]).any()


def test_neighbours_stand_close_to_each_other():
    """Edges on a map that never saw their places: a group is far smaller than the map."""
    scenario = numeric(5000, 100, 3)
    instance = build_instance(p0(Round(scenario, np.ones(5000, dtype=bool))))
    numbers = neighbourhoods(instance, 10, generator(0, "test"))
    place = scenario.edges.position_m
    spread = [np.ptp(place[numbers == group], axis=0).max() for group in range(numbers.max() + 1)]
    assert np.mean(spread) < 0.45 * np.ptp(place)


def test_edges_that_share_nobody_are_cut_too():
    scenario = plain_scenario([[1, 1]] * 5, [[j] for j in range(5)], capacity=[1] * 5)
    instance = build_instance(p0(Round(scenario, np.ones(5, dtype=bool))))
    assert sorted(neighbourhoods(instance, 1, generator(0, "test"))) == [0, 1, 2, 3, 4]
    nobody = build_instance(p0(Round(scenario, np.zeros(5, dtype=bool))))
    assert len(np.unique(neighbourhoods(nobody, 2, generator(0, "test")))) >= 3


def test_cheapest_links_against_a_plain_loop():
    for seed in range(10):
        instance = a_round(seed, coverage=0.3)
        price = np.round(link_price(instance), 1)  # with ties
        expected = []
        for client in range(len(instance.lock)):
            links = range(instance.link_start[client], instance.link_start[client + 1])
            if links:
                expected.append(min(links, key=lambda link: (price[link], link)))
        assert cheapest_links(instance, price).tolist() == expected


INSTANCES = {
    "P0": a_round,
    "P1": a_plan,
    "P1 sampled": lambda seed: a_plan(seed, "sampled"),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_blocks_are_parts_of_the_whole(name):
    """Clients and edges occur once; links, candidates and label counts are those of the whole."""
    for seed in range(4):
        instance = INSTANCES[name](seed)
        state, assignment = at(instance, seed)
        numbers = neighbourhoods(instance, 4, generator(seed, "test"))
        blocks = list(cut_into_blocks(instance, state, numbers))
        edges = np.concatenate([block.edges for block in blocks])
        assert sorted(edges) == list(range(len(instance.capacity)))
        clients = np.concatenate([block.clients for block in blocks])
        linked = np.flatnonzero(np.diff(instance.link_start))
        assert sorted(clients) == linked.tolist()
        for block in blocks:
            part = block.instance
            for client, number in enumerate(block.clients):
                found = set()
                for link in range(part.link_start[client], part.link_start[client + 1]):
                    assert part.link_client[link] == client
                    found.add(
                        (
                            int(block.edges[part.link_edge[link]]),
                            float(part.link_delay[link]),
                            float(part.link_energy[link]),
                        )
                    )
                whole = range(instance.link_start[number], instance.link_start[number + 1])
                assert found == {
                    (
                        int(instance.link_edge[link]),
                        float(instance.link_delay[link]),
                        float(instance.link_energy[link]),
                    )
                    for link in whole
                    if instance.link_edge[link] in block.edges
                }
                assert found, "a client is offered only where it can serve"
                assert labels_of(part, client) == labels_of(instance, number)
                assert part.probability[client] == instance.probability[number]
                if len(instance.samples):
                    assert (part.samples[client] == instance.samples[number]).all()
            price = link_price(part)
            for edge in range(len(block.edges)):
                own = part.candidate[part.candidate_start[edge] : part.candidate_start[edge + 1]]
                assert sorted(own) == np.flatnonzero(part.link_edge == edge).tolist()
                assert (np.diff(price[own]) >= 0).all()
            merged = assignment.copy()
            block.put_into(merged, block.part_of(assignment))
            np.testing.assert_array_equal(merged, assignment)


def labels_of(instance: Instance, client: int) -> tuple[list[int], list[int], int]:
    start, label, count, data = instance.rows
    row = slice(start[client], start[client + 1])
    return label[row].tolist(), count[row].tolist(), int(data[client])


def test_a_block_counts_what_serves_outside():
    """Its value and its sums, with what it is told of the others, are those of the whole."""
    for seed in range(6):
        instance = a_plan(seed)
        state, assignment = at(instance, seed)
        numbers = neighbourhoods(instance, 4, generator(seed, "test"))
        energy = instance.energy_weight * state.energy.sum()
        for block in cut_into_blocks(instance, state, numbers):
            own = new_state(block.instance)
            start_from(block.instance, own, block.part_of(assignment))
            outside = block.instance.outside
            totals = state.totals
            assert own.totals[SERVING] + outside.serving == totals[SERVING]
            assert own.totals[NEVER] + outside.never == totals[NEVER]
            assert own.totals[LOG_PROBABILITY] + outside.log_probability == pytest.approx(
                totals[LOG_PROBABILITY]
            )
            assert max(own.delay.max(), outside.delay) == state.delay.max()
            np.testing.assert_allclose(own.violation, state.violation[block.edges], atol=1e-12)
            spent_elsewhere = energy - instance.energy_weight * own.energy.sum()
            assert value(block.instance, own) + spent_elsewhere == pytest.approx(
                value(instance, state)
            )


def test_clients_in_need_are_offered_to_the_edge_in_need():
    """Both edges cover the free client; es0 is cheaper for it, but only es1 is in violation."""
    scenario = plain_scenario([[60, 60], [60, 60]], [[0], [0, 1]], capacity=[1, 1])
    instance = build_instance(p0(Round(scenario, np.ones(2, dtype=bool))))
    state = new_state(instance)
    start_from(instance, state, np.array([0, NOBODY]))
    assert state.violation[0] == 0
    first, second = cut_into_blocks(instance, state, np.array([0, 1]))
    assert (first.clients.tolist(), second.clients.tolist()) == ([0], [1])


def test_random_assignment_is_kept_by_its_blocks():
    """Whoever serves stays in the block of its edge, whatever other links would cost."""
    for seed in range(5):
        scenario = random_scenario(seed, 60, 8, coverage=0.4, capacity=(9, 9), isolated=0)
        instance = build_instance(p0(Round(scenario, np.ones(60, dtype=bool))))
        assignment = random_assignment(scenario, np.random.default_rng(seed))
        state = new_state(instance)
        start_from(instance, state, assignment)
        numbers = neighbourhoods(instance, 2, generator(seed, "test"))
        for block in cut_into_blocks(instance, state, numbers):
            served = np.flatnonzero(np.isin(assignment, block.edges))
            assert set(served) <= set(block.clients.tolist())
