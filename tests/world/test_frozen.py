"""What is built is not changed any more: not by hand, not on the way to another process."""

import pickle

import numpy as np
import pytest

import stagewise


def arrays_of(thing: object) -> dict[str, np.ndarray]:
    return {name: a for name, a in vars(thing).items() if isinstance(a, np.ndarray)}


@pytest.fixture(scope="module")
def built() -> list[object]:
    scenario = stagewise.generate.numeric(clients=12, edges=2, seed=0)
    [round_] = stagewise.participation.bernoulli(scenario, rounds=1)
    down = stagewise.Round(
        scenario, round_.online, up=np.arange(len(scenario.links)) > 3, gain=scenario.links.gain
    )
    plan = stagewise.plan(scenario, method="local-search", seconds=0.01)
    answer = stagewise.Answer(np.full(12, -1), edge_weights=np.ones(2), client_weights=np.ones(12))
    for one in (round_, down):
        _ = one.costs, one.usable, one.edges_up
    _ = scenario.target
    parts = [scenario.clients, scenario.edges, scenario.links, scenario.costs, scenario]
    return [*parts, round_, down, down.costs, plan, answer]


def test_no_array_can_be_written_to(built):
    for thing in built:
        assert arrays_of(thing) or isinstance(thing, stagewise.Scenario)
        for name, array in arrays_of(thing).items():
            assert not array.flags.writeable, f"{type(thing).__name__}.{name}"
            again = arrays_of(pickle.loads(pickle.dumps(thing))).get(name)
            assert again is None or not again.flags.writeable, f"{type(thing).__name__}.{name}"
