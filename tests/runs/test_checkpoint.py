"""Checkpoints: the same bytes for the same state, and nothing believed of a damaged one."""

import random

import numpy as np
import pytest
from safetensors import safe_open

from stagewise.errors import StagewiseError
from stagewise.files import write_bytes
from stagewise.runs.checkpoint import checkpoint_content, load_round, load_state, load_weights

WEIGHTS = {
    "layer.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "layer.transposed": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "norm.count": np.array(7, dtype=np.int64),
    "empty": np.zeros((0, 5), dtype=np.float32),
}
STATE = {
    "orders": [[2, "every"], [7, "cost"]],
    "seen": np.array([[True, False], [False, True]]),
    "policy": {"a/b": np.array([0.1, np.nan]), "a~1b": np.arange(3, dtype=np.int8), "none": None},
    "bound": float("inf"),
}
LOADERS = (load_round, load_weights, load_state)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    write_bytes(path, checkpoint_content(WEIGHTS, 12, STATE))
    return path


@pytest.fixture
def plain_path(tmp_path):
    """A checkpoint of a policy without a state."""
    path = tmp_path / "plain.safetensors"
    write_bytes(path, checkpoint_content(WEIGHTS, 12, {}))
    return path


@pytest.mark.parametrize("name", ["path", "plain_path"])
def test_the_weights_and_the_round_come_back(name, request):
    path = request.getfixturevalue(name)
    assert load_round(path) == 12
    weights = load_weights(path)
    assert weights.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        assert weights[name].dtype == array.dtype
        assert weights[name].shape == array.shape
        np.testing.assert_array_equal(weights[name], array)


def test_the_state_comes_back(path, plain_path):
    state = load_state(path)
    assert state.keys() == STATE.keys()
    assert state["orders"] == STATE["orders"]
    assert state["bound"] == float("inf")
    assert state["seen"].dtype == np.bool_
    np.testing.assert_array_equal(state["seen"], STATE["seen"])
    within = state["policy"]
    assert within.keys() == STATE["policy"].keys()
    assert within["none"] is None
    assert within["a~1b"].dtype == np.int8
    np.testing.assert_array_equal(within["a/b"], STATE["policy"]["a/b"])
    np.testing.assert_array_equal(within["a~1b"], STATE["policy"]["a~1b"])
    assert load_state(plain_path) == {}


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, {"$array": "x"}, np.array(["a"]), 1j, {"deep": [set()]}]
)
def test_a_state_that_cannot_be_kept_is_one_line(tmp_path, value):
    with pytest.raises(StagewiseError, match=r"^state of the policy, .*mine.* = .*: must be") as e:
        write_bytes(tmp_path / "c.safetensors", checkpoint_content(WEIGHTS, 0, {"mine": value}))
    assert "\n" not in str(e.value)
    assert list(tmp_path.iterdir()) == []


def test_any_reader_of_the_format_finds_the_round(path, plain_path):
    with safe_open(path, framework="np") as stored:
        assert stored.metadata()["round"] == "12"
        assert stored.metadata()["format"] == '"stagewise-checkpoint/2"'
        stored_names = set(stored.keys())
        assert {name for name in stored_names if not name.startswith("policy:")} == set(WEIGHTS)
    with safe_open(plain_path, framework="np") as stored:
        assert stored.metadata() == {
            "round": "12",
            "orders": "[]",
            "adopted": "[]",
            "format": '"stagewise-checkpoint/1"',
        }
        assert set(stored.keys()) == set(WEIGHTS)


def test_plans_of_an_earlier_version_are_refused_in_one_line(plain_path):
    """Version 1 did not keep what a plan under way was made for."""
    content = plain_path.read_bytes()
    old = content.replace(b'"orders":"[]"', b'"orders":"[[2,\\"every\\"]]"')
    grown = len(old) - len(content)
    header = int.from_bytes(content[:8], "little") + grown
    plain_path.write_bytes(header.to_bytes(8, "little") + old[8:])
    assert load_round(plain_path) == 12
    with pytest.raises(StagewiseError, match="was written by an earlier version while plans"):
        load_state(plain_path)


def test_equal_states_give_equal_bytes(path, tmp_path):
    for number in range(20):
        again = tmp_path / f"{number}.safetensors"
        write_bytes(again, checkpoint_content(dict(reversed(WEIGHTS.items())), 12, STATE))
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
        for load in LOADERS:
            try:
                load(path)
            except StagewiseError as error:
                refused += 1
                assert str(error).startswith(f"{path}: ")
                assert "\n" not in str(error)
    assert refused > len(content) // 7


def test_a_file_that_is_not_there(tmp_path):
    for load in LOADERS:
        with pytest.raises(StagewiseError, match="cannot be read: No such file"):
            load(tmp_path / "none.safetensors")
