"""Scenarios from a matrix of delays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stagewise.errors import StagewiseError
from stagewise.world.generate import SystemParameters, from_delays
from stagewise.world.scenario import Weights

MATRIX = [[2.0, 0.0], [1.5, 3.0], [0.0, 0.0]]


@given(arrays(float, (5, 3), elements=st.sampled_from([0.0, 0.5, 3.0, 80.0])), st.data())
def test_every_number_of_the_matrix_is_a_link(exchange, data):
    training = np.array(data.draw(st.lists(st.floats(0, 100), min_size=5, max_size=5)))
    scenario = from_delays(exchange, training, [0.1, 0.2, 0.3])
    found = np.zeros((5, 3))
    for client in range(5):
        for link in range(scenario.links.start[client], scenario.links.start[client + 1]):
            found[client, scenario.links.edge[link]] = scenario.links.delay_s[link]
    expected = np.where(exchange > 0, exchange + training[:, None], 0)
    np.testing.assert_array_equal(found, expected)


def test_what_was_not_measured_is_drawn_from_the_seed():
    parameters = SystemParameters(online_probability=(0.9, 1.0), capacity=(3, 4), edge_rounds=7)
    made, again, other = (
        from_delays(MATRIX, [1, 2, 3], [0, 0], seed, parameters=parameters) for seed in (1, 1, 2)
    )
    assert made.sha256 == again.sha256 != other.sha256
    assert made.clients.online_probability.min() >= 0.9
    assert set(made.edges.capacity) <= {3, 4}
    assert made.edge_rounds == 7
    assert (made.weights.delay, made.weights.energy) == (1, 0)
    assert made.links.measured.all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"exchange_s": [1.0, 2.0]}, r"exchange_s of shape \(2,\): must be a row for each client"),
        ({"exchange_s": np.empty((0, 2))}, r"exchange_s of shape \(0, 2\)"),
        ({"exchange_s": [[1.0, -2.0]] * 3}, r"exchange_s\[0, 1\] = -2.0: must be a finite number"),
        ({"exchange_s": [[1.0, 2.0], [1.0, np.nan], [1, 1]]}, r"exchange_s\[1, 1\] = nan: must be"),
        ({"training_s": [1.0, 2.0]}, r"training_s has the shape \(2,\): must have one value"),
        ({"training_s": [1.0, np.inf, 1]}, r"training_s\[1\] = inf: must be"),
        ({"uplink_delay_s": [1.0]}, r"uplink_delay_s.*2 edges"),
        ({"uplink_delay_s": [1.0, -1.0]}, r"uplink_delay_s.*-1.0: must be a finite number"),
        ({"weights": Weights(0.5, 0.5)}, "energy"),
        ({"seed": -1}, "seed = -1"),
        ({"task": "moon"}, "moon"),
    ],
)
def test_what_cannot_be(changed, message):
    given = {"exchange_s": MATRIX, "training_s": [1, 2, 3], "uplink_delay_s": [0.1, 0.2]}
    with pytest.raises(StagewiseError, match=message):
        from_delays(**{**given, **changed})
