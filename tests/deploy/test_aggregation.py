"""Eqs. 2 and 3 over what arrived, and what is no model."""

import numpy as np
import pytest

from stagewise.deploy.aggregation import fault, mean_model
from stagewise.errors import StagewiseError


def model(number, dtype=np.float32):
    return {"w": np.full((2, 3), number, dtype=dtype), "batches": np.array(int(number))}


def test_the_mean_is_by_data_and_counters_take_the_largest():
    mean = mean_model([model(1.0), model(5.0)], [1, 3])
    np.testing.assert_array_equal(mean["w"], np.full((2, 3), 4.0, dtype=np.float32))
    assert mean["w"].dtype == np.float32
    assert mean["batches"] == 5
    assert mean["batches"].shape == ()


def test_a_mean_of_means_is_the_mean_of_all():
    rng = np.random.default_rng(0)
    models = [{"w": rng.normal(size=50)} for _ in range(7)]
    data = [int(d) for d in rng.integers(1, 100, 7)]
    first, second = mean_model(models[:3], data[:3]), mean_model(models[3:], data[3:])
    nested = mean_model([first, second], [sum(data[:3]), sum(data[3:])])
    plain = sum(d * m["w"] for d, m in zip(data, models, strict=True)) / sum(data)
    np.testing.assert_allclose(nested["w"], plain, rtol=0, atol=1e-14)


def test_nothing_has_no_mean():
    with pytest.raises(StagewiseError, match=r"models = \[\]"):
        mean_model([], [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"w": np.full((2, 3), np.nan, dtype=np.float32)}, "w has numbers that are not finite"),
        ({"w": np.full((2, 3), np.inf, dtype=np.float32)}, "w has numbers that are not finite"),
        ({"w": np.zeros((3, 2), dtype=np.float32)}, r"w has the shape (3, 2): must be (2, 3)"),
        ({"w": np.zeros((2, 3))}, "w is of float64: must be float32"),
        ({"extra": np.zeros(1)}, "extra is not part of the model"),
        ({}, ""),
    ],
)
def test_what_is_wrong_with_an_update_is_said(change, reason):
    assert fault({**model(1.0), **change}, model(0.0)) == reason


def test_a_missing_part_is_named():
    assert fault({"w": model(1.0)["w"]}, model(0.0)) == "batches is missing"
