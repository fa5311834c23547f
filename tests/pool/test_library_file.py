"""The library's side file: there and back, and what is damaged, foreign or meant to mislead."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_cases import pool_plan
from safetensors.numpy import load, save

from plan_b_cases import decide
from stagewise.checker import check
from stagewise.cli.main import main
from stagewise.errors import StagewiseError
from stagewise.plans import load_plan, save_plan
from stagewise.pool.library import Library
from stagewise.pool.library_file import load_library, save_library
from stagewise.world.generate import numeric
from stagewise.world.participation import bernoulli
from stagewise.world.scenario import Scenario
from stagewise.world.scenario_file import save_scenario

Tensors = dict[str, np.ndarray]


@pytest.fixture
def scenario() -> Scenario:
    return pool_plan(40, 2, 0).scenario


@pytest.fixture
def library() -> Library:
    made = pool_plan(40, 2, 0).library
    assert made is not None
    return made


@pytest.fixture
def content(library, tmp_path) -> bytes:
    save_library(library, tmp_path / "library")
    return (tmp_path / "library").read_bytes()


def refusal(content: bytes, scenario: Scenario, folder: Path) -> str:
    """What is said of a file with this content: one line that begins with its name."""
    path = folder / "other.library.safetensors"
    path.write_bytes(content)
    with pytest.raises(StagewiseError) as error:
        load_library(path, scenario)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


def test_there_and_back(library, scenario, content, tmp_path):
    again = load_library(tmp_path / "library", scenario)
    np.testing.assert_array_equal(again.start, library.start)
    np.testing.assert_array_equal(again.clients, library.clients)
    np.testing.assert_array_equal(again.links, library.links)
    np.testing.assert_array_equal(again.prices.client, library.prices.client)
    np.testing.assert_array_equal(again.prices.delay, library.prices.delay)
    save_library(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == content


def test_the_library_travels_beside_the_plan(scenario, tmp_path):
    made = pool_plan(40, 2, 0)
    save_plan(made, tmp_path / "plan.json")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "plan.json",
        "plan.json.library.safetensors",
    ]
    loaded = load_plan(tmp_path / "plan.json", scenario)
    for mode in ("strict", "flexible"):
        for index, round_ in enumerate(bernoulli(scenario, 2, seed=0)):
            same = [decide(p, round_, index=index, mode=mode).edge_of for p in (made, loaded)]
            assert np.array_equal(*same)


def test_a_library_that_is_missing_is_refused(scenario, tmp_path):
    save_plan(pool_plan(40, 2, 0), tmp_path / "plan.json")
    (tmp_path / "plan.json.library.safetensors").unlink()
    with pytest.raises(StagewiseError, match="cannot be read"):
        load_plan(tmp_path / "plan.json", scenario)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../side",
        "/etc/passwd",
        "a/b",
        "\0",
    ],
)
def test_a_library_elsewhere_is_refused(scenario, tmp_path, name):
    path = tmp_path / "plan.json"
    save_plan(pool_plan(40, 2, 0), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "library": name}))
    with pytest.raises(StagewiseError) as error:
        load_plan(path, scenario)
    assert "\n" not in str(error.value)


def test_damaged_files(scenario, content, tmp_path):
    rng = np.random.default_rng(0)
    for damaged in (b"", content[:7], content[:100], content[:-8], content + b"more", b"\0" * 64):
        assert "a part is missing or damaged" in refusal(damaged, scenario, tmp_path)
    huge_header = (2**63 - 1).to_bytes(8, "little") + content[8:]
    assert "damaged" in refusal(huge_header, scenario, tmp_path)
    path = tmp_path / "flipped"
    for place in rng.integers(min(len(content), 600), size=200).tolist():
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(flipped))
        try:
            load_library(path, scenario)
        except StagewiseError as error:
            assert "\n" not in str(error)


@given(st.binary(max_size=300))
def test_any_bytes_at_all(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "library"
    path.write_bytes(data)
    with pytest.raises(StagewiseError, match="not a valid library"):
        load_library(path, pool_plan(40, 2, 0).scenario)


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, name: change(tensors[name])}


def with_value(value: float, *place: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        copy = array.copy()
        copy[place] = value
        return copy

    return change


MISFITS = [
    changed("start", with_value(1, 0)),
    changed("start", with_value(10**9, 1)),
    changed("start", with_value(-5, 1)),
    changed("start", lambda a: a[:-1]),
    changed("start", lambda a: np.append(a, a[-1])),
    changed("start", lambda a: a.astype(np.int32)),
    changed("start", lambda a: a.astype(np.float64)),
    changed("start", lambda a: a.reshape(1, -1)),
    changed("clients", with_value(40, 0, 0)),
    changed("clients", with_value(-2, 0, 0)),
    changed("clients", with_value(2**31 - 1, 5, 1)),
    changed("clients", lambda a: a[:-1]),
    changed("clients", lambda a: a.ravel()),
    changed("clients", lambda a: a[:, :0]),
    changed("clients", lambda a: a.astype(np.int64)),
    changed("client_price", with_value(np.nan, 3)),
    changed("client_price", with_value(np.inf, 3)),
    changed("client_price", with_value(-1, 3)),
    changed("client_price", lambda a: a[:-1]),
    changed("client_price", lambda a: a.astype(np.float32)),
    changed("delay_price", with_value(np.nan, 0)),
    changed("delay_price", with_value(-1e-9, 0)),
    changed("delay_price", lambda a: np.append(a, 0.0)),
]


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_the_scenario(scenario, content, tmp_path, misfit):
    message = refusal(save(misfit(load(content))), scenario, tmp_path)
    assert "must be made for this scenario" in message


@pytest.mark.parametrize("name", ["start", "clients", "client_price", "delay_price"])
def test_a_missing_part(scenario, content, tmp_path, name):
    tensors = load(content)
    del tensors[name]
    assert "a part is missing" in refusal(save(tensors), scenario, tmp_path)


def test_a_link_that_the_scenario_lacks(scenario, content, tmp_path):
    linked = set(scenario.links.client[scenario.links.edge == 0].tolist())
    stranger = next(client for client in range(40) if client not in linked)
    misfit = changed("clients", with_value(stranger, 0, 0))(load(content))
    assert "only use links that the scenario has" in refusal(save(misfit), scenario, tmp_path)


def nobody_at_all(clients: np.ndarray) -> np.ndarray:
    return np.full_like(clients, -1)


def gaps(clients: np.ndarray) -> np.ndarray:
    """Nobody first, and then somebody."""
    return np.concatenate([np.full((len(clients), 1), -1, dtype=np.int32), clients], axis=1)


def twice(clients: np.ndarray) -> np.ndarray:
    """Every member two times: also more than the edge has room for."""
    return np.concatenate([clients[:, :1]] * 40 + [clients], axis=1)


def one_each(clients: np.ndarray) -> np.ndarray:
    """Sets that keep no limit."""
    return np.ascontiguousarray(clients[:, :1])


@pytest.mark.parametrize("lie", [nobody_at_all, gaps, twice, one_each, lambda a: a[:, :0]])
def test_clusters_that_are_none_mislead_nobody(scenario, content, tmp_path, lie):
    """Refused, or else every decision is still true and as feasible as it can be."""
    made = pool_plan(40, 2, 0)
    save_plan(made, tmp_path / "plan.json")
    side = tmp_path / "plan.json.library.safetensors"
    side.write_bytes(save(changed("clients", lie)(load(content))))
    rounds = bernoulli(scenario, 3, seed=0)
    try:
        loaded = load_plan(tmp_path / "plan.json", scenario)
    except StagewiseError as error:
        assert "\n" not in str(error)
        return
    for mode in ("flexible", "strict"):
        decisions = [decide(loaded, r, index=i, mode=mode) for i, r in enumerate(rounds)]
        assert check(scenario, [d.record() for d in decisions], rounds) == []
        honest = [decide(made, r, index=i, mode=mode) for i, r in enumerate(rounds)]
        assert [d.feasible for d in decisions] == [d.feasible for d in honest]


def test_a_plan_goes_to_standard_output_without_its_library(tmp_path, capsys):
    save_scenario(numeric(clients=30, edges=1, seed=0), tmp_path / "s.json")
    assert main(["plan", str(tmp_path / "s.json"), "--method", "pool", "-o", "-"]) == 0
    assert "library" not in json.loads(capsys.readouterr().out)
    assert [file.name for file in tmp_path.iterdir()] == ["s.json"]


def test_a_failed_write_leaves_no_plan_that_names_a_missing_library(tmp_path):
    made = pool_plan(40, 2, 0)
    (tmp_path / "plan.json.library.safetensors").mkdir()
    with pytest.raises(StagewiseError):
        save_plan(made, tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()
