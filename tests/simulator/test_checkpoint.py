"""Checkpoints: the same bytes for the same state, and nothing believed of a damaged one."""

import random

import numpy as np
import pytest
from safetensors import safe_open

from stagewise.errors import StagewiseError
from stagewise.simulator.checkpoint import Position, load_position, load_weights, save_checkpoint

WEIGHTS = {
    "layer.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "layer.transposed": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "norm.count": np.array(7, dtype=np.int64),
    "empty": np.zeros((0, 5), dtype=np.float32),
}
POSITION = Position(round=12, orders=[(2, "every"), (7, "cost")], adopted=[3])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, WEIGHTS, POSITION)
    return path


def test_round_trip(path):
    assert load_position(path) == POSITION
    weights = load_weights(path)
    assert weights.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        assert weights[name].dtype == array.dtype
        assert weights[name].shape == array.shape
        np.testing.assert_array_equal(weights[name], array)


def test_any_reader_of_the_format_finds_the_round(path):
    with safe_open(path, framework="np") as stored:
        assert stored.metadata()["round"] == "12"
        assert set(stored.keys()) == set(WEIGHTS)


def test_equal_states_give_equal_bytes(path, tmp_path):
    for number in range(20):
        again = tmp_path / f"{number}.safetensors"
        save_checkpoint(again, dict(reversed(WEIGHTS.items())), POSITION)
        assert again.read_bytes() == path.read_bytes()


def test_damage_is_one_line(path):
    """Cut anywhere, or with a few bytes changed: refused, or still a checkpoint; never a crash."""
    content, rng = path.read_bytes(), random.Random(0)
    damaged = [content[:length] for length in range(0, len(content), 7)]
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed) if rng.random() < 0.3 else 400)] = rng.randrange(256)
        damaged.append(bytes(changed))
    refused = 0
    for version in damaged:
        path.write_bytes(version)
        for load in (load_position, load_weights):
            try:
                load(path)
            except StagewiseError as error:
                refused += 1
                assert str(error).startswith(f"{path}: ")
                assert "\n" not in str(error)
    assert refused > len(content) // 7


def test_a_file_that_is_not_there(tmp_path):
    for load in (load_position, load_weights):
        with pytest.raises(StagewiseError, match="cannot be read: No such file"):
            load(tmp_path / "none.safetensors")
