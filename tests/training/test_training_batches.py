"""Mini-batches: without repetition, uniform, and independent of all but their own place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from stagewise.training.batches import draw_batches


@given(st.integers(1, 200), st.data())
def test_a_batch_has_distinct_samples_of_the_client(data_size, data):
    batch_size = data.draw(st.integers(1, data_size))
    batches = draw_batches(0, 3, 1, 2, data_size=data_size, batch_size=batch_size, steps=4)
    assert batches.shape == (4, batch_size)
    for batch in batches:
        assert len(set(batch.tolist())) == batch_size
        assert 0 <= batch.min() <= batch.max() < data_size


def test_every_place_has_batches_of_its_own():
    size = {"data_size": 1000, "batch_size": 20, "steps": 2}
    places = [(0, 1, 2, 3), (1, 1, 2, 3), (0, 2, 2, 3), (0, 1, 3, 3), (0, 1, 2, 4)]
    drawn = [draw_batches(*place, **size) for place in places]
    steps = {tuple(batch) for batches in drawn for batch in batches}
    assert len(steps) == 10
    np.testing.assert_array_equal(drawn[0], draw_batches(*places[0], **size))


def test_samples_are_drawn_uniformly():
    batches = draw_batches(0, 0, 0, 0, data_size=10, batch_size=3, steps=4000)
    share = np.bincount(batches.ravel(), minlength=10) / 4000
    # Nine standard deviations of a share of 0.3.
    assert np.abs(share - 0.3).max() < 0.065
