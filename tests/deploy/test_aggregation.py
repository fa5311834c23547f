"""Eqs. 2 and 3 over what arrived, and what is no model."""

import numpy as np
import pytest

from stagewise.deploy.aggregation import cloud_model, mean_model, model_fault, update_norm
from stagewise.errors import StagewiseError
from stagewise.robust.norms import TOO_LARGE


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


def test_the_clouds_mean_is_by_data_times_weight():
    before, models = model(9.0), [("a", model(1.0), 10), ("b", model(5.0), 30), ("c", None, 0)]
    assert cloud_model(before, models)[0]["w"][0, 0] == 4
    equal, _ = cloud_model(before, models, {"a": 0.3, "b": 0.1, "c": 7.0})
    np.testing.assert_allclose(equal["w"], 3, rtol=1e-6)
    alone, _ = cloud_model(before, models, {"a": 1.0, "b": 0.0, "c": 1.0})
    np.testing.assert_array_equal(alone["w"], model(1.0)["w"])
    assert alone["batches"] == 5  # as in the simulator: of all edges
    huge, _ = cloud_model(before, models, {"a": 1e308, "b": 1e308, "c": 0.0})
    np.testing.assert_allclose(huge["w"], 4, rtol=1e-6)
    assert cloud_model(before, models, {"a": 0.0, "b": 0.0, "c": 1.0})[0] is before
    assert cloud_model(before, [])[0] is before


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
    assert model_fault({**model(1.0), **change}, model(0.0)) == reason


def test_a_missing_part_is_named():
    assert model_fault({"w": model(1.0)["w"]}, model(0.0)) == "batches is missing"


def test_the_norm_of_an_update_is_that_of_all_parameters():
    before = {"w": np.zeros((2, 2)), "b": np.ones(3, dtype=np.float32), "n": np.array(7)}
    after = {"w": np.full((2, 2), 2.0), "b": np.full(3, 4.0, dtype=np.float32), "n": np.array(9)}
    assert update_norm(before, after) == pytest.approx(np.sqrt(4 * 2**2 + 3 * 3**2))
    assert update_norm(before, before) == 0.0
    # Running statistics are not trained, and batches are counted.
    statistics = {"bn.running_mean": np.ones(2), "bn.running_var": np.ones(2)}
    moved = {name: array + 100 for name, array in statistics.items()}
    assert update_norm(before | statistics, after | moved) == update_norm(before, after)


def test_a_norm_that_is_too_large_to_compute_is_the_largest_number():
    assert update_norm({"w": np.zeros(2)}, {"w": np.full(2, 1e300)}) == TOO_LARGE
    assert update_norm({"w": np.full(1, -1.7e308)}, {"w": np.full(1, 1.7e308)}) == TOO_LARGE
    huge = np.finfo(np.float32).max
    single = {"w": np.full(4, huge, dtype=np.float32)}
    assert update_norm({"w": -single["w"]}, single) == pytest.approx(4 * float(huge))
